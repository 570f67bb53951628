//! JSON for scripts that a terminal survives: everything beyond printable ASCII is escaped.

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter};
use std::io;

/// `value` on one line, its end included.
pub(super) fn line<T: Serialize>(value: &T) -> String {
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, Ascii);
    // Our own types have string keys only and no failing serializer, and writing to a Vec can't fail.
    let done = value.serialize(&mut serializer);
    debug_assert!(done.is_ok(), "{done:?}");
    out.push(b'\n');
    String::from_utf8_lossy(&out).into_owned()
}

/// Escapes what JSON itself lets pass: control characters of the second kind, and all beyond ASCII, among which
/// are those that turn the direction of text.
struct Ascii;

impl Formatter for Ascii {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        for c in fragment.chars() {
            if c.is_ascii() && !c.is_ascii_control() {
                CompactFormatter.write_string_fragment(writer, c.encode_utf8(&mut [0; 4]))?;
            } else {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_but_ascii() {
        assert_eq!(
            line(&"a\u{202e}\u{7f}\u{9b}\"\u{1b}😀"),
            "\"a\\u202e\\u007f\\u009b\\\"\\u001b\\ud83d\\ude00\"\n"
        );
    }

    proptest! {
        #[test]
        fn any_text_comes_back(text in any::<String>()) {
            let json = line(&text);
            prop_assert!(json.trim_end().bytes().all(|byte| (0x20..0x7f).contains(&byte)));
            prop_assert_eq!(serde_json::from_str::<String>(&json).expect("is JSON"), text);
        }
    }
}
