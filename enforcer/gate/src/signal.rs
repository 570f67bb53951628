//! What the gate is told.

use crate::{Bytes, CommandId, Limit, Micros, Sample};
use alloc::string::String;
use serde::{Deserialize, Serialize};

/// Something that happened, unasked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// Somebody wants a lower limit.
    Request(Request),
    /// Direct reclaim began in this cgroup, not on our behalf: an allocation crossed `memory.high` or
    /// `memory.max`. The fastest sign that a brake bites (eBPF).
    ReclaimBegin,
    /// Direct reclaim ended in this cgroup, not on our behalf (eBPF).
    ReclaimEnd {
        /// What it freed.
        reclaimed: Bytes,
        /// How long the allocating task waited for it.
        took: Micros,
    },
    /// A PSI trigger on `memory.pressure` fired.
    Pressure,
    /// `memory.events` changed (poll on the file); the gate reads the counters itself.
    EventsChanged,
    /// A process died because a limit of this cgroup, an ancestor or a descendant was hit.
    OomKill {
        /// The victim's process id in the host's namespace.
        victim_pid: u32,
        /// Whether this cgroup's own limit was the one hit.
        own_limit: bool,
    },
    /// Somebody else wrote a limit of this cgroup.
    LimitWritten {
        /// Which file.
        file: LimitFile,
        /// The value now in force.
        new: Limit,
        /// The writer's process id.
        writer_pid: u32,
    },
    /// A liveness-style probe inside the cgroup ran out of time or failed.
    ProbeFailed,
    /// The cgroup was removed.
    Gone,
    /// The caller wants it stopped: everything back as found.
    Cancel,
    /// The process that would undo everything if this one were killed is gone itself.
    RestorerGone,
}

/// A limit file that the gate writes or watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LimitFile {
    /// `memory.high`
    #[serde(rename = "memory.high")]
    High,
    /// `memory.max`
    #[serde(rename = "memory.max")]
    Max,
}

impl LimitFile {
    /// The file's name in the cgroup's folder.
    pub const fn name(self) -> &'static str {
        match self {
            Self::High => "memory.high",
            Self::Max => "memory.max",
        }
    }
}

/// A shrink that is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The limit wanted for `memory.max`; the gate rounds it down to a page, as the kernel does.
    pub target: Bytes,
    /// Give the verdict after observing; change nothing.
    pub dry_run: bool,
    /// Something on an ancestor that kills on memory pressure, where one was found: pressure that a trial
    /// causes could make it act.
    pub pressure_killer: Option<PressureKiller>,
    /// Somebody else, a kubelet say, was told of the same target and writes it too, whenever it gets to it: that write is no
    /// disturbance. Where it comes before the gate's own, the brake goes on at once and the watch begins; what has to be
    /// taken back then is put back as if the gate had lowered it.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub by_other: bool,
}

/// A program that kills on memory pressure of an ancestor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PressureKiller {
    /// Its process id.
    pub pid: u32,
    /// Its name (untrusted text).
    pub comm: String,
    /// The cgroup it watches, below the cgroup mount.
    pub cgroup: String,
}

/// The result of a [`Command`](crate::Command).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The command that this answers.
    pub id: CommandId,
    /// What came of it.
    pub kind: OutcomeKind,
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    /// Answers `Observe`.
    Sampled(alloc::boxed::Box<Sample>),
    /// Answers `Reclaim`: the write returned. `partial`: the kernel said EAGAIN (less than asked).
    Reclaimed {
        /// How long the write took.
        took: Micros,
        /// EAGAIN.
        partial: bool,
    },
    /// Answers `SetBrake`, `Commit` and `Restore`: every file was written and read back.
    Done,
    /// Answers `Commit`: usage read immediately before the write was over `usage_at_most`, so nothing was
    /// written.
    UsageTooHigh {
        /// `memory.current` as read.
        usage: Bytes,
    },
    /// Answers `Restore` (and `SetBrake`, `Commit`): the file holds a value that is not ours; it was left.
    /// After a `Restore` the other file, if one was named, is back as found all the same.
    Superseded {
        /// Which file.
        file: LimitFile,
        /// What it holds.
        found: Limit,
    },
    /// A file operation failed, was interrupted or ran out of time; no lower limit of ours stays behind
    /// from this command.
    Failed {
        /// What and on which file, for people.
        what: String,
        /// `errno`, zero where there is none (a time-out).
        errno: i32,
    },
    /// The cgroup is no more.
    Gone,
}
