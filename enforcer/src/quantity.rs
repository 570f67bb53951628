//! Quantities of memory in the grammar of Kubernetes (apimachinery's `resource.Quantity`). No I/O.
//!
//! `<digits>[.<digits>]` with an optional sign and one of: a binary suffix (`Ki Mi Gi Ti Pi Ei`), a decimal
//! one (`n u m k M G T P E`), a decimal exponent (`e3`, `E-3`), or nothing. All arithmetic is exact; part of a
//! byte counts as a whole one, as Kubernetes rounds.

use crate::cgroup::shown;
use enforcer_gate::{BINARY_SUFFIXES, Bytes, PAGE_SIZE};
use std::fmt;

/// Most bytes of text that a quantity can have.
pub const QUANTITY_BYTES_MAX: usize = 64;

/// Most bytes that a memory limit can be: a Kubernetes quantity ends here, and so does the kernel's page counter
/// (`PAGE_COUNTER_MAX` in `include/linux/page_counter.h`), which would take more for `max`.
pub const TARGET_BYTES_MAX: u64 = i64::MAX as u64;

/// 10^38 is the highest power of ten in a `u128`.
const DIGITS_MAX: usize = 38;

const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// What is wrong with a quantity, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// No text.
    #[error("it is empty; give a quantity such as 256Mi")]
    Empty,
    /// Longer than any quantity.
    #[error("it is longer than {QUANTITY_BYTES_MAX} bytes; give a quantity such as 256Mi")]
    TooLong,
    /// It does not begin with a number.
    #[error("{:?} does not begin with a number; give a quantity such as 256Mi", Quoted(.0))]
    NoNumber(String),
    /// The number is followed by something that is no suffix.
    #[error("{:?} is no suffix; {}", Quoted(.0), meant(.0))]
    Suffix(String),
    /// More than `u64::MAX` bytes, or more digits than any memory has.
    #[error("it is more than 64 bits of bytes can hold")]
    Overflow,
    /// Below zero.
    #[error("it is negative; a memory limit is at least {PAGE_SIZE} bytes (one page)")]
    Negative,
    /// Zero, which as a limit would kill every process.
    #[error("it is zero, which no process survives; a memory limit is at least {PAGE_SIZE} bytes (one page)")]
    Zero,
    /// Rounded down to pages, as the kernel does, it would be zero.
    #[error(
        "{} B is less than a page, and the kernel rounds a limit down to whole pages of {PAGE_SIZE} bytes; \
         give at least {PAGE_SIZE}", .0.get()
    )]
    BelowPage(Bytes),
    /// The kernel's word for no limit.
    #[error("max means no limit, and nothing can be lowered to that; give a quantity such as 256Mi")]
    Max,
    /// A few thousandths of a byte.
    #[error("m is a thousandth of a byte; did you mean M or Mi?")]
    Thousandths,
    /// No amount of CPU.
    #[error("{:?} is no amount of CPU; give CPUs such as 1.5 or 500m, more than zero", Quoted(.0))]
    Cpu(String),
    /// Less than any period of `cpu.max` makes a quota of.
    #[error(
        "{:?} is less than a thousandth of a CPU (1m), and the kernel takes no quota of less than 1000us: 10m of the \
         usual period of 100ms", Quoted(.0)
    )]
    CpuTooLittle(String),
    /// Higher than a limit can be.
    #[error("{} B is more than the highest limit, {TARGET_BYTES_MAX} B", .0.get())]
    AboveMax(Bytes),
}

/// Text for a message: escaped and bounded, in quotes.
struct Quoted<'a>(&'a str);

impl fmt::Debug for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", shown(self.0))
    }
}

/// What a wrong suffix was meant to be.
fn meant(suffix: &str) -> String {
    let like = suffix.trim_end_matches(['b', 'B']);
    let binary = BINARY_SUFFIXES.iter().map(|(name, _)| *name);
    let known = binary.chain(DECIMAL.iter().filter(|(_, power)| *power > 0).map(|(name, _)| *name));
    known.into_iter().find(|name| name.eq_ignore_ascii_case(like)).map_or_else(
        || "those of Kubernetes are Ki Mi Gi Ti Pi Ei, k M G T P E, m u n, or an exponent such as e6".into(),
        |name| format!("did you mean {name}?"),
    )
}

/// An amount of memory: zero or more, up to `u64::MAX` bytes.
pub fn parse_bytes(text: &str) -> Result<Bytes, QuantityError> {
    amount(text, 0).map(Bytes::new)
}

/// An amount of CPU in thousandths, zero or more; part of one counts as a whole one (`Quantity.MilliValue`).
pub fn parse_millicores(text: &str) -> Result<u64, QuantityError> {
    amount(text, 3)
}

/// Times ten to the power of `more`, rounded up.
fn amount(text: &str, more: i32) -> Result<u64, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Empty);
    }
    if text.len() > QUANTITY_BYTES_MAX {
        return Err(QuantityError::TooLong);
    }
    let (negative, rest) = match text.as_bytes()[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let number = Number::parse(rest).ok_or_else(|| QuantityError::NoNumber(text.into()))?;
    let scale = Scale::parse(number.rest).ok_or_else(|| QuantityError::Suffix(number.rest.into()))?;
    let scale = Scale { power: scale.power.saturating_add(more), ..scale };
    let whole = number.ceil_at(scale).ok_or(QuantityError::Overflow)?;
    if negative && whole != 0 {
        return Err(QuantityError::Negative);
    }
    u64::try_from(whole).map_err(|_| QuantityError::Overflow)
}

/// A value for `memory.max`: at least a page and at most [`TARGET_BYTES_MAX`]. It is not rounded here.
pub fn parse_target(text: &str) -> Result<Bytes, QuantityError> {
    if text == "max" {
        return Err(QuantityError::Max);
    }
    let bytes = parse_bytes(text)?;
    match bytes.get() {
        1..PAGE_SIZE if text.ends_with('m') => Err(QuantityError::Thousandths),
        0 => Err(QuantityError::Zero),
        1..PAGE_SIZE => Err(QuantityError::BelowPage(bytes)),
        PAGE_SIZE..=TARGET_BYTES_MAX => Ok(bytes),
        _ => Err(QuantityError::AboveMax(bytes)),
    }
}

/// Most CPUs that can be asked for, in thousandths: far more than any machine has, and what every period of
/// `cpu.max` takes.
const MILLI_CPUS_MAX: u128 = 1_000_000_000;

/// An amount of CPU in thousandths, at least one; part of one counts as a whole one.
pub fn parse_cpu(text: &str) -> Result<u64, QuantityError> {
    let bad = || QuantityError::Cpu(text.into());
    if text.len() > QUANTITY_BYTES_MAX {
        return Err(bad());
    }
    let number = Number::parse(text.strip_prefix('+').unwrap_or(text)).ok_or_else(bad)?;
    let scale = Scale::parse(number.rest).ok_or_else(bad)?;
    let millionths = number.ceil_at(Scale { power: scale.power.saturating_add(6), ..scale });
    if millionths.is_some_and(|millionths| (1..1000).contains(&millionths)) {
        return Err(QuantityError::CpuTooLittle(text.into()));
    }
    let scale = Scale { power: scale.power.saturating_add(3), ..scale };
    let milli = number.ceil_at(scale).filter(|milli| (1..=MILLI_CPUS_MAX).contains(milli)).ok_or_else(bad)?;
    u64::try_from(milli).map_err(|_| bad())
}

/// An amount of CPU in thousandths as an object of the API has it: zero or more; part of one counts as a whole one
/// (`Quantity.MilliValue`).
pub fn parse_milli_cpu(text: &str) -> Result<u64, QuantityError> {
    let bad = || QuantityError::Cpu(text.into());
    if text.len() > QUANTITY_BYTES_MAX {
        return Err(bad());
    }
    let number = Number::parse(text.strip_prefix('+').unwrap_or(text)).ok_or_else(bad)?;
    let scale = Scale::parse(number.rest).ok_or_else(bad)?;
    let scale = Scale { power: scale.power.saturating_add(3), ..scale };
    let milli = number.ceil_at(scale).filter(|milli| *milli <= MILLI_CPUS_MAX).ok_or_else(bad)?;
    u64::try_from(milli).map_err(|_| bad())
}

/// Digits with a point among them: `mantissa` / 10^`fraction`.
pub(crate) struct Number<'a> {
    mantissa: Option<u128>,
    fraction: u32,
    rest: &'a str,
}

impl<'a> Number<'a> {
    /// `None` without a digit. Too many digits leave the mantissa empty.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let digits = |text: &'a str| text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
        let (whole, rest) = digits(text);
        let (part, rest) = match rest.strip_prefix('.') {
            Some(after) => digits(after),
            None => ("", rest),
        };
        if whole.is_empty() && part.is_empty() {
            return None;
        }
        let (whole, part) = (whole.trim_start_matches('0'), part.trim_end_matches('0'));
        let mantissa = if whole.len() + part.len() > DIGITS_MAX {
            None
        } else {
            let value = |sum: u128, digit: u8| sum * 10 + u128::from(digit - b'0');
            Some(whole.bytes().chain(part.bytes()).fold(0, value))
        };
        Some(Self { mantissa, fraction: u32::try_from(part.len()).ok()?, rest })
    }

    /// The number `factor` times.
    pub(crate) fn times(&self, factor: u64) -> Self {
        let mantissa = self.mantissa.and_then(|mantissa| mantissa.checked_mul(u128::from(factor)));
        Self { mantissa, ..*self }
    }

    /// What follows the number.
    pub(crate) fn rest(&self) -> &'a str {
        self.rest
    }

    /// `mantissa * 10^power * 2^shift / 10^fraction`, rounded up; `None` if that takes more than 128 bits.
    pub(crate) fn ceil_at(&self, scale: Scale) -> Option<u128> {
        let mantissa = self.mantissa?;
        if mantissa == 0 {
            return Some(0);
        }
        let power = i64::from(scale.power) - i64::from(self.fraction);
        let (mut whole, mut part, unit) = if power >= 0 {
            (mantissa.checked_mul(10_u128.checked_pow(u32::try_from(power).ok()?)?)?, 0, 1)
        } else {
            match 10_u128.checked_pow(u32::try_from(-power).ok()?) {
                Some(unit) => (mantissa / unit, mantissa % unit, unit),
                // A mantissa of at most 38 digits over 10^39 or more is less than a tenth, and a binary
                // suffix never comes with so small a power.
                None => return Some(1),
            }
        };
        // `part` stays below 10^38, so twice as much fits.
        for _ in 0..scale.shift {
            part *= 2;
            whole = whole.checked_mul(2)?;
            if part >= unit {
                part -= unit;
                whole += 1;
            }
        }
        whole.checked_add(u128::from(part > 0))
    }
}

/// What a suffix multiplies by: 10^`power` * 2^`shift`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) power: i32,
    pub(crate) shift: u32,
}

impl Scale {
    fn parse(suffix: &str) -> Option<Self> {
        if let Some((_, shift)) = BINARY_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
            return Some(Self { power: 0, shift: *shift });
        }
        if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
            return Some(Self { power: *power, shift: 0 });
        }
        let exponent = suffix.strip_prefix(['e', 'E'])?;
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        // Far out of any range is as good as the end of it.
        let power = digits.parse().unwrap_or(i32::MAX).min(1_000_000);
        Some(Self { power: if exponent.starts_with('-') { -power } else { power }, shift: 0 })
    }
}

/// To be typed in again: the highest binary suffix that loses nothing.
pub fn exact(bytes: Bytes) -> String {
    let bytes = bytes.get();
    match BINARY_SUFFIXES.iter().rev().find(|(_, shift)| bytes != 0 && bytes.is_multiple_of(1 << shift)) {
        Some((suffix, shift)) => format!("{}{suffix}", bytes >> shift),
        None => format!("{bytes}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, bytes: u64) {
        assert_eq!(parse_bytes(text), Ok(Bytes::new(bytes)), "{text}");
    }

    #[test]
    fn the_grammar_of_kubernetes() {
        for (text, bytes) in [
            ("0", 0),
            ("-0", 0),
            ("+1", 1),
            ("1.", 1),
            (".5Ki", 512),
            ("0.5Gi", 536_870_912),
            ("256Mi", 268_435_456),
            ("1e3", 1000),
            ("1E3", 1000),
            ("1E+3", 1000),
            ("25e-1", 3),
            ("1E", 1_000_000_000_000_000_000),
            ("15Ei", 17_293_822_569_102_704_640),
            ("16384P", 16_384_000_000_000_000_000),
            ("129M", 129_000_000),
            ("1k", 1000),
            ("1.5Ki", 1536),
            ("1.0001Ki", 1025),
            ("1m", 1),
            ("1001m", 2),
            ("1000u", 1),
            ("1n", 1),
            ("0n", 0),
            ("1e-999999999999999999", 1),
            ("0e999999999999999999", 0),
            ("18446744073709551615", u64::MAX),
            ("00000000000000000000000000000000000000000000000000000000001", 1),
            ("0.00000000000000000000000000000000000001Ei", 1),
            ("9999999Ti", 10_995_115_178_248_372_224),
        ] {
            check(text, bytes);
        }
    }

    #[test]
    fn cpus_in_thousandths() {
        for (text, milli) in [
            ("0", 0),
            ("250m", 250),
            ("0.25", 250),
            ("1", 1000),
            ("1.0001", 1001),
            ("1u", 1),
            ("1Ki", 1_024_000),
            ("1e3", 1_000_000),
        ] {
            assert_eq!(parse_millicores(text), Ok(milli), "{text}");
        }
        assert_eq!(parse_millicores("18446744073709551615"), Err(QuantityError::Overflow));
        assert_eq!(parse_millicores("-1m"), Err(QuantityError::Negative));
    }

    #[test]
    fn what_is_no_quantity() {
        use QuantityError::{Empty, Negative, NoNumber, Overflow, Suffix, TooLong};
        for (text, error) in [
            ("", Empty),
            ("Mi", NoNumber("Mi".into())),
            ("-", NoNumber("-".into())),
            (".", NoNumber(".".into())),
            ("--1", NoNumber("--1".into())),
            (" 1", NoNumber(" 1".into())),
            ("-1", Negative),
            ("-1n", Negative),
            ("12x", Suffix("x".into())),
            ("1K", Suffix("K".into())),
            ("1mi", Suffix("mi".into())),
            ("1e", Suffix("e".into())),
            ("1e+", Suffix("e+".into())),
            ("1e1.5", Suffix("e1.5".into())),
            ("1EiB", Suffix("EiB".into())),
            ("1 ", Suffix(" ".into())),
            ("1.2.3", Suffix(".3".into())),
            ("1٣", Suffix("٣".into())),
            ("16Ei", Overflow),
            ("18446744073709551616", Overflow),
            ("18446744073709551615.1", Overflow),
            ("1e999999999999999999", Overflow),
            ("999999999999999999999999999999999999999Ei", Overflow),
            (&"1".repeat(65), TooLong),
        ] {
            assert_eq!(parse_bytes(text), Err(error), "{text}");
        }
    }

    #[test]
    fn targets() {
        assert_eq!(parse_target("4096"), Ok(Bytes::new(4096)));
        assert_eq!(parse_target("0.5Gi"), Ok(Bytes::from_mib(512)));
        assert_eq!(parse_target("9223372036854775807"), Ok(Bytes::new(TARGET_BYTES_MAX)));
        for (text, says) in [
            ("0", "it is zero"),
            ("1", "1 B is less than a page"),
            ("4095", "rounds a limit down to whole pages of 4096 bytes"),
            ("12x", "\"x\" is no suffix; those of Kubernetes are"),
            ("100mi", "\"mi\" is no suffix; did you mean Mi?"),
            ("1GiB", "did you mean Gi?"),
            ("1gb", "did you mean G?"),
            ("1K", "did you mean k?"),
            ("100m", "did you mean M or Mi?"),
            ("max", "nothing can be lowered to that"),
            ("-1", "it is negative"),
            ("1e3", "1000 B is less than a page"),
            ("9999999Ti", "10995115178248372224 B is more than the highest limit"),
            ("", "it is empty"),
            ("1\u{1b}[2J\u{202e}", "\"\\u{1b}[2J\\u{202e}\" is no suffix"),
        ] {
            let error = parse_target(text).expect_err(text).to_string();
            assert!(error.contains(says), "{text}: {error}");
            assert!(!error.contains(char::is_control), "{text}: {error:?}");
        }
    }

    #[test]
    fn cpu_of_the_api() {
        for (text, milli) in
            [("0", 0), ("100m", 100), ("1.5", 1500), ("1500000u", 1500), ("0.0001", 1), ("2", 2000)]
        {
            assert_eq!(parse_milli_cpu(text), Ok(milli), "{text}");
        }
        for text in ["", "-1", "1x", "9e30", &"1".repeat(65)] {
            assert_eq!(parse_milli_cpu(text), Err(QuantityError::Cpu(text.into())), "{text}");
        }
    }

    #[test]
    fn to_type_again() {
        for (bytes, typed) in [
            (0, "0"),
            (1023, "1023"),
            (4096, "4Ki"),
            (268_435_456, "256Mi"),
            (97_935_360, "95640Ki"),
            (u64::MAX, "18446744073709551615"),
        ] {
            assert_eq!(exact(Bytes::new(bytes)), typed, "{bytes}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,70}") {
            let _ = parse_target(&text);
        }

        #[test]
        fn near_misses_do_not_panic(text in "[-+]{0,2}[0-9]{0,40}\\.?[0-9]{0,40}[eEinumkKMGTP]{0,3}[-+]?[0-9]{0,20}") {
            let _ = parse_target(&text);
        }

        #[test]
        fn what_is_typed_again_is_the_same(bytes in any::<u64>(), shift in 0_u32..64) {
            let bytes = Bytes::new(bytes >> shift << (shift / 2));
            prop_assert_eq!(parse_bytes(&exact(bytes)), Ok(bytes));
        }

        #[test]
        fn fractions_are_exact_and_round_up(whole in 0_u64..1 << 20, thousandths in 0_u64..1000, unit in 0_usize..3) {
            let (suffix, shift) = BINARY_SUFFIXES[unit];
            let expected = (u128::from(whole * 1000 + thousandths) << shift).div_ceil(1000);
            let text = format!("{whole}.{thousandths:03}{suffix}");
            prop_assert_eq!(u128::from(parse_bytes(&text).expect("parses").get()), expected);
        }
    }
}
