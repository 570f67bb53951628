//! Spans of time as people write them: `500ms`, `10s`, `2m`, `1.5s`, `1m30s`. No I/O.

use crate::{
    cgroup::shown,
    quantity::{Number, Scale},
};
use enforcer_gate::Micros;

/// Most bytes of text that a span can have.
pub const DURATION_BYTES_MAX: usize = 64;

/// Microseconds as power of ten, and what to multiply with.
const UNITS: [(&str, i32, u64); 5] = [("us", 0, 1), ("ms", 3, 1), ("s", 6, 1), ("m", 6, 60), ("h", 6, 3600)];

/// The units, for people.
pub(crate) const UNITS_SHOWN: &str = "us, ms, s, m or h";

/// What is wrong with a span, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// No text, or longer than any span.
    #[error("it is empty or longer than {DURATION_BYTES_MAX} bytes; give a time such as 10s or 500ms")]
    Length,
    /// A number was expected.
    #[error("\"{}\" does not begin with a number; give a time such as 10s or 500ms", shown(.0))]
    NoNumber(String),
    /// A unit was expected.
    #[error("\"{}\" is no unit; those are us, ms, s, m and h", shown(.0))]
    Unit(String),
    /// A number without a unit.
    #[error("the unit is missing ({UNITS_SHOWN}), as in 10s or 500ms")]
    NoUnit,
    /// More than 64 bits of microseconds.
    #[error("it is too long a time")]
    Overflow,
}

/// Parts of a microsecond count as whole ones.
pub fn parse_duration(text: &str) -> Result<Micros, DurationError> {
    if text.is_empty() || text.len() > DURATION_BYTES_MAX {
        return Err(DurationError::Length);
    }
    let mut sum = 0_u64;
    let mut rest = text;
    while !rest.is_empty() {
        let number = Number::parse(rest).ok_or_else(|| DurationError::NoNumber(rest.into()))?;
        rest = number.rest();
        let length = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
        let (name, after) = rest.split_at(length);
        let unit = UNITS.iter().find(|(unit, ..)| *unit == name);
        let (_, power, factor) = match unit {
            Some(unit) => *unit,
            None if rest.is_empty() => return Err(DurationError::NoUnit),
            None => return Err(DurationError::Unit(rest.into())),
        };
        rest = after;
        let micros = number
            .times(factor)
            .ceil_at(Scale { power, shift: 0 })
            .and_then(|micros| u64::try_from(micros).ok())
            .and_then(|micros| sum.checked_add(micros));
        sum = micros.ok_or(DurationError::Overflow)?;
    }
    Ok(Micros::new(sum))
}

/// To be typed in again: in the highest unit that loses nothing.
pub fn exact(span: Micros) -> String {
    let micros = span.get();
    let whole = UNITS.iter().rev().find_map(|(name, power, factor)| {
        let unit = 10_u64.pow(power.unsigned_abs()) * factor;
        (micros != 0 && micros.is_multiple_of(unit)).then(|| format!("{}{name}", micros / unit))
    });
    whole.unwrap_or_else(|| "0s".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spans() {
        for (text, micros) in [
            ("10s", 10_000_000),
            ("500ms", 500_000),
            ("2m", 120_000_000),
            ("1m30s", 90_000_000),
            ("1.5s", 1_500_000),
            ("0.5m", 30_000_000),
            ("7us", 7),
            ("1.1us", 2),
            ("0s", 0),
            ("1h", 3_600_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Micros::new(micros)), "{text}");
        }
    }

    #[test]
    fn what_is_no_span() {
        use DurationError::{Length, NoNumber, NoUnit, Overflow, Unit};
        for (text, error) in [
            ("", Length),
            ("10", NoUnit),
            ("s", NoNumber("s".into())),
            ("-1s", NoNumber("-1s".into())),
            ("1s ", NoNumber(" ".into())),
            ("1 s", Unit(" s".into())),
            ("1d", Unit("d".into())),
            ("1sm", Unit("sm".into())),
            ("99999999999999999h", Overflow),
            ("18446744073709s1h", Overflow),
        ] {
            assert_eq!(parse_duration(text), Err(error), "{text}");
        }
    }

    #[test]
    fn to_type_again() {
        for (micros, typed) in [
            (0, "0s"),
            (1, "1us"),
            (1_500, "1500us"),
            (90_000_000, "90s"),
            (7_200_000_000, "2h"),
            (250_000, "250ms"),
        ] {
            assert_eq!(exact(Micros::new(micros)), typed);
        }
    }

    proptest! {
        #[test]
        fn what_is_typed_again_is_the_same(micros in any::<u64>(), factor in 0_usize..5) {
            let (_, power, times) = UNITS[factor];
            let micros = Micros::new((micros >> 32) * 10_u64.pow(power.unsigned_abs()) * times);
            prop_assert_eq!(parse_duration(&exact(micros)), Ok(micros));
        }

        #[test]
        fn what_is_shown_can_be_typed_again(micros in any::<u64>()) {
            let shown = Micros::new(micros).to_string();
            let again = parse_duration(&shown).expect("a time");
            prop_assert!(again.get() <= micros && again.to_string() == shown, "{shown}");
        }

        #[test]
        fn no_text_panics(text in "[-+0-9.]{0,30}[a-zµ ]{0,3}\\PC{0,40}") {
            let _ = parse_duration(&text);
        }
    }
}
