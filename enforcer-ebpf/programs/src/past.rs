//! What came before an OOM: the last second of reclaim, and `memory.stat`.

use crate::kernel::{Ptr, follow, load_behind, plain};
use crate::maps::{PAST, add};
use aya_ebpf::helpers::bpf_probe_read_kernel;
use enforcer_abi::{Field, PAST_SHIFT, PAST_SLOTS, Past, PastSlot, STAT_UNKNOWN, Stat};

/// Whether reclaim of every cgroup is counted. The loader sets it.
#[unsafe(no_mangle)]
static KEEP_PAST: u8 = 0;

/// Where the kernel keeps the places of its counters (`mem_cgroup_stats_index`, since 6.10); 0 where a counter's
/// number is its place. The loader sets it.
#[unsafe(no_mangle)]
static STAT_TABLE: u64 = 0;

/// What the table holds for a counter that a cgroup does not have.
const NO_PLACE: u8 = u8::MAX;

static NONE: Past = Past { slots: [PastSlot { epoch: 0, count: 0, total_ns: 0, reclaimed: 0 }; PAST_SLOTS] };

/// Reclaims before an OOM.
#[derive(Clone, Copy)]
pub struct Before {
    pub reclaims: u64,
    pub reclaim_ns: u64,
    pub reclaimed: u64,
}

/// Whether reclaim of every cgroup is counted.
#[inline(always)]
pub fn is_kept() -> bool {
    // SAFETY: a read of a static; volatile because the loader changes it.
    unsafe { (&raw const KEEP_PAST).read_volatile() != 0 }
}

/// Counts a reclaim that ended. Two that end at once in the first moment of a slot may cost it one of them.
#[inline(always)]
pub fn keep(cgroup: u64, now_ns: u64, took_ns: u64, reclaimed: u64) {
    let past = match PAST.get_ptr_mut(&cgroup) {
        Some(past) => past,
        None => {
            let _ = PAST.insert(&cgroup, &NONE, 0);
            match PAST.get_ptr_mut(&cgroup) {
                Some(past) => past,
                None => return,
            }
        }
    };
    let epoch = now_ns >> PAST_SHIFT;
    // SAFETY: a map value stays valid for the program's whole run; the slot is inside the array.
    unsafe {
        let slot = (&raw mut (*past).slots).cast::<PastSlot>().add(epoch as usize % PAST_SLOTS);
        if (*slot).epoch != epoch {
            slot.write(PastSlot { epoch, count: 0, total_ns: 0, reclaimed: 0 });
        }
        add(&raw mut (*slot).count, 1);
        add(&raw mut (*slot).total_ns, took_ns);
        add(&raw mut (*slot).reclaimed, reclaimed);
    }
}

/// What was counted in the last second.
#[inline(always)]
pub fn before(cgroup: u64, now_ns: u64) -> Before {
    let mut before = Before { reclaims: 0, reclaim_ns: 0, reclaimed: 0 };
    if !is_kept() {
        before.reclaims = STAT_UNKNOWN;
        return before;
    }
    let Some(past) = PAST.get_ptr_mut(&cgroup) else { return before };
    let oldest = (now_ns >> PAST_SHIFT).saturating_sub(PAST_SLOTS as u64 - 1);
    for at in 0..PAST_SLOTS {
        // SAFETY: as in `keep`.
        let slot = unsafe { (&raw const (*past).slots).cast::<PastSlot>().add(at).read() };
        if slot.epoch >= oldest {
            before.reclaims += slot.count;
            before.reclaim_ns += slot.total_ns;
            before.reclaimed += slot.reclaimed;
        }
    }
    before
}

/// One term of `memory.stat`; [`STAT_UNKNOWN`] where it can't be read.
#[inline(always)]
fn term(vmstats: Ptr, counter: u64) -> u64 {
    // SAFETY: a read of a static; volatile because the loader changes it.
    let table = unsafe { (&raw const STAT_TABLE).read_volatile() };
    let mut place = counter;
    if table != 0 {
        let byte = |number: u64| {
            // SAFETY: the helper takes any address and fails on a bad one.
            unsafe { bpf_probe_read_kernel((table + number) as *const u8) }.unwrap_or(NO_PLACE)
        };
        // Counter 0 has the first place. Some kernels count places from 1, so that 0 can mean none.
        let (first, found) = (byte(0), byte(counter));
        if found == NO_PLACE || found < first {
            return STAT_UNKNOWN;
        }
        place = u64::from(found - first);
    }
    let value = load_behind::<i64>(vmstats, Field::VmstatsState, place * size_of::<u64>() as u64);
    match value {
        // Per-CPU parts that are not handed up yet can make a sum negative for a moment.
        Some(value) if value < 0 => 0,
        Some(value) => value as u64,
        None => STAT_UNKNOWN,
    }
}

/// The terms of `memory.stat` of a `struct mem_cgroup`.
#[inline(always)]
pub fn terms(memcg: Ptr, into: &mut [u64; Stat::COUNT]) {
    let known = plain(Field::MemcgVmstats) != 0;
    let vmstats = if known { follow(memcg, Field::MemcgVmstats) } else { core::ptr::null() };
    macro_rules! each {
        ($($stat:ident $field:ident),+ $(,)?) => {
            $(
                let counter = plain(Field::$field);
                into[Stat::$stat as usize] =
                    if counter == 0 || vmstats.is_null() { STAT_UNKNOWN } else { term(vmstats, counter) };
            )+
        };
    }
    each!(
        Anon StatAnon,
        File StatFile,
        Shmem StatShmem,
        Kernel StatKernel,
        SlabReclaimable StatSlabReclaimable,
        SlabUnreclaimable StatSlabUnreclaimable,
        Sock StatSock,
        InactiveFile StatInactiveFile,
        ActiveFile StatActiveFile,
        Unevictable StatUnevictable,
        FileDirty StatFileDirty,
        FileWriteback StatFileWriteback,
    );
}
