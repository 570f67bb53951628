//! Verdicts and reasons by name alone, as in JSON: closed sets, for what counts them.

use crate::{Reason, Verdict};

macro_rules! names {
    ($of:ident { $($pattern:pat => $name:literal,)* }) => {
        impl $of {
            /// Every name that [`Self::name`] gives.
            pub const NAMES: &'static [&'static str] = &[$($name,)*];

            /// Its name, as in JSON.
            pub const fn name(&self) -> &'static str {
                match self {
                    $($pattern => $name,)*
                }
            }
        }
    };
}

names!(Verdict {
    Self::Committed => "committed",
    Self::Feasible => "feasible",
    Self::Refused(_) => "refused",
    Self::RolledBack(_) => "rolled_back",
    Self::Failed(_) => "failed",
});

names!(Reason {
    Self::BelowSafeMinimum => "below_safe_minimum",
    Self::NotAShrink { .. } => "not_a_shrink",
    Self::Frozen => "frozen",
    Self::FrozenBelow { .. } => "frozen_below",
    Self::Unseen { .. } => "unseen",
    Self::PressureKiller(_) => "pressure_killer",
    Self::BackOff { .. } => "back_off",
    Self::ReclaimStuck { .. } => "reclaim_stuck",
    Self::StallBudget => "stall_budget",
    Self::BrakeLivelock => "brake_livelock",
    Self::Growth { .. } => "growth",
    Self::Refaults => "refaults",
    Self::ProbeFailed => "probe_failed",
    Self::OomKill { .. } => "oom_kill",
    Self::LimitWritten { .. } => "limit_written",
    Self::Gone => "gone",
    Self::Cancelled => "cancelled",
    Self::RestorerGone => "restorer_gone",
    Self::Deadline { .. } => "deadline",
    Self::Io { .. } => "io",
});

impl Verdict {
    /// Why, where there is a reason.
    pub const fn reason(&self) -> Option<&Reason> {
        match self {
            Self::Committed | Self::Feasible => None,
            Self::Refused(reason) | Self::RolledBack(reason) | Self::Failed(reason) => Some(reason),
        }
    }
}
