//! Why a limit is what it is after a write. No I/O.

use super::value::Expected;
use super::weight::{Conversion, of_shares, of_weight};
use crate::probe::{LimitKind, LimitValue};
use enforcer_gate::{Bytes, Limit, Micros};

/// A cgroup that is no older than this gets the limits that it was created with: its container, or unit, was started.
const NEW: Micros = Micros::from_secs(10);
/// systemd keeps a CPU quota in whole hundredths of a CPU, which is in microseconds a second:
const CENT_US: u64 = 10_000;
/// The least quota that the kernel takes, in microseconds.
const QUOTA_MIN_US: u64 = 1_000;

/// Who wrote, as far as the kernel vouches for it: names of processes are anybody's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// A process of enforcer's.
    Ours,
    /// systemd: process 1, or one that runs the same program.
    Systemd,
    /// Anybody else, or a process that was gone too soon.
    Other,
}

impl Who {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::Ours, Self::Systemd, Self::Other];

    /// The name that output and metrics use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Systemd => "systemd",
            Self::Other => "other",
        }
    }
}

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The file.
    pub file: LimitKind,
    /// Its value before.
    pub old: LimitValue,
    /// Its value now.
    pub new: LimitValue,
}

/// What else is known about a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// Who wrote.
    pub who: Who,
    /// How long the cgroup had been there, if that is known.
    pub age: Option<Micros>,
    /// The same process wrote the cgroup's `memory.max` at about the same time.
    pub with_memory: bool,
}

/// Why a limit is what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// We wrote it.
    Ours,
    /// It is what is expected.
    AsExpected,
    /// It is what a runtime or the kernel makes of what is expected.
    Rounding,
    /// It is the weight that this conversion gives for the shares that are expected.
    Shares(Conversion),
    /// The write changed nothing.
    Unchanged,
    /// An update of the memory limit took the swap limit to zero.
    SwapReset,
    /// The cgroup is new and gets the limits that it was created with.
    Restart,
    /// systemd applied what its unit says.
    Systemd,
    /// Somebody's will.
    Unknown,
}

impl Cause {
    /// The name that output uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::AsExpected => "as expected",
            Self::Rounding => "runtime rounding",
            Self::Shares(Conversion::Linear) => "shares to weight (linear)",
            Self::Shares(Conversion::Quadratic) => "shares to weight (quadratic)",
            Self::Unchanged => "unchanged",
            Self::SwapReset => "swap reset by a memory update",
            Self::Restart => "restart",
            Self::Systemd => "systemd",
            Self::Unknown => "unknown",
        }
    }
}

/// Whether a value is what is expected, and by which of the ways that are no drift; `None` where it is not.
pub fn accepted(expected: &Expected, value: LimitValue) -> Option<Cause> {
    match (*expected, value) {
        (Expected::Value(expected), value) if expected == value => Some(Cause::AsExpected),
        // A runtime says what it was told.
        (Expected::Value(LimitValue::Memory(expected)), LimitValue::Memory(value)) => {
            (expected.held() == value).then_some(Cause::AsExpected)
        }
        (Expected::Shares(shares), LimitValue::Weight(weight)) => {
            of_shares(shares, weight).map(Cause::Shares)
        }
        (Expected::Value(LimitValue::Weight(expected)), LimitValue::Weight(weight)) => {
            of_weight(expected, weight).map(Cause::Shares)
        }
        (Expected::Value(expected), value) => is_rounded(expected, value).then_some(Cause::Rounding),
        (Expected::Shares(_), _) => None,
    }
}

/// Why `change` came, and whether what is in force now differs from what is expected (never for a write of our own).
pub fn classify(change: &Change, expected: Option<&Expected>, context: &Context) -> (Cause, bool) {
    if context.who == Who::Ours {
        return (Cause::Ours, false);
    }
    if let Some(cause) = expected.and_then(|expected| accepted(expected, change.new)) {
        return (cause, false);
    }
    let swap_reset = change.file == LimitKind::SwapMax
        && change.new == LimitValue::Memory(Limit::Bytes(Bytes::ZERO))
        && context.with_memory;
    let cause = if change.old == change.new {
        Cause::Unchanged
    } else if swap_reset {
        Cause::SwapReset
    } else if context.age.is_some_and(|age| age <= NEW) {
        Cause::Restart
    } else if context.who == Who::Systemd {
        Cause::Systemd
    } else {
        Cause::Unknown
    };
    (cause, expected.is_some())
}

/// Whether `value` is a CPU quota that comes from `expected` by the least quota of the kernel, or by systemd's hundredths
/// of a CPU, to which runtimes round up before they ask for it. The period may be systemd's own, and means nothing
/// without a quota.
fn is_rounded(expected: LimitValue, value: LimitValue) -> bool {
    if let (LimitValue::Cpu { quota: None, .. }, LimitValue::Cpu { quota: None, .. }) = (expected, value) {
        return true;
    }
    let (
        LimitValue::Cpu { quota: Some(wanted), period },
        LimitValue::Cpu { quota: Some(found), period: found_period },
    ) = (expected, value)
    else {
        return false;
    };
    let least = Micros::new(wanted.get().max(QUOTA_MIN_US));
    if found == least && found_period == period {
        return true;
    }
    let (Some(wanted), Some(found)) = (a_second(least, period), a_second(found, found_period)) else {
        return false;
    };
    wanted.checked_next_multiple_of(CENT_US) == Some(found)
}

/// CPU time in a second, in microseconds, rounded down.
fn a_second(quota: Micros, period: Micros) -> Option<u64> {
    quota.get().checked_mul(1_000_000)?.checked_div(period.get())
}

#[cfg(test)]
mod tests;
