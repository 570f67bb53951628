//! The floor: what a cgroup keeps charged whatever reclaim does.
//!
//! Two views of one reading, and the higher counts: the sum of everything that is known to stay, and
//! usage less everything that is known to go. They differ where the kernel's counters lag or overlap;
//! the floor errs upwards there, and never above usage.

use crate::{Bytes, MemoryStat, Policy, Sample};
use serde::{Deserialize, Serialize};

/// zswap's compressed share of a page, in thousandths, while the cgroup has too little in zswap to tell.
/// LZO and zstd do better on nearly everything; a quarter freed is what can be counted on.
pub const ZSWAP_PERMILLE_UNKNOWN: u64 = 750;
/// From so much in zswap on, the cgroup's own ratio is used.
const ZSWAP_KNOWN_FROM: Bytes = Bytes::from_mib(1);
/// Mapped file pages kept without any refault seen: one part in so many of usage...
const WORKING_SET_SHARE: u64 = 32;
/// ...but at least this.
const WORKING_SET_MIN: Bytes = Bytes::from_mib(1);

/// What stays charged, by term, and how the two views add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Floor {
    /// The floor: `max(terms.sum(), usage - reclaimable)`, at most `usage`.
    pub bytes: Bytes,
    /// Everything that is known to stay.
    pub terms: Terms,
    /// `memory.current` of the same reading.
    pub usage: Bytes,
    /// Everything that is known to go: clean page cache that nothing protects, a share of reclaimable
    /// slab, and what swap can take net of zswap's copies.
    pub reclaimable: Bytes,
}

/// The terms of a floor. No byte is in two of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Terms {
    /// Anonymous memory that swap can't take.
    pub anon: Bytes,
    /// Shared and tmpfs memory that swap can't take.
    pub shmem: Bytes,
    /// Locked memory of every kind (mlock, `SHM_LOCK`, ramfs, secretmem); no other term has it.
    pub unevictable: Bytes,
    /// Kernel memory other than reclaimable slab, zswap's pool included.
    pub kernel: Bytes,
    /// The share of reclaimable slab that shrinkers are not counted on to free.
    pub slab: Bytes,
    /// Network buffers.
    pub sock: Bytes,
    /// Huge pages of hugetlbfs, where they are charged.
    pub hugetlb: Bytes,
    /// Page cache that has to be written first.
    pub dirty: Bytes,
    /// Clean page cache, and memory that swap could take, that `memory.min` or `memory.low` of a
    /// descendant keeps.
    pub protected: Bytes,
    /// Mapped file pages (programs, libraries) without which the workload thrashes.
    pub working_set: Bytes,
    /// Charged, but in none of the kernel's counters: charge batches of CPUs, late statistics.
    pub unattributed: Bytes,
}

/// One term for evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// Its name, as in JSON.
    pub name: &'static str,
    /// How much.
    pub bytes: Bytes,
    /// What it is, in one line.
    pub meaning: &'static str,
}

impl Terms {
    /// How many there are.
    pub const COUNT: usize = 11;

    /// All of them, in the order of a table.
    pub const fn list(&self) -> [Term; Self::COUNT] {
        const fn term(name: &'static str, bytes: Bytes, meaning: &'static str) -> Term {
            Term { name, bytes, meaning }
        }
        [
            term("anon", self.anon, "anonymous memory that swap can't take"),
            term("shmem", self.shmem, "tmpfs and shared memory that swap can't take"),
            term("unevictable", self.unevictable, "locked memory (mlock, SHM_LOCK, ramfs)"),
            term(
                "kernel",
                self.kernel,
                "kernel memory that nothing frees (stacks, page tables, slab, zswap)",
            ),
            term("slab", self.slab, "reclaimable slab that shrinkers are not counted on to free"),
            term("sock", self.sock, "network buffers"),
            term("hugetlb", self.hugetlb, "hugetlbfs pages charged here"),
            term("dirty", self.dirty, "page cache that has to be written first"),
            term("protected", self.protected, "kept from reclaim by memory.min or memory.low below"),
            term("working_set", self.working_set, "mapped file pages (programs, libraries) in use"),
            term("unattributed", self.unattributed, "charged, but in none of the kernel's counters"),
        ]
    }

    /// Their sum.
    pub fn sum(&self) -> Bytes {
        self.list().iter().map(|term| term.bytes).sum()
    }
}

impl Floor {
    /// The floor of one reading, with nothing known about refaults.
    pub fn of(sample: &Sample, policy: &Policy) -> Self {
        Self::with_refaults(sample, policy, Bytes::ZERO)
    }

    /// The floor of one reading, where `refaulted` file memory was read back within the window: so much
    /// more of the mapped file pages is in use than the least that is always kept.
    pub fn with_refaults(sample: &Sample, policy: &Policy, refaulted: Bytes) -> Self {
        let stat = &sample.stat;
        let usage = sample.current;

        let cache = stat.file.saturating_sub(stat.shmem);
        let file_lists = stat.inactive_file.saturating_add(stat.active_file);
        // Locked memory is on no other list, so what page cache misses on the file lists is locked.
        let locked_cache = cache.saturating_sub(file_lists).min(stat.unevictable);
        let locked_swap_backed = stat.unevictable.saturating_sub(locked_cache);
        let anon_evictable = stat.anon.saturating_sub(locked_swap_backed);
        let shmem_evictable = stat.shmem.saturating_sub(locked_swap_backed.saturating_sub(stat.anon));

        let anon_swapped = anon_evictable.min(sample.swap.free);
        let shmem_swapped = shmem_evictable.min(sample.swap.free.saturating_sub(anon_swapped));
        let anon_freed = freed_by_swap(anon_swapped, sample);
        let shmem_freed = freed_by_swap(shmem_swapped, sample);

        let slab_freed =
            stat.slab_reclaimable.min(stat.kernel).scaled(u64::from(policy.slab_permille.min(1000)), 1000);
        let slab = stat.slab_reclaimable.min(stat.kernel).saturating_sub(slab_freed);
        let kernel = stat.kernel.saturating_sub(stat.slab_reclaimable);

        // Each of these takes its share of the page cache that is left, so none is counted twice.
        let cache = cache.saturating_sub(locked_cache);
        let dirty = stat.file_dirty.saturating_add(stat.file_writeback).min(cache);
        let cache = cache.saturating_sub(dirty);
        let working_set = working_set(stat, usage, refaulted).min(cache);
        let cache = cache.saturating_sub(working_set);
        let swap_freed = anon_freed.saturating_add(shmem_freed);
        let protection = sample.protection.min.saturating_add(sample.protection.low);
        let protected = protection.min(cache.saturating_add(swap_freed));

        let terms = Terms {
            anon: anon_evictable.saturating_sub(anon_freed),
            shmem: shmem_evictable.saturating_sub(shmem_freed),
            unevictable: stat.unevictable,
            kernel,
            slab,
            sock: stat.sock,
            hugetlb: sample.hugetlb,
            dirty,
            protected,
            working_set,
            unattributed: usage.saturating_sub(attributed(sample)),
        };
        let reclaimable = file_lists
            .saturating_sub(dirty)
            .saturating_add(slab_freed)
            .saturating_add(swap_freed)
            .saturating_sub(protected);
        let bytes = Self::total(&terms, usage, reclaimable);
        Self { bytes, terms, usage, reclaimable }
    }

    fn total(terms: &Terms, usage: Bytes, reclaimable: Bytes) -> Bytes {
        terms.sum().max(usage.saturating_sub(reclaimable)).min(usage)
    }

    /// Whether `bytes` is what the rest makes it.
    pub fn adds_up(&self) -> bool {
        self.bytes == Self::total(&self.terms, self.usage, self.reclaimable)
    }
}

/// What usage falls by when swap takes `bytes`: all of it, or what zswap's compressed copy leaves.
fn freed_by_swap(bytes: Bytes, sample: &Sample) -> Bytes {
    if !sample.swap.zswap {
        return bytes;
    }
    let MemoryStat { zswap, zswapped, .. } = sample.stat;
    let kept = if zswapped >= ZSWAP_KNOWN_FROM {
        // An eighth more than so far: what is swapped next may compress worse.
        bytes.scaled(zswap.get(), zswapped.get()).scaled(9, 8)
    } else {
        bytes.scaled(ZSWAP_PERMILLE_UNKNOWN, 1000)
    };
    bytes.saturating_sub(kept)
}

/// Mapped file pages that are in use. `file_mapped` has mapped tmpfs too, whose share no counter tells:
/// the caller bounds the result by the clean page cache that there is.
fn working_set(stat: &MemoryStat, usage: Bytes, refaulted: Bytes) -> Bytes {
    let always = usage.scaled(1, WORKING_SET_SHARE).max(WORKING_SET_MIN);
    stat.file_mapped.min(always.saturating_add(refaulted))
}

/// Everything that a counter of the kernel names.
fn attributed(sample: &Sample) -> Bytes {
    let stat = &sample.stat;
    [stat.anon, stat.file, stat.kernel, stat.sock, sample.hugetlb].into_iter().sum()
}
