//! The records, one type a kind. Page counts are of the kernel's page size; a limit of "max" is
//! [`PAGES_MAX`] or more.

use crate::named::numbered;
use crate::record::{Header, Plain};
use crate::text::{ASKED_LEN, COMM_LEN, NAME_LEN, Text};

/// From here on a page count means "no limit" (`PAGE_COUNTER_MAX` with 4 KiB pages).
pub const PAGES_MAX: u64 = (i64::MAX / 4096) as u64;

macro_rules! flags {
    ($(#[$doc:meta])* $name:ident { $($(#[$bit_doc:meta])* $bit:ident = $value:literal;)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(transparent)]
        pub struct $name(u32);

        impl $name {
            /// None set.
            pub const NONE: Self = Self(0);
            $($(#[$bit_doc])* pub const $bit: Self = Self($value);)*

            /// These and `other`.
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// Whether all of `other` are set.
            pub const fn has(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }
        }
    };
}

/// A task, as it was when the record was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Task {
    /// The thread's id in the host's namespace.
    pub pid: u32,
    /// The process's id in the host's namespace.
    pub tgid: u32,
    /// The thread's name.
    pub comm: Text<COMM_LEN>,
    /// Its cgroup (v2).
    pub cgroup: u64,
}

flags! {
    /// What is special about an OOM kill.
    OomFlags {
        /// `memory.oom.group` made the kernel kill every process of [`OomKill::group`].
        GROUP = 1;
        /// The victim was exiting already: the kernel only lets it use reserves.
        EXITING = 2;
        /// The whole node was out of memory: no cgroup's limit was hit.
        GLOBAL = 4;
        /// Whose limit was hit is not known (the hook that says so is not attached).
        OWNER_UNKNOWN = 8;
    }
}

numbered! {
    /// What the allocation was held to (`enum oom_constraint`).
    pub enum OomConstraint: u32 {
        /// Nothing: the node's memory.
        None = 0, "none";
        /// A cpuset.
        Cpuset = 1, "cpuset";
        /// A memory policy.
        MemoryPolicy = 2, "memory_policy";
        /// A cgroup's limit.
        Memcg = 3, "memcg";
    }
}

/// A process became the victim of an OOM. One record a process (`mark_oom_victim`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct OomKill {
    /// The head.
    pub header: Header,
    /// The OOM: victims with the same number fell in the same one. Counts from 1 since the programs were
    /// loaded.
    pub seq: u64,
    /// The victim's place in its OOM, from 0.
    pub index: u32,
    /// What is special.
    pub flags: OomFlags,
    /// The victim.
    pub victim: Task,
    /// The task whose allocation (or write to a limit file) ran out of memory.
    pub trigger: Task,
    /// The cgroup whose limit was hit; 0 where it was none's or is not known.
    pub owner: u64,
    /// The cgroup whose `memory.oom.group` made it a group kill; 0 where it was none.
    pub group: u64,
    /// `oom_control.totalpages`: what badness is measured against; 0 for a victim that was exiting.
    pub total_pages: u64,
    /// The owner's usage when the OOM began, in pages.
    pub owner_usage: u64,
    /// The owner's `memory.max` when the OOM began, in pages.
    pub owner_limit: u64,
    /// How often the owner's limit had been hit when the OOM began: `max` of its `memory.events.local`.
    /// (The page counter's own count stands still for cgroup v2 on 6.18 and newer.)
    pub owner_max_events: u64,
    /// Usage of the victim's own cgroup, in pages.
    pub victim_usage: u64,
    /// `memory.max` of the victim's own cgroup, in pages.
    pub victim_limit: u64,
    /// The victim's anonymous pages. As in the kernel's own log line, per-CPU remainders are not counted.
    pub anon: u64,
    /// The victim's file pages.
    pub file: u64,
    /// The victim's shared memory pages.
    pub shmem: u64,
    /// The victim's `oom_score_adj`.
    pub oom_score_adj: i32,
    /// [`OomConstraint`]
    pub constraint: u32,
    /// The victim's process id in its own namespace; 0 where it is not known.
    pub ns_pid: u32,
    /// How deep that namespace is; the host's is 0.
    pub ns_level: u32,
}

/// What `memory.stat` says of a cgroup, with its descendants. A value that is not known is [`STAT_UNKNOWN`].
/// The kernel's counters: behind by what each CPU has not handed up yet, and by more where nothing made it
/// hand that up (reclaim does).
pub const STAT_UNKNOWN: u64 = u64::MAX;

numbered! {
    /// A term of `memory.stat`, by its place in [`OomEnd::stat`].
    pub enum Stat: u32 {
        /// `anon`, in pages.
        Anon = 0, "anon";
        /// `file`, in pages.
        File = 1, "file";
        /// `shmem`, in pages.
        Shmem = 2, "shmem";
        /// `kernel`, in pages.
        Kernel = 3, "kernel";
        /// `slab_reclaimable`, in bytes.
        SlabReclaimable = 4, "slab_reclaimable";
        /// `slab_unreclaimable`, in bytes.
        SlabUnreclaimable = 5, "slab_unreclaimable";
        /// `sock`, in pages.
        Sock = 6, "sock";
        /// `inactive_file`, in pages.
        InactiveFile = 7, "inactive_file";
        /// `active_file`, in pages.
        ActiveFile = 8, "active_file";
        /// `unevictable`, in pages.
        Unevictable = 9, "unevictable";
        /// `file_dirty`, in pages.
        FileDirty = 10, "file_dirty";
        /// `file_writeback`, in pages.
        FileWriteback = 11, "file_writeback";
    }
}

impl Stat {
    /// How many terms there are.
    pub const COUNT: usize = Self::ALL.len();

    /// Whether the kernel counts it in bytes and not in pages.
    pub const fn is_bytes(self) -> bool {
        matches!(self, Self::SlabReclaimable | Self::SlabUnreclaimable)
    }
}

/// Slots of [`Past`].
pub const PAST_SLOTS: usize = 8;
/// A slot holds what ended in `2^PAST_SHIFT` ns: 134 ms, so that all of them hold about a second.
pub const PAST_SHIFT: u32 = 27;

/// Reclaim on behalf of one cgroup that ended in one span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct PastSlot {
    /// Which span: nanoseconds of `CLOCK_MONOTONIC`, shifted by [`PAST_SHIFT`].
    pub epoch: u64,
    /// How many ended.
    pub count: u64,
    /// How long they took in all, in nanoseconds.
    pub total_ns: u64,
    /// What they freed, in pages.
    pub reclaimed: u64,
}

/// The last second of reclaim on behalf of one cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Past {
    /// By the lowest bits of their epoch.
    pub slots: [PastSlot; PAST_SLOTS],
}

/// An OOM is over. It had victims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct OomEnd {
    /// The head.
    pub header: Header,
    /// As in [`OomKill::seq`].
    pub seq: u64,
    /// When the OOM began (`CLOCK_MONOTONIC`).
    pub begin_ns: u64,
    /// The cgroup whose limit was hit; 0 where it was none's.
    pub owner: u64,
    /// How many victims it had.
    pub victims: u32,
    /// Zero.
    pub reserved: u32,
    /// Reclaims on the owner's behalf that ended in the second before the OOM; [`STAT_UNKNOWN`] where that is
    /// not counted.
    pub reclaims: u64,
    /// How long they took in all, in nanoseconds.
    pub reclaim_ns: u64,
    /// What they freed, in pages.
    pub reclaimed: u64,
    /// The owner's `memory.stat` when the first victim was marked, by number of the [`Stat`].
    pub stat: [u64; Stat::COUNT],
}

flags! {
    /// What is special about a reclaim.
    ReclaimFlags {
        /// Asked for through `memory.reclaim` (`MEMCG_RECLAIM_PROACTIVE`), not forced by a limit.
        PROACTIVE = 1;
        /// Whether it was proactive is not known (the hook does not say).
        PROACTIVE_UNKNOWN = 2;
    }
}

/// Reclaim on behalf of a watched cgroup began (`try_to_free_mem_cgroup_pages`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct ReclaimBegin {
    /// The head.
    pub header: Header,
    /// The cgroup whose limit was crossed, or whose `memory.reclaim` was written.
    pub cgroup: u64,
    /// The process that reclaims.
    pub tgid: u32,
    /// What is special.
    pub flags: ReclaimFlags,
}

/// Reclaim on behalf of a watched cgroup ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct ReclaimEnd {
    /// The head.
    pub header: Header,
    /// As in [`ReclaimBegin`].
    pub cgroup: u64,
    /// The process that reclaimed.
    pub tgid: u32,
    /// As in [`ReclaimBegin`].
    pub flags: ReclaimFlags,
    /// How long it took, in nanoseconds.
    pub duration_ns: u64,
    /// What it freed, in pages.
    pub reclaimed: u64,
}

numbered! {
    /// A limit file of a cgroup.
    pub enum LimitKind: u32 {
        /// `memory.max`
        MemoryMax = 1, "memory.max";
        /// `memory.high`
        MemoryHigh = 2, "memory.high";
        /// `memory.swap.max`
        SwapMax = 3, "memory.swap.max";
        /// `memory.min`
        MemoryMin = 4, "memory.min";
        /// `memory.low`
        MemoryLow = 5, "memory.low";
        /// `cpu.max`
        CpuMax = 6, "cpu.max";
        /// `cpu.weight`
        CpuWeight = 7, "cpu.weight";
        /// `cpuset.cpus`
        CpusetCpus = 8, "cpuset.cpus";
        /// `pids.max`
        PidsMax = 9, "pids.max";
    }
}

numbered! {
    /// Where in a write the record was made.
    pub enum Phase: u32 {
        /// Before the kernel looked at the value.
        Begin = 0, "begin";
        /// After it was done, kills included.
        End = 1, "end";
    }
}

/// A limit file is or was written. `Begin` and `End` of one write share `begin_ns` and the writer's pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct LimitWrite {
    /// The head.
    pub header: Header,
    /// When the write began (`CLOCK_MONOTONIC`).
    pub begin_ns: u64,
    /// The cgroup whose limit it is.
    pub cgroup: u64,
    /// Who writes.
    pub writer: Task,
    /// The value before the write. Memory: pages. `cpu.max`: the quota in nanoseconds (`u64::MAX`: none).
    /// `cpu.weight`: the scheduler's shares, times 1024. `cpuset.cpus`: bit n is CPU n. `pids.max`: a count
    /// (above [`PIDS_MAX`]: none).
    pub old: u64,
    /// The value after the write; equal to `old` in `Begin`.
    pub new: u64,
    /// More of the value before the write. `cpu.max`: the period in nanoseconds. `cpuset.cpus`: CPUs 64 to 127.
    /// Else 0.
    pub old_more: u64,
    /// As `old_more`, after the write.
    pub new_more: u64,
    /// What the write returned: bytes taken (0 for `cpu.weight`), or minus an `errno`; 0 in `Begin`.
    pub result: i64,
    /// [`LimitKind`]
    pub file: u32,
    /// [`Phase`]
    pub phase: u32,
    /// The string as written, cut to this length; for `cpu.weight` the eight bytes of the number that the
    /// kernel made of it.
    pub asked: Text<ASKED_LEN>,
}

/// The greatest limit of `pids.max` (`PID_MAX_LIMIT`); the kernel keeps one more for `max`.
pub const PIDS_MAX: u64 = 4 << 20;

/// CPUs that the value of `cpuset.cpus` in a [`LimitWrite`] has room for.
pub const CPUS_MAX: u32 = 128;

numbered! {
    /// What happened to a cgroup.
    pub enum LifeEvent: u32 {
        /// Made.
        Mkdir = 0, "mkdir";
        /// Removed: no longer in the tree.
        Rmdir = 1, "rmdir";
        /// Released: the last reference is gone.
        Release = 2, "release";
    }
}

/// A cgroup (v2) came or went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct CgroupLife {
    /// The head.
    pub header: Header,
    /// The cgroup.
    pub cgroup: u64,
    /// Its parent.
    pub parent: u64,
    /// Its depth; the root's is 0.
    pub level: u32,
    /// [`LifeEvent`]
    pub event: u32,
    /// The name of its folder, cut to this length less one.
    pub name: Text<NAME_LEN>,
}

// SAFETY: `repr(C)`, integers and byte arrays only, no padding: `tests` holds the offsets of every field.
unsafe impl Plain for Header {}
// SAFETY: as for `Header`.
unsafe impl Plain for OomKill {}
// SAFETY: as for `Header`.
unsafe impl Plain for ReclaimBegin {}
// SAFETY: as for `Header`.
unsafe impl Plain for ReclaimEnd {}
// SAFETY: as for `Header`.
unsafe impl Plain for LimitWrite {}
// SAFETY: as for `Header`.
unsafe impl Plain for CgroupLife {}
// SAFETY: as for `Header`.
unsafe impl Plain for OomEnd {}
