//! Single values.

use super::{Malformed, decimal};
use enforcer_gate::{Bytes, Limit};

fn line(text: &[u8]) -> Result<&[u8], Malformed> {
    text.strip_suffix(b"\n").ok_or(Malformed::CutOff { line: 1 })
}

/// Parses a limit file (`seq_puts_memcg_tunable` in `mm/memcontrol.c`): decimal bytes, or `max`.
pub fn limit(text: &[u8]) -> Result<Limit, Malformed> {
    match line(text)? {
        b"max" => Ok(Limit::Max),
        digits => {
            decimal(digits).map(|n| Limit::Bytes(Bytes::new(n))).ok_or(Malformed::NotANumber { line: 1 })
        }
    }
}

/// Parses a file that holds one decimal number, such as `memory.current`.
pub fn number(text: &[u8]) -> Result<u64, Malformed> {
    decimal(line(text)?).ok_or(Malformed::NotANumber { line: 1 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limits_are_bytes_or_max() {
        assert_eq!(limit(b"max\n"), Ok(Limit::Max));
        assert_eq!(limit(b"0\n"), Ok(Limit::Bytes(Bytes::ZERO)));
        assert_eq!(limit(b"4096\n"), Ok(Limit::Bytes(Bytes::new(4096))));
        for wrong in [&b"4096"[..], b"max", b""] {
            assert_eq!(limit(wrong), Err(Malformed::CutOff { line: 1 }));
        }
        for wrong in
            [&b"\n"[..], b"-1\n", b"+1\n", b" 1\n", b"1 \n", b"MAX\n", b"1\n\n", b"99999999999999999999\n"]
        {
            assert_eq!(limit(wrong), Err(Malformed::NotANumber { line: 1 }), "{}", wrong.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_parse_or_fail_without_a_panic(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = limit(&text);
            let _ = number(&text);
        }

        #[test]
        fn what_is_written_comes_back(bytes: u64) {
            let value = Limit::Bytes(Bytes::new(bytes));
            prop_assert_eq!(limit(format!("{bytes}\n").as_bytes()), Ok(value));
        }
    }
}
