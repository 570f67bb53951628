//! How an attempt ended, as far as the schedule cares.

use enforcer_gate::{Reason, Verdict};

/// How an attempt to lower a limit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The new limit is in force.
    Committed,
    /// The container needs more than the target leaves it: refused, or tried and taken back.
    TooLow,
    /// A process was killed for want of memory.
    Killed,
    /// It could not be done, for a reason that may last.
    Failed,
    /// It ended for a reason that says nothing of the container: cancelled, or somebody else wrote the limit.
    Unjudged,
}

impl Ended {
    /// What the gate's verdict means.
    pub const fn of(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Committed => Self::Committed,
            Verdict::Feasible => Self::Unjudged,
            Verdict::Refused(reason) | Verdict::RolledBack(reason) | Verdict::Failed(reason) => {
                Self::from(reason)
            }
        }
    }

    const fn from(reason: &Reason) -> Self {
        match reason {
            Reason::BelowSafeMinimum
            | Reason::ReclaimStuck { .. }
            | Reason::StallBudget
            | Reason::BrakeLivelock
            | Reason::Growth { .. }
            | Reason::Refaults => Self::TooLow,
            Reason::OomKill { .. } => Self::Killed,
            Reason::Frozen
            | Reason::FrozenBelow { .. }
            | Reason::Unseen { .. }
            | Reason::PressureKiller(_)
            | Reason::BackOff { .. }
            | Reason::ProbeFailed
            | Reason::RestorerGone
            | Reason::Deadline { .. }
            | Reason::Io { .. } => Self::Failed,
            Reason::NotAShrink { .. } | Reason::LimitWritten { .. } | Reason::Gone | Reason::Cancelled => {
                Self::Unjudged
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use enforcer_gate::Bytes;

    #[test]
    fn verdicts() {
        let growth = || Reason::Growth { floor: Bytes::ZERO };
        for (verdict, ended) in [
            (Verdict::Committed, Ended::Committed),
            (Verdict::Feasible, Ended::Unjudged),
            (Verdict::Refused(Reason::BelowSafeMinimum), Ended::TooLow),
            (Verdict::RolledBack(growth()), Ended::TooLow),
            (Verdict::Failed(growth()), Ended::TooLow),
            (Verdict::RolledBack(Reason::OomKill { victim_pid: 1 }), Ended::Killed),
            (Verdict::Refused(Reason::Frozen), Ended::Failed),
            (Verdict::RolledBack(Reason::Cancelled), Ended::Unjudged),
        ] {
            assert_eq!(Ended::of(&verdict), ended, "{verdict:?}");
        }
    }
}
