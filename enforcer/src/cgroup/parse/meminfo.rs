//! `/proc/meminfo`.

use super::{Malformed, decimal};
use enforcer_gate::Bytes;

/// `SwapFree` of `/proc/meminfo`.
pub fn swap_free(text: &[u8]) -> Result<Bytes, Malformed> {
    let mut line = 0_u32;
    for row in text.split(|byte| *byte == b'\n') {
        line = line.saturating_add(1);
        if let Some(value) = row.strip_prefix(b"SwapFree:") {
            let kib = value.strip_suffix(b" kB").map(<[u8]>::trim_ascii_start).and_then(decimal);
            return kib.map(|n| Bytes::new(n.saturating_mul(1024))).ok_or(Malformed::NotANumber { line });
        }
    }
    Err(Malformed::Missing { key: "SwapFree" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn swap_free_is_in_kib() {
        let text = b"MemTotal:       24000 kB\nSwapTotal:     2048 kB\nSwapFree:          12 kB\n";
        assert_eq!(swap_free(text), Ok(Bytes::new(12 * 1024)));
        assert_eq!(swap_free(b"MemTotal: 1 kB\n"), Err(Malformed::Missing { key: "SwapFree" }));
        assert_eq!(swap_free(b"a\nSwapFree: x kB\n"), Err(Malformed::NotANumber { line: 2 }));
    }

    proptest! {
        #[test]
        fn any_bytes_parse_or_fail_without_a_panic(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = swap_free(&text);
        }
    }
}
