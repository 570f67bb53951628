//! How a shrink stands and how it ended.

use crate::{Bytes, Instant, Limit, LimitFile, PressureKiller};
use alloc::string::String;
use serde::{Deserialize, Serialize};

/// The state machine's states.
///
/// ```text
/// Idle       => Observing
/// Observing  => (Reclaiming | Refused)
/// Reclaiming => (Trial | Refused | RolledBack)
/// Trial      => (Committing | RolledBack)
/// Committing => (Watching | RolledBack | Failed)
/// Watching   => (Committed | RolledBack)
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nothing asked.
    Idle,
    /// Gathering enough history for a verdict.
    Observing,
    /// Making usage fit under the target, in steps.
    Reclaiming,
    /// `memory.high` brakes below the target; `memory.max` is as it was.
    Trial,
    /// `memory.max` is being lowered.
    Committing,
    /// The new limit is in force, the brake still on.
    Watching,
    /// Files are going back as found.
    Restoring,
    /// Over; see the verdict.
    Ended,
}

/// How a shrink ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict", content = "reason")]
pub enum Verdict {
    /// The new limit is in force and every brake is off.
    Committed,
    /// A dry run: the shrink would be tried.
    Feasible,
    /// Nothing was lowered.
    Refused(Reason),
    /// Something was lowered and is back as found.
    RolledBack(Reason),
    /// It could not be done, or not be undone; the text says what is left.
    Failed(Reason),
}

impl Verdict {
    /// Whether the cgroup was taken back because it wanted more than brake or limit left it: what it would have grown
    /// to was not seen.
    pub const fn held_back(&self) -> bool {
        matches!(
            self,
            Self::RolledBack(
                Reason::Growth { .. }
                    | Reason::BrakeLivelock
                    | Reason::StallBudget
                    | Reason::Refaults
                    | Reason::OomKill { .. }
            )
        )
    }
}

/// Why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The target is under the safe minimum.
    BelowSafeMinimum,
    /// The target is not below the limit in force.
    NotAShrink {
        /// The limit in force.
        current: Limit,
    },
    /// Every process of the cgroup is frozen: no window can see what it needs. Thaw it first.
    Frozen,
    /// Processes of a cgroup below it are frozen, a paused container's say. Thaw them first.
    FrozenBelow {
        /// The outermost such cgroup, below the cgroup mount (untrusted text).
        cgroup: String,
    },
    /// No window saw the cgroup's processes whole: it was empty for a while, or nobody read for seconds.
    Unseen {
        /// Whose window.
        state: State,
    },
    /// Something kills on memory pressure of an ancestor; a trial could make it act.
    PressureKiller(PressureKiller),
    /// The same target was refused or taken back lately.
    BackOff {
        /// When it may be tried again.
        until: Instant,
    },
    /// Reclaim made no more progress above the target.
    ReclaimStuck {
        /// Usage that was left.
        usage: Bytes,
    },
    /// PSI passed the stall budget.
    StallBudget,
    /// The brake was hit and `high` events rose while nothing was reclaimed.
    BrakeLivelock,
    /// What can't be reclaimed grew to the brake.
    Growth {
        /// The floor that was seen.
        floor: Bytes,
    },
    /// Reclaimed file memory came back faster than the workload can bear.
    Refaults,
    /// A probe inside the cgroup failed or ran out of time.
    ProbeFailed,
    /// A process was killed.
    OomKill {
        /// The victim.
        victim_pid: u32,
    },
    /// Somebody else wrote the limit meanwhile; theirs stays.
    LimitWritten {
        /// Which file.
        file: LimitFile,
        /// What it holds.
        found: Limit,
    },
    /// The cgroup was removed.
    Gone,
    /// The caller stopped it.
    Cancelled,
    /// The process that would undo everything ended first: it was killed, its time was over, or it saw usage come near the new
    /// limit.
    RestorerGone,
    /// A state ran out of time.
    Deadline {
        /// Which.
        state: State,
    },
    /// A file operation failed.
    Io {
        /// What and on which file.
        what: String,
        /// `errno`, or zero.
        errno: i32,
    },
}
