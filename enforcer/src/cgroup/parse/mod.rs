//! Parsers of cgroup files: bytes in, values out, no I/O.
//!
//! A key that is not known is passed over (kernels add some); a value that is malformed is an error, because
//! a figure that is silently zero would make a floor too low.

mod flat;
mod limit;
mod meminfo;
mod pressure;

pub use flat::{
    CgroupEvents, StatExtra, cgroup_events, cgroup_stat_descendants, cgroup_stat_dying, cpu_stat_usage,
    memory_events, memory_stat,
};
pub use limit::{limit, number};
pub use meminfo::swap_free;
pub use pressure::{pressure, pressure_avg10};

/// What is wrong with a file's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The last line has no line feed: the read was cut short.
    #[error("cut off in line {line}")]
    CutOff {
        /// Counted from 1.
        line: u32,
    },
    /// A line has no value.
    #[error("no value in line {line}")]
    NoValue {
        /// Counted from 1.
        line: u32,
    },
    /// A value is not a decimal number that fits 64 bits.
    #[error("not a number in line {line}")]
    NotANumber {
        /// Counted from 1.
        line: u32,
    },
    /// A key that every supported kernel writes is not there.
    #[error("no {key}")]
    Missing {
        /// Which.
        key: &'static str,
    },
}

/// Decimal digits only: no sign, no blank, no empty text.
fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}
