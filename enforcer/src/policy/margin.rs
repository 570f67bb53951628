//! The margin on top of a safe minimum.

use crate::{
    cgroup::shown,
    quantity::{QuantityError, parse_bytes},
};
use enforcer_gate::Bytes;
use std::fmt;

/// A share of the safe minimum or an amount, whichever is more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Margin {
    /// The share, in per cent.
    pub percent: u32,
    /// The amount.
    pub bytes: Bytes,
}

/// What is wrong with a margin's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MarginError {
    /// A share that is none.
    #[error("\"{}\" is no share; give whole per cent up to {max}%, such as 10%", shown(.0), max = Margin::PERCENT_MAX)]
    Percent(String),
    /// An amount that is none.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
}

impl Margin {
    /// The greatest share.
    pub const PERCENT_MAX: u32 = 1000;

    /// The margin for a safe minimum.
    pub fn of(self, safe_minimum: Bytes) -> Bytes {
        safe_minimum.scaled(u64::from(self.percent), 100).max(self.bytes)
    }

    /// The margin that is never less than either.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { percent: self.percent.max(other.percent), bytes: self.bytes.max(other.bytes) }
    }

    /// Reads whole per cent (`10%`) or a quantity (`32Mi`).
    pub fn parse(text: &str) -> Result<Self, MarginError> {
        let Some(share) = text.strip_suffix('%') else {
            return Ok(Self { percent: 0, bytes: parse_bytes(text)? });
        };
        let digits = (1..=4).contains(&share.len()) && share.bytes().all(|byte| byte.is_ascii_digit());
        let percent = share.parse().ok().filter(|percent| digits && *percent <= Self::PERCENT_MAX);
        percent
            .map(|percent| Self { percent, bytes: Bytes::ZERO })
            .ok_or_else(|| MarginError::Percent(text.into()))
    }
}

impl fmt::Display for Margin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%, at least {}", self.percent, self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_or_an_amount() {
        let share = |percent| Ok(Margin { percent, bytes: Bytes::ZERO });
        for (text, margin) in [
            ("0%", share(0)),
            ("10%", share(10)),
            ("1000%", share(1000)),
            ("32Mi", Ok(Margin { percent: 0, bytes: Bytes::from_mib(32) })),
            ("0", Ok(Margin::default())),
            ("", Err(QuantityError::Empty.into())),
            ("-1", Err(QuantityError::Negative.into())),
        ] {
            assert_eq!(Margin::parse(text), margin, "{text}");
        }
        for text in ["%", "1001%", "00010%", "+1%", "-1%", "1.5%", "10%%", "1 %", "99999999999%", "٣%"] {
            assert_eq!(Margin::parse(text), Err(MarginError::Percent(text.into())), "{text}");
        }
    }

    #[test]
    fn whichever_is_more() {
        let margin = Margin { percent: 10, bytes: Bytes::from_mib(16) };
        for (safe_minimum, expect) in [(0, 16), (160, 16), (170, 17), (1000, 100)] {
            assert_eq!(margin.of(Bytes::from_mib(safe_minimum)), Bytes::from_mib(expect));
        }
        let extreme = Margin { percent: u32::MAX, bytes: Bytes::ZERO };
        assert_eq!(extreme.of(Bytes::new(u64::MAX)), Bytes::new(u64::MAX));
        let both = margin.max(Margin { percent: 5, bytes: Bytes::from_mib(20) });
        assert_eq!(both, Margin { percent: 10, bytes: Bytes::from_mib(20) });
    }
}
