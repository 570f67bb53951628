//! One reading of everything the gate needs to know about one memory cgroup.

use crate::{Bytes, Limit, Micros};
use alloc::{string::String, vec::Vec};
use serde::{Deserialize, Serialize};

/// One reading of one memory cgroup (cgroup v2). Plain data: whoever reads the files fills it in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// `memory.current`: everything charged to this cgroup and its descendants.
    pub current: Bytes,
    /// `memory.max`.
    pub max: Limit,
    /// `memory.high`.
    pub high: Limit,
    /// `memory.stat`, by exact key.
    pub stat: MemoryStat,
    /// `memory.events.local`: this cgroup's own limits only.
    pub events_local: MemoryEvents,
    /// `memory.events`: this cgroup and its descendants.
    pub events: MemoryEvents,
    /// `memory.pressure`; `None` where PSI is off (`psi=1` on the boot line turns it on).
    pub pressure: Option<Pressure>,
    /// Memory of descendants that reclaim aimed at this cgroup passes over.
    pub protection: Protection,
    /// How much anonymous memory swap could take now.
    pub swap: SwapRoom,
    /// Huge pages of hugetlbfs that are charged to `memory.current`
    /// (mount option `memory_hugetlb_accounting`); zero where they are not.
    pub hugetlb: Bytes,
    /// `cgroup.events` `populated`: a process lives in this cgroup or below.
    pub populated: bool,
    /// `cgroup.events` `frozen`.
    pub frozen: bool,
    /// The outermost cgroup below this one that is `frozen` and `populated`: its path below the cgroup mount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen_below: Option<String>,
    /// Limits of the ancestors, nearest first, the root left out.
    pub ancestors: Vec<AncestorLimit>,
}

/// The keys of `memory.stat` that count here; a key that the kernel does not print is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryStat {
    /// Anonymous memory, transparent huge pages included.
    pub anon: Bytes,
    /// Page cache, tmpfs and shared memory (`shmem`) included.
    pub file: Bytes,
    /// All kernel memory: slab, stacks, page tables, per-CPU, vmalloc, zswap's pool. 5.18 and later.
    pub kernel: Bytes,
    /// Network buffers.
    pub sock: Bytes,
    /// Swap-backed file memory: tmpfs, memfd, shared anonymous mappings. Part of `file`.
    pub shmem: Bytes,
    /// Compressed size of what zswap holds for this cgroup; charged, and part of `kernel`.
    pub zswap: Bytes,
    /// Uncompressed size of what zswap holds.
    pub zswapped: Bytes,
    /// File memory that page tables map (`shmem` that is mapped included).
    pub file_mapped: Bytes,
    /// Page cache to be written.
    pub file_dirty: Bytes,
    /// Page cache being written.
    pub file_writeback: Bytes,
    /// Swap cache that is charged too.
    pub swapcached: Bytes,
    /// Inactive anonymous list (`shmem` sits on the anonymous lists).
    pub inactive_anon: Bytes,
    /// Active anonymous list.
    pub active_anon: Bytes,
    /// Inactive file list.
    pub inactive_file: Bytes,
    /// Active file list.
    pub active_file: Bytes,
    /// Pages that reclaim can't take: mlock, ramfs, `SHM_LOCK`.
    pub unevictable: Bytes,
    /// Slab that shrinkers may free: dentries, inodes.
    pub slab_reclaimable: Bytes,
    /// Slab that nothing frees.
    pub slab_unreclaimable: Bytes,
    /// Pages of file memory read back after they were reclaimed (a count of pages, ever).
    pub workingset_refault_file: u64,
    /// Pages of anonymous memory read back after they were swapped (a count of pages, ever).
    pub workingset_refault_anon: u64,
    /// Pages scanned by reclaim (a count, ever).
    pub pgscan: u64,
    /// Pages reclaimed (a count, ever).
    pub pgsteal: u64,
}

/// Counters of `memory.events` or `memory.events.local`, ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryEvents {
    /// Reclaimed below `memory.low`.
    pub low: u64,
    /// Throttled for going over `memory.high`.
    pub high: u64,
    /// About to go over `memory.max`.
    pub max: u64,
    /// The limit was hit and allocation was about to fail.
    pub oom: u64,
    /// Processes killed.
    pub oom_kill: u64,
    /// Group kills.
    pub oom_group_kill: u64,
}

/// Totals of `memory.pressure`, ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pressure {
    /// Time in which at least one task was stalled on memory.
    pub some_total: Micros,
    /// Time in which all non-idle tasks were stalled on memory.
    pub full_total: Micros,
}

/// Memory of descendants that reclaim aimed at this cgroup could take, but will not, or only at last.
/// What it could not take anyway (anonymous memory without swap, locked memory) is not in here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Protection {
    /// Kept by `memory.min` (effective): never reclaimed.
    pub min: Bytes,
    /// Kept by `memory.low` (effective), beyond `min`: reclaimed only when nothing else is left.
    pub low: Bytes,
}

/// What swap can really take of this cgroup's anonymous memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SwapRoom {
    /// min of (`memory.swap.max` - `memory.swap.current`) over this cgroup and its ancestors, and the
    /// host's free swap.
    pub free: Bytes,
    /// Swapped pages go to zswap first, whose compressed copy stays charged here.
    pub zswap: bool,
}

/// One ancestor's limit and use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AncestorLimit {
    /// Path below the cgroup mount.
    pub path: String,
    /// `memory.max`.
    pub max: Limit,
    /// `memory.high`.
    pub high: Limit,
    /// `memory.current`.
    pub current: Bytes,
}
