//! Names made by others, made fit to print.

use std::{fmt::Write as _, os::unix::ffi::OsStrExt as _, path::Path};

/// Most bytes of a name that [`shown`] gives back, escapes included.
pub const SHOWN_BYTES_MAX: usize = 512;

/// Most bytes of a message that [`printable`] gives back: it names a few things at most.
const MESSAGE_BYTES_MAX: usize = 8 * SHOWN_BYTES_MAX;

/// `path` with control characters, backslashes, invisible formatting characters and bytes that are not UTF-8
/// escaped, and cut to [`SHOWN_BYTES_MAX`] (the cut is marked): safe for a terminal, a log line and JSON.
pub fn shown(path: impl AsRef<Path>) -> String {
    escaped(path.as_ref().as_os_str().as_bytes(), "'\"", SHOWN_BYTES_MAX)
}

/// A message, whose names went through [`shown`] already, with whatever else is not fit to print escaped as well:
/// other people's messages quote what they were given as it is. Backslashes stay, so twice is as good as once.
pub fn printable(message: &str) -> String {
    escaped(message.as_bytes(), "'\"\\", MESSAGE_BYTES_MAX)
}

fn escaped(bytes: &[u8], kept: &str, bytes_max: usize) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            let plain = kept.contains(c) || (c != '\\' && c.escape_debug().len() == 1);
            if plain {
                text.push(c);
            } else {
                text.extend(c.escape_debug());
            }
            if text.len() > bytes_max {
                return cut(text, bytes_max);
            }
        }
        for byte in chunk.invalid() {
            // Writing to a String can't fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
        if text.len() > bytes_max {
            return cut(text, bytes_max);
        }
    }
    text
}

fn cut(mut text: String, bytes_max: usize) -> String {
    let mark = "...";
    let mut end = bytes_max - mark.len();
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

    #[test]
    fn a_message_keeps_the_escapes_that_it_has() {
        let message = format!("{}: unknown field `\u{1b}[2J\u{202e}`", shown("a\u{1b}"));
        assert_eq!(printable(&message), "a\\u{1b}: unknown field `\\u{1b}[2J\\u{202e}`");
        assert_eq!(printable(&printable(&message)), printable(&message));
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
