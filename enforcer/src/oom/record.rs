//! What is remembered of an OOM. Names of others are escaped already ([`crate::cgroup::shown`]).

use crate::names::Place;
use enforcer_gate::{Bytes, CgroupId, Limit, Micros};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of [`OomRecord`] that this program writes. Fields may be added without a new one.
pub(super) const RECORD_VERSION: u32 = 1;

/// One OOM.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OomRecord {
    /// [`RECORD_VERSION`]
    pub version: u32,
    /// When its first victim was marked: microseconds since 1970.
    pub wall_us: u64,
    /// The same on `CLOCK_BOOTTIME`.
    pub boot_us: u64,
    /// Which boot that was.
    pub boot_id: String,
    /// Its number since the recorder began; the kernel begins many in which nobody falls.
    pub seq: u64,
    /// Whose limit was hit.
    pub owner: Owner,
    /// What the allocation was held to: `memcg`, `cpuset`, `memory_policy` or `none`.
    pub constraint: String,
    /// The cgroup whose `memory.oom.group` took all its processes.
    pub group: Option<CgroupId>,
    /// Whose allocation, or write to a limit file, ran out of memory; `None` where it was lost.
    pub trigger: Option<TaskName>,
    /// The process that was chosen first, then all that fell with it.
    pub victims: Vec<Victim>,
    /// Victims that are not in the list: their records were lost, or there were too many.
    pub victims_lost: u32,
    /// Processes in the first victim's cgroup that were no victims, when it was looked at; `None` where the
    /// cgroup was gone.
    pub survivors: Option<u32>,
    /// The limits from the first victim's cgroup up, the owner's included, when they were looked at.
    pub limits: Vec<LimitAt>,
    /// The owner's `memory.stat`.
    pub stat: Option<StatThen>,
    /// Reclaim on the owner's behalf in the second before.
    pub reclaim: Option<ReclaimBefore>,
    /// Writes to limit files of the owner, the victims' cgroups and those between, newest first.
    pub writes: Vec<WriteBefore>,
    /// All cgroups that are named by their id above.
    pub cgroups: Vec<CgroupName>,
    /// What a person can do.
    pub says: String,
}

/// Whose limit was hit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Owner {
    /// A cgroup's.
    Cgroup {
        /// Which.
        id: CgroupId,
        /// Its usage when the OOM began.
        usage: Bytes,
        /// Its `memory.max` when the OOM began.
        limit: Limit,
        /// How often its limit had been hit (`max` of `memory.events.local`).
        max_events: u64,
    },
    /// None's: the node was out of memory.
    Node,
    /// Not known: the hook is missing on this kernel, or the record was lost.
    Unknown,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskName {
    /// The thread's id in the host's namespace.
    pub tid: u32,
    /// The process's id in the host's namespace.
    pub pid: u32,
    /// The thread's name.
    pub comm: String,
    /// Its cgroup.
    pub cgroup: Option<CgroupId>,
}

/// A process that was killed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Victim {
    /// Who.
    #[serde(flatten)]
    pub task: TaskName,
    /// Its anonymous memory.
    pub anon: Bytes,
    /// Its file pages.
    pub file: Bytes,
    /// Its shared memory.
    pub shmem: Bytes,
    /// Its `oom_score_adj`.
    pub oom_score_adj: i32,
    /// Usage of its own cgroup.
    pub usage: Bytes,
    /// `memory.max` of its own cgroup.
    pub limit: Limit,
    /// It was exiting already.
    pub exiting: bool,
    /// It was the first process of a PID namespace, with which all others in that end.
    pub first_of_namespace: Option<bool>,
}

impl Victim {
    /// What it had in memory.
    pub fn rss(&self) -> Bytes {
        self.anon.saturating_add(self.file).saturating_add(self.shmem)
    }
}

/// A cgroup's limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitAt {
    /// Whose.
    pub cgroup: CgroupId,
    /// `memory.max`
    pub limit: Limit,
}

/// Where [`StatThen`] is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatFrom {
    /// The kernel's counters when the first victim was marked.
    Kernel,
    /// The same, but behind: they explain less than three quarters of the usage, and the cgroup was gone.
    KernelBehind,
    /// The file, read after the kill.
    File,
}

/// `memory.stat` in bytes, by term.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatThen {
    /// Where it is from.
    pub from: StatFrom,
    /// How long after the OOM began it was read.
    pub after_us: Micros,
    /// The terms.
    pub terms: BTreeMap<String, Bytes>,
}

/// Reclaim in the second before the OOM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReclaimBefore {
    /// How many ended.
    pub count: u64,
    /// How long they took in all; more than a second where several CPUs reclaimed at once.
    pub took_us: Micros,
    /// What they freed.
    pub reclaimed: Bytes,
}

/// A write to a limit file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteBefore {
    /// Whose file.
    pub cgroup: CgroupId,
    /// Which file.
    pub file: String,
    /// Who wrote.
    pub writer: TaskName,
    /// Whether that was enforcer itself; `None` where the writer was gone before it was looked at.
    pub ours: Option<bool>,
    /// What was written, cut.
    pub asked: String,
    /// The value before.
    pub old: Limit,
    /// The value after; `None` where it had not ended when this was told.
    pub new: Option<Limit>,
    /// The error that the writer was given.
    pub errno: Option<i32>,
    /// It was going on when the OOM began, which is then its doing.
    pub during: bool,
    /// How long before the OOM it ended, or began where it was going on.
    pub before_us: Micros,
}

/// A cgroup and what is known of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupName {
    /// Its id.
    pub id: CgroupId,
    /// Its path below the mount; `None` where it was gone before it was ever seen.
    pub path: Option<String>,
    /// What it is.
    pub place: Option<Place>,
    /// How long before the OOM it was made; `None` where it is older than the recorder.
    pub age_us: Option<Micros>,
    /// It had been removed when it was looked at.
    pub gone: bool,
    /// Its pod's namespace and name.
    pub pod: Option<String>,
    /// Its container's name.
    pub container: Option<String>,
}

impl OomRecord {
    /// What is known of a cgroup.
    pub fn cgroup(&self, id: CgroupId) -> Option<&CgroupName> {
        self.cgroups.iter().find(|cgroup| cgroup.id == id)
    }

    /// The cgroup whose limit was hit.
    pub fn owner_id(&self) -> Option<CgroupId> {
        match self.owner {
            Owner::Cgroup { id, .. } => Some(id),
            Owner::Node | Owner::Unknown => None,
        }
    }
}

/// A recorder began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Began {
    /// When: microseconds since 1970.
    pub wall_us: u64,
    /// Which boot.
    pub boot_id: String,
    /// The kernel's release.
    pub kernel: String,
    /// What it can't see, and why.
    pub lost: Vec<String>,
}

/// Something was lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// When it was noticed: microseconds since 1970.
    pub wall_us: u64,
    /// The kernel's records that had no room, by kind; cgroups (`known_cgroup`) and writes (`kept_write`) that the
    /// recorder had no room for. Since the last such record.
    pub dropped: BTreeMap<String, u64>,
    /// OOM records that could not be stored since then.
    pub unstored: u64,
}
