//! Names made by others, made fit to print.

use std::{fmt::Write as _, os::unix::ffi::OsStrExt as _, path::Path};

/// Most bytes of a name that [`shown`] gives back, escapes included.
pub const SHOWN_BYTES_MAX: usize = 512;

/// `path` with control characters, backslashes, invisible formatting characters and bytes that are not UTF-8
/// escaped, and cut to [`SHOWN_BYTES_MAX`] (the cut is marked): safe for a terminal, a log line and JSON.
pub fn shown(path: impl AsRef<Path>) -> String {
    let mut text = String::new();
    for chunk in path.as_ref().as_os_str().as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            let plain = c == '\'' || c == '"' || (c != '\\' && c.escape_debug().len() == 1);
            if plain {
                text.push(c);
            } else {
                text.extend(c.escape_debug());
            }
            if text.len() > SHOWN_BYTES_MAX {
                return cut(text);
            }
        }
        for byte in chunk.invalid() {
            // Writing to a String can't fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
        if text.len() > SHOWN_BYTES_MAX {
            return cut(text);
        }
    }
    text
}

fn cut(mut text: String) -> String {
    let mark = "...";
    let mut end = SHOWN_BYTES_MAX - mark.len();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text.push_str(mark);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::ffi::OsStr;

    #[test]
    fn control_characters_and_bad_bytes_are_escaped() {
        assert_eq!(shown("/a/b-1.scope"), "/a/b-1.scope");
        assert_eq!(shown("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(shown(OsStr::from_bytes(b"a\xff\xc3")), "a\\xff\\xc3");
        assert_eq!(shown("a\\n"), "a\\\\n");
        assert_eq!(shown("r\u{202e}evil"), "r\\u{202e}evil");
        assert_eq!(shown("it's \"ü\""), "it's \"ü\"");
    }

    proptest! {
        #[test]
        fn any_name_comes_out_short_and_printable(bytes in proptest::collection::vec(any::<u8>(), 0..5000)) {
            let text = shown(OsStr::from_bytes(&bytes));
            prop_assert!(text.len() <= SHOWN_BYTES_MAX);
            prop_assert!(text.chars().all(|c| !c.is_control()));
        }
    }
}
