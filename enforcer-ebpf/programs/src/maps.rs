//! The maps: all bounded, and a counter for what does not fit.

use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap, LruHashMap, PerCpuArray, RingBuf};
use core::intrinsics::{AtomicOrdering, atomic_xadd};
use enforcer_abi::{
    Cost, GuardLife, Guarded, Header, Kind, Lease, LeaseKey, LimitParser, Past, Program, Reason, Source,
    Verdict,
};

/// All records. The loader sets the size.
#[map]
pub static EVENTS: RingBuf = RingBuf::with_byte_size(4096, 0);

/// The cgroups whose reclaim is told. The loader sets the size.
#[map]
pub static WATCHED: HashMap<u64, u8> = HashMap::with_max_entries(1, 0);

/// Records that had no room, by number of the [`Kind`].
#[map]
pub static DROPS: PerCpuArray<u64> = PerCpuArray::with_max_entries(DROP_SLOTS, 0);
const DROP_SLOTS: u32 = 8;
const _: () = assert!(Kind::ALL.len() as u32 + 1 == DROP_SLOTS);

/// What each program cost, by number of the [`Program`].
#[map]
pub static COSTS: PerCpuArray<Cost> = PerCpuArray::with_max_entries(Program::ALL.len() as u32, 0);

/// Reclaims that run, by thread.
#[map]
pub static RECLAIMS: HashMap<u64, crate::reclaim::Running> = HashMap::with_max_entries(4096, 0);

/// The last second of reclaim, by cgroup. One that is pushed out was quiet the longest.
#[map]
pub static PAST: LruHashMap<u64, Past> = LruHashMap::with_max_entries(4096, 0);

/// Limit writes that run, by thread.
#[map]
pub static WRITES: HashMap<u64, crate::limit::Running> = HashMap::with_max_entries(1024, 0);

/// Processes that became victims: start time by process id. The kernel marks each thread of a victim; one
/// record a process is told. A victim that is pushed out could only be told twice.
#[map]
pub static VICTIMS: LruHashMap<u32, u64> = LruHashMap::with_max_entries(4096, 0);

/// The guarded cgroups. The loader sets the size.
#[map]
pub static GUARDED: HashMap<u64, Guarded> = HashMap::with_max_entries(1, 0);

/// What may be set below usage. The loader sets the size.
#[map]
pub static LEASES: HashMap<LeaseKey, Lease> = HashMap::with_max_entries(1, 0);

/// Whether user space is there.
#[map]
pub static GUARD_LIFE: Array<GuardLife> = Array::with_max_entries(1, 0);

/// Judged writes, by [`Verdict::slot`].
#[map]
pub static GUARD_COUNTS: PerCpuArray<u64> = PerCpuArray::with_max_entries(Verdict::COUNTS, 0);

/// What a thread is about to write to a guarded file, and what the guard makes of it. What is found out on one of many
/// ways is kept here and read back: to the verifier it is then one unknown, and it goes on once and not once a way.
#[repr(C)]
pub struct Scratch {
    pub parser: LimitParser,
    pub bytes: [u8; 128],
    pub syscall: u64,
    pub pages: u64,
    /// What `pages` is: 0 for not to be had, 1 for a value that the kernel refuses, 2 for the limit asked for.
    pub asked: u32,
    pub source: Source,
    pub reason: Reason,
    pub verdict: Verdict,
}

/// A parser at its begin, and no bytes. A static, for a constant would be built on the stack.
pub static EMPTY: Scratch = Scratch {
    parser: LimitParser::START,
    bytes: [0; 128],
    syscall: 0,
    pages: 0,
    asked: 0,
    source: Source::KernelThread,
    reason: Reason::Blind,
    verdict: Verdict::Allowed,
};

/// Values that are read now, by thread. Not one for each CPU: the guard can be preempted.
#[map]
pub static SCRATCH: HashMap<u64, Scratch> = HashMap::with_max_entries(256, 0);

/// Adds to a counter that another program on the same CPU may be adding to.
#[inline(always)]
pub fn add(counter: *mut u64, value: u64) {
    // SAFETY: callers pass a counter inside a map value, valid and aligned for the program's whole run.
    unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(counter, value) };
}

/// Counts a record that had no room.
#[inline(always)]
pub fn dropped(kind: Kind) {
    if let Some(counter) = DROPS.get_ptr_mut(kind as u32) {
        add(counter, 1);
    }
}

/// Reserves room for a record, lets `fill` write it over zeroes, and sends it; counts it where there is no
/// room.
#[inline(always)]
pub fn send<T: 'static>(kind: Kind, time_ns: u64, fill: impl FnOnce(&mut T)) {
    let Some(mut entry) = EVENTS.reserve::<T>(0) else {
        return dropped(kind);
    };
    let start = entry.as_mut_ptr();
    const { assert!(size_of::<T>().is_multiple_of(8)) };
    // SAFETY: the entry is `T` bytes of our own until it is submitted; records start with a `Header`, and
    // all zeroes is a value of every record type.
    unsafe {
        for word in 0..size_of::<T>() / 8 {
            // Volatile, so that it does not become a call that writes byte by byte.
            start.cast::<u64>().add(word).write_volatile(0);
        }
        fill(&mut *start);
        start.cast::<Header>().write(Header::new(kind, time_ns));
    }
    entry.submit(0);
}
