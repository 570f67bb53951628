//! PSI files.

use super::{Malformed, decimal};
use enforcer_gate::{Micros, Pressure};

/// Parses `memory.pressure` (`psi_show` in `kernel/sched/psi.c`): a `some` line and a `full` line, each with a
/// `total=` in microseconds. The averages are not looked at.
pub fn pressure(text: &[u8]) -> Result<Pressure, Malformed> {
    let (mut some, mut full) = (None, None);
    let mut line = 0_u32;
    for raw in text.split_inclusive(|byte| *byte == b'\n') {
        line = line.saturating_add(1);
        let Some(row) = raw.strip_suffix(b"\n") else { return Err(Malformed::CutOff { line }) };
        let mut words = row.split(|byte| *byte == b' ');
        let total = match words.next() {
            Some(b"some") => &mut some,
            Some(b"full") => &mut full,
            Some(_) | None => continue,
        };
        let digits =
            words.find_map(|word| word.strip_prefix(b"total=")).ok_or(Malformed::NoValue { line })?;
        *total = Some(Micros::new(decimal(digits).ok_or(Malformed::NotANumber { line })?));
    }
    Ok(Pressure {
        some_total: some.ok_or(Malformed::Missing { key: "some" })?,
        full_total: full.ok_or(Malformed::Missing { key: "full" })?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_totals_are_read() {
        let text = b"some avg10=0.12 avg60=0.00 avg300=0.00 total=1234\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=56\n";
        let read = Pressure { some_total: Micros::new(1234), full_total: Micros::new(56) };
        assert_eq!(pressure(text), Ok(read));
        assert_eq!(pressure(b"some avg10=0 total=1\n"), Err(Malformed::Missing { key: "full" }));
        assert_eq!(pressure(b"some avg10=0\n"), Err(Malformed::NoValue { line: 1 }));
        assert_eq!(pressure(b"some total=x\n"), Err(Malformed::NotANumber { line: 1 }));
        assert_eq!(pressure(b"some total=1\nfull total=2"), Err(Malformed::CutOff { line: 2 }));
    }

    proptest! {
        #[test]
        fn any_bytes_parse_or_fail_without_a_panic(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = pressure(&text);
        }
    }
}
