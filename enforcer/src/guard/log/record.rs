//! What is remembered of a guard. Names and texts of others are escaped already ([`crate::cgroup::shown`]).

use crate::guard::{Reason, Verdict};
use crate::names::Place;
use enforcer_gate::{Bytes, Limit};
use serde::{Deserialize, Serialize};

/// The version of [`VerdictRecord`] that this program writes. Fields may be added without a new one.
pub(super) const RECORD_VERSION: u32 = 1;

/// One write, and what the guard said of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictRecord {
    /// [`RECORD_VERSION`]
    pub version: u32,
    /// When it was judged: microseconds since 1970.
    pub wall_us: u64,
    /// The same in nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// What became of the write: a name of [`Verdict`].
    pub verdict: String,
    /// Why: a name of [`Reason`].
    pub reason: String,
    /// How the value came, or why it can't be had: a name of [`crate::guard::Source`].
    pub source: String,
    /// The mode of the cgroup's cover.
    pub mode: String,
    /// The path of the cgroup whose limit it is, or its id where it is gone.
    pub cgroup: String,
    /// Its id; 0 where that could not be read.
    pub cgroup_id: u64,
    /// What the cgroup is, from its path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// Its pod's namespace and name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Its container's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Which file was written.
    pub file: String,
    /// The limit asked for, as the kernel takes it; `None` where it can't be had or is no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Limit>,
    /// The text as written, cut.
    pub text: String,
    /// The limit in force.
    pub limit: Limit,
    /// Usage at that moment.
    pub usage: Bytes,
    /// How far a new limit must stay above usage.
    pub margin: Bytes,
    /// The lowest limit that a lease allowed; `None` without one that held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Bytes>,
    /// Who wrote.
    pub writer: WriterName,
    /// Number of the writer's system call.
    pub syscall: u64,
}

impl VerdictRecord {
    /// The reason; `None` for one that only a newer version knows.
    pub fn known_reason(&self) -> Option<Reason> {
        Reason::ALL.iter().copied().find(|reason| reason.name() == self.reason)
    }

    /// The verdict; `None` for one that only a newer version knows.
    pub fn known_verdict(&self) -> Option<Verdict> {
        Verdict::ALL.iter().copied().find(|verdict| verdict.name() == self.verdict)
    }
}

/// A writer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriterName {
    /// The process's id in the host's namespace.
    pub pid: u32,
    /// The thread's id in the host's namespace.
    pub tid: u32,
    /// The thread's name.
    pub comm: String,
    /// The path of its cgroup, or its id where it is gone.
    pub cgroup: String,
}

/// What a guard stands for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// What is done about an unsafe write.
    pub mode: String,
    /// The guarded files.
    pub files: Vec<String>,
    /// How far a new limit must stay above usage.
    pub margin: Bytes,
    /// The cgroups that are guarded themselves.
    pub cgroups: Vec<String>,
    /// The folders below which every cgroup is guarded.
    pub below: Vec<String>,
    /// Cgroups and folders beyond the first 256 of each, which are not listed.
    #[serde(default)]
    pub unlisted: u64,
}

/// A guard began to stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Began {
    /// When: microseconds since 1970.
    pub wall_us: u64,
    /// Which boot.
    pub boot_id: String,
    /// The kernel's release.
    pub kernel: String,
    /// The guard's process.
    pub pid: u32,
    /// What it stands for.
    #[serde(flatten)]
    pub standing: Standing,
}

/// Verdicts were lost since this was last told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// When it was noticed: microseconds since 1970.
    pub wall_us: u64,
    /// Verdicts that had no room in the kernel's buffer, and were not told either.
    pub dropped: u64,
    /// Records that could not be stored, or not in time.
    pub unstored: u64,
}

/// A guard ended by itself, or was told to. One that was killed leaves no such record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// When: microseconds since 1970.
    pub wall_us: u64,
    /// Its process.
    pub pid: u32,
    /// Why.
    pub why: String,
}
