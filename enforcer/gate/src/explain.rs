//! Verdicts, reasons and states in words.

use crate::{Reason, State, Verdict, text::escaped};
use core::fmt;

const NAME_BYTES_MAX: usize = 120;

impl fmt::Display for State {
    /// Its name, as in JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "idle",
            Self::Observing => "observing",
            Self::Reclaiming => "reclaiming",
            Self::Trial => "trial",
            Self::Committing => "committing",
            Self::Watching => "watching",
            Self::Restoring => "restoring",
            Self::Ended => "ended",
        })
    }
}

impl fmt::Display for Verdict {
    /// One line, with the reason; fit to print whatever names are in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Committed => f.write_str("committed"),
            Self::Feasible => f.write_str("feasible"),
            Self::Refused(reason) => write!(f, "refused: {reason}"),
            Self::RolledBack(reason) => write!(f, "rolled back: {reason}"),
            Self::Failed(reason) => write!(f, "failed: {reason}"),
        }
    }
}

impl fmt::Display for Reason {
    /// One line; fit to print whatever names are in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BelowSafeMinimum => f.write_str("the target is under the safe minimum"),
            Self::NotAShrink { current } => {
                write!(f, "the target is not below the limit in force ({current})")
            }
            Self::Frozen => f.write_str("the cgroup is frozen, so no window can see its need"),
            Self::FrozenBelow { cgroup } => {
                write!(f, "{} is frozen, so no window can see its need", escaped(cgroup, NAME_BYTES_MAX))
            }
            Self::Unseen { state } => write!(
                f,
                "no whole window of {state} saw the cgroup's processes: they came and went, or readings stopped"
            ),
            Self::PressureKiller(killer) => write!(
                f,
                "{} (pid {}) kills on memory pressure of {}, which a trial could cause",
                escaped(&killer.comm, NAME_BYTES_MAX),
                killer.pid,
                escaped(&killer.cgroup, NAME_BYTES_MAX)
            ),
            Self::BackOff { until: _ } => {
                f.write_str("the same target failed lately and the need has not fallen since")
            }
            Self::ReclaimStuck { usage } => {
                write!(f, "reclaim made no more progress at {usage}")
            }
            Self::StallBudget => f.write_str("the stall budget was used up"),
            Self::BrakeLivelock => {
                f.write_str("the brake was hit on and on while nothing could be reclaimed")
            }
            Self::Growth { floor } => {
                write!(f, "what can't be reclaimed grew to {floor}")
            }
            Self::Refaults => f.write_str("reclaimed memory came back faster than is bearable"),
            Self::ProbeFailed => f.write_str("a probe in the cgroup failed or timed out"),
            Self::OomKill { victim_pid: 0 } => f.write_str("the cgroup hit its limit for good (OOM)"),
            Self::OomKill { victim_pid } => write!(f, "pid {victim_pid} was OOM-killed"),
            Self::LimitWritten { file, found } => {
                write!(f, "somebody else wrote {}: it is {found} now", file.name())
            }
            Self::Gone => f.write_str("the cgroup was removed"),
            Self::Cancelled => f.write_str("it was cancelled"),
            Self::RestorerGone => f.write_str("the restorer is gone: it was killed, its time was over, or it saw usage come near the new limit"),
            Self::Deadline { state } => write!(f, "{state} ran out of time"),
            Self::Io { what, errno: 0 } => f.write_str(&escaped(what, 400)),
            Self::Io { what, errno } => write!(f, "{} (errno {errno})", escaped(what, 400)),
        }
    }
}
