//! Text from outside (names of cgroups, programs, errors) made fit to print.

use alloc::string::String;

/// `text` with everything that is not plainly printable escaped, in at most `bytes_max` bytes.
pub(crate) fn escaped(text: &str, bytes_max: usize) -> String {
    let mut out = String::new();
    for c in text.chars() {
        // Beyond ASCII there are bidirectional overrides and look-alikes; names here rarely need it.
        let escape = c.escape_default();
        let plain = c == '\'' || c == '"' || c == '\\';
        let len = if plain { 1 } else { escape.len() };
        if out.len() + len > bytes_max {
            return cut(out, bytes_max);
        }
        if plain {
            out.push(c);
        } else {
            out.extend(escape);
        }
    }
    out
}

/// Marks `out` as cut, within `bytes_max`.
fn cut(mut out: String, bytes_max: usize) -> String {
    const MARK: &str = "...";
    if bytes_max >= MARK.len() {
        while out.len() + MARK.len() > bytes_max && out.pop().is_some() {}
        out.push_str(MARK);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn escapes_and_bounds() {
        let check = |input: &str, max: usize, expect: &str| {
            let out = escaped(input, max);
            assert_eq!(out, expect);
            assert!(out.len() <= max);
        };
        check("plain name", 64, "plain name");
        check("it's", 64, "it's");
        check("a\x1b[31mred\n", 64, "a\\u{1b}[31mred\\n");
        check("right\u{202e}left", 64, "right\\u{202e}left");
        check("abcdefgh", 6, "abc...");
        check("ab\x1b", 5, "ab...");
        check("abc", 2, "ab");
    }
}
