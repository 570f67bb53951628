//! Amounts as people read them: exact where that is short (`256Mi`, `10s`), else with one decimal (`93.4Mi`,
//! `2.5s`). What a file or a script gets is the raw count instead.

use crate::{Bytes, Limit, Micros};
use core::fmt;

/// Kubernetes' binary suffixes, each with its power of two.
pub const BINARY_SUFFIXES: [(&str, u32); 6] =
    [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// Rounded up: whoever types a minimum in again as shown must not be under it.
pub(crate) struct AtLeast(pub(crate) Bytes);

#[derive(Clone, Copy)]
enum Rounding {
    Nearest,
    Up,
}

fn amount(f: &mut fmt::Formatter<'_>, bytes: Bytes, rounding: Rounding) -> fmt::Result {
    let bytes = bytes.get();
    let Some((suffix, shift)) = BINARY_SUFFIXES.iter().rev().find(|(_, shift)| bytes >> shift > 0) else {
        return f.pad(&alloc::format!("{bytes}"));
    };
    let unit = 1_u128 << shift;
    let more = match rounding {
        Rounding::Nearest => unit / 2,
        Rounding::Up => unit - 1,
    };
    decimal(f, (u128::from(bytes) * 10 + more) / unit, suffix)
}

/// Pads as the format asks, so that columns of it line up.
fn decimal(f: &mut fmt::Formatter<'_>, tenths: u128, unit: &str) -> fmt::Result {
    match (tenths / 10, tenths % 10) {
        (whole, 0) => f.pad(&alloc::format!("{whole}{unit}")),
        (whole, tenth) => f.pad(&alloc::format!("{whole}.{tenth}{unit}")),
    }
}

impl fmt::Display for Bytes {
    /// Rounded to nearest.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        amount(f, *self, Rounding::Nearest)
    }
}

impl fmt::Display for AtLeast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        amount(f, self.0, Rounding::Up)
    }
}

impl fmt::Display for Limit {
    /// As an amount, or `max`. A limit file takes the bytes themselves.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Max => f.pad("max"),
        }
    }
}

impl Limit {
    /// As a limit file takes and shows it, for whoever has to write it there by hand: bytes, or `max`.
    pub fn raw(self) -> impl fmt::Display {
        fmt::from_fn(move |f| match self {
            Self::Bytes(bytes) => write!(f, "{}", bytes.get()),
            Self::Max => f.write_str("max"),
        })
    }
}

impl fmt::Display for Micros {
    /// Rounded down: `80us`, `1.2ms`, `250ms`, `2.5s`, `2m5s`, `168h`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.get();
        let seconds = micros / 1_000_000;
        let two = |f: &mut fmt::Formatter<'_>, (whole, unit), (part, small)| match part {
            0 => f.pad(&alloc::format!("{whole}{unit}")),
            part => f.pad(&alloc::format!("{whole}{unit}{part}{small}")),
        };
        match micros {
            0..1_000 => f.pad(&alloc::format!("{micros}us")),
            1_000..10_000 => decimal(f, u128::from(micros / 100), "ms"),
            10_000..1_000_000 => f.pad(&alloc::format!("{}ms", micros / 1_000)),
            1_000_000..60_000_000 => decimal(f, u128::from(micros / 100_000), "s"),
            60_000_000..3_600_000_000 => two(f, (seconds / 60, "m"), (seconds % 60, "s")),
            _ => two(f, (seconds / 3_600, "h"), (seconds % 3_600 / 60, "m")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;

    #[test]
    fn amounts() {
        for (bytes, nearest, at_least) in [
            (0, "0", "0"),
            (1023, "1023", "1023"),
            (4096, "4Ki", "4Ki"),
            (268_435_456, "256Mi", "256Mi"),
            (97_935_360, "93.4Mi", "93.4Mi"),
            (183_500_800, "175Mi", "175Mi"),
            (183_508_992, "175Mi", "175.1Mi"),
            (u64::MAX, "16Ei", "16Ei"),
        ] {
            let bytes = Bytes::new(bytes);
            assert_eq!(bytes.to_string(), nearest);
            assert_eq!(AtLeast(bytes).to_string(), at_least, "{bytes}");
            assert_eq!(Limit::Bytes(bytes).to_string(), nearest);
        }
        assert_eq!(Limit::Max.to_string(), "max");
        assert_eq!(
            [Limit::Max, Limit::Bytes(Bytes::new(97_935_360))].map(|limit| limit.raw().to_string()),
            ["max", "97935360"]
        );
        assert_eq!(alloc::format!("[{:>6}|{:<4}]", Bytes::from_mib(1), Limit::Max), "[   1Mi|max ]");
    }

    #[test]
    fn times() {
        for (micros, text) in [
            (0, "0us"),
            (999, "999us"),
            (1_250, "1.2ms"),
            (250_000, "250ms"),
            (1_240_000, "1.2s"),
            (10_000_000, "10s"),
            (60_000_000, "1m"),
            (125_000_000, "2m5s"),
            (5_400_000_000, "1h30m"),
            (604_800_000_000, "168h"),
        ] {
            assert_eq!(Micros::new(micros).to_string(), text);
        }
    }
}
