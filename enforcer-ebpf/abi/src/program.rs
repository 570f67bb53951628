//! The kernel programs, and what each has cost.

use crate::named::numbered;

numbered! {
    /// A kernel program, by the number of its cost counter. The name is that of the function in the object.
    pub enum Program: u32 {
        /// An OOM begins.
        OomBeginFentry = 0, "oom_begin_fentry";
        /// An OOM begins, where fentry can't be had.
        OomBeginKprobe = 1, "oom_begin_kprobe";
        /// A victim is chosen.
        OomKillFentry = 2, "oom_kill_fentry";
        /// A victim is chosen, where fentry can't be had.
        OomKillKprobe = 3, "oom_kill_kprobe";
        /// The OOM takes a whole cgroup.
        OomGroupFexit = 4, "oom_group_fexit";
        /// A process becomes a victim.
        OomVictimTp = 5, "oom_victim_tp";
        /// A process becomes a victim, where the tracepoint does not pass the task.
        OomVictimFentry = 6, "oom_victim_fentry";
        /// A process becomes a victim, where neither can be had.
        OomVictimKprobe = 7, "oom_victim_kprobe";
        /// Reclaim on behalf of a cgroup begins.
        ReclaimBeginFentry = 8, "reclaim_begin_fentry";
        /// Reclaim on behalf of a cgroup ends.
        ReclaimEndFexit = 9, "reclaim_end_fexit";
        /// Reclaim on behalf of a cgroup begins, from the tracepoint.
        ReclaimBeginTp = 10, "reclaim_begin_tp";
        /// Reclaim on behalf of a cgroup ends, from the tracepoint.
        ReclaimEndTp = 11, "reclaim_end_tp";
        /// A write to `memory.max` begins.
        MaxBegin = 12, "memory_max_begin";
        /// A write to `memory.max` ends.
        MaxEnd = 13, "memory_max_end";
        /// A write to `memory.high` begins.
        HighBegin = 14, "memory_high_begin";
        /// A write to `memory.high` ends.
        HighEnd = 15, "memory_high_end";
        /// A write to `memory.swap.max` begins.
        SwapBegin = 16, "swap_max_begin";
        /// A write to `memory.swap.max` ends.
        SwapEnd = 17, "swap_max_end";
        /// A write to `memory.min` begins.
        MinBegin = 18, "memory_min_begin";
        /// A write to `memory.min` ends.
        MinEnd = 19, "memory_min_end";
        /// A write to `memory.low` begins.
        LowBegin = 20, "memory_low_begin";
        /// A write to `memory.low` ends.
        LowEnd = 21, "memory_low_end";
        /// A write to `cpu.max` begins.
        CpuBegin = 22, "cpu_max_begin";
        /// A write to `cpu.max` ends.
        CpuEnd = 23, "cpu_max_end";
        /// A cgroup is made.
        CgroupMkdir = 24, "cgroup_mkdir";
        /// A cgroup is removed.
        CgroupRmdir = 25, "cgroup_rmdir";
        /// The last reference to a removed cgroup is gone.
        CgroupRelease = 26, "cgroup_release";
        /// A limit file of a guarded cgroup is about to be written.
        GuardWrite = 27, "guard_write";
        /// An OOM is over.
        OomEndFexit = 28, "oom_end_fexit";
        /// A write to `cpu.weight` begins.
        WeightBegin = 29, "cpu_weight_begin";
        /// A write to `cpu.weight` ends.
        WeightEnd = 30, "cpu_weight_end";
        /// A write to `cpuset.cpus` begins.
        CpusetBegin = 31, "cpuset_cpus_begin";
        /// A write to `cpuset.cpus` ends.
        CpusetEnd = 32, "cpuset_cpus_end";
        /// A write to `pids.max` begins.
        PidsBegin = 33, "pids_max_begin";
        /// A write to `pids.max` ends.
        PidsEnd = 34, "pids_max_end";
    }
}

/// Buckets of [`Cost::histogram`].
pub const COST_BUCKETS: usize = 32;

/// What one program cost on one CPU since it was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Cost {
    /// Runs.
    pub count: u64,
    /// Time spent, in nanoseconds.
    pub total_ns: u64,
    /// Runs by duration: bucket `b` counts those of `2^b` to `2^(b+1) - 1` ns; the last takes all above,
    /// the first also 0 ns.
    pub histogram: [u64; COST_BUCKETS],
}

impl Cost {
    /// Nothing ran.
    pub const ZERO: Self = Self { count: 0, total_ns: 0, histogram: [0; COST_BUCKETS] };

    /// The bucket of a run that took `ns`.
    pub const fn bucket(ns: u64) -> usize {
        let bucket = (ns | 1).ilog2() as usize;
        if bucket < COST_BUCKETS { bucket } else { COST_BUCKETS - 1 }
    }
}
