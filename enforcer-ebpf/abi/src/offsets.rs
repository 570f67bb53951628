//! Where the running kernel keeps what the programs read. User space fills this from the kernel's own BTF
//! before it loads a program; nothing about a kernel's layout is compiled in.

use crate::named::numbered;

numbered! {
    /// A value of the running kernel: mostly the offset of a field in bytes.
    pub enum Field: u32 {
        /// `oom_control.memcg`
        OomMemcg = 0, "oom_control.memcg";
        /// `oom_control.chosen`
        OomChosen = 1, "oom_control.chosen";
        /// `oom_control.totalpages`
        OomTotalpages = 2, "oom_control.totalpages";
        /// `oom_control.constraint`
        OomConstraint = 3, "oom_control.constraint";
        /// `mem_cgroup.css.cgroup`
        MemcgCgroup = 4, "mem_cgroup.css.cgroup";
        /// `mem_cgroup.memory.usage`
        MemcgUsage = 5, "mem_cgroup.memory.usage";
        /// `mem_cgroup.memory.max`
        MemcgMax = 6, "mem_cgroup.memory.max";
        /// `mem_cgroup.memory.high`
        MemcgHigh = 7, "mem_cgroup.memory.high";
        /// `mem_cgroup.memory.min`
        MemcgMin = 8, "mem_cgroup.memory.min";
        /// `mem_cgroup.memory.low`
        MemcgLow = 9, "mem_cgroup.memory.low";
        /// The counter of limit hits: `mem_cgroup.memory_events_local[MEMCG_MAX]`
        MemcgMaxEvents = 10, "mem_cgroup.memory_events_local[MEMCG_MAX]";
        /// `mem_cgroup.swap.max`
        MemcgSwapMax = 11, "mem_cgroup.swap.max";
        /// `task_group.cfs_bandwidth.quota`
        CpuQuota = 12, "task_group.cfs_bandwidth.quota";
        /// `task_group.cfs_bandwidth.period`
        CpuPeriod = 13, "task_group.cfs_bandwidth.period";
        /// `cgroup.kn`
        CgroupKn = 14, "cgroup.kn";
        /// `cgroup.level`
        CgroupLevel = 15, "cgroup.level";
        /// `cgroup.root`
        CgroupRoot = 16, "cgroup.root";
        /// `cgroup.self.parent`
        CgroupParentCss = 17, "cgroup.self.parent";
        /// `cgroup_subsys_state.cgroup`
        CssCgroup = 18, "cgroup_subsys_state.cgroup";
        /// The slot of the memory controller: `cgroup.subsys[memory_cgrp_id]`
        CgroupMemoryCss = 19, "cgroup.subsys[memory_cgrp_id]";
        /// The slot of the CPU controller: `cgroup.subsys[cpu_cgrp_id]`
        CgroupCpuCss = 20, "cgroup.subsys[cpu_cgrp_id]";
        /// `cgroup_root.hierarchy_id`; 0 is cgroup v2
        RootHierarchy = 21, "cgroup_root.hierarchy_id";
        /// `kernfs_node.id`
        KnId = 22, "kernfs_node.id";
        /// `kernfs_node.name`
        KnName = 23, "kernfs_node.name";
        /// `kernfs_node.parent`, or `__parent` since 6.15
        KnParent = 24, "kernfs_node.parent";
        /// `kernfs_node.priv`
        KnPriv = 25, "kernfs_node.priv";
        /// `kernfs_open_file.kn`
        OpenFileKn = 26, "kernfs_open_file.kn";
        /// `task_struct.pid`
        TaskPid = 27, "task_struct.pid";
        /// `task_struct.tgid`
        TaskTgid = 28, "task_struct.tgid";
        /// `task_struct.comm`
        TaskComm = 29, "task_struct.comm";
        /// `task_struct.cgroups`
        TaskCgroups = 30, "task_struct.cgroups";
        /// `task_struct.mm`
        TaskMm = 31, "task_struct.mm";
        /// `task_struct.signal`
        TaskSignal = 32, "task_struct.signal";
        /// `task_struct.group_leader`
        TaskGroupLeader = 33, "task_struct.group_leader";
        /// `task_struct.start_time`
        TaskStartTime = 34, "task_struct.start_time";
        /// `css_set.dfl_cgrp`
        CssSetCgroup = 35, "css_set.dfl_cgrp";
        /// The slot of the memory controller: `css_set.subsys[memory_cgrp_id]`
        CssSetMemoryCss = 36, "css_set.subsys[memory_cgrp_id]";
        /// `signal_struct.flags`
        SignalFlags = 37, "signal_struct.flags";
        /// `signal_struct.oom_score_adj`
        SignalOomScoreAdj = 38, "signal_struct.oom_score_adj";
        /// The counter of anonymous pages in `mm_struct.rss_stat`
        MmAnon = 39, "mm_struct.rss_stat[MM_ANONPAGES]";
        /// The counter of file pages in `mm_struct.rss_stat`
        MmFile = 40, "mm_struct.rss_stat[MM_FILEPAGES]";
        /// The counter of shared memory pages in `mm_struct.rss_stat`
        MmShmem = 41, "mm_struct.rss_stat[MM_SHMEMPAGES]";
        /// `file.f_inode`
        FileInode = 42, "file.f_inode";
        /// `inode.i_sb`
        InodeSb = 43, "inode.i_sb";
        /// `inode.i_private`
        InodePrivate = 44, "inode.i_private";
        /// `super_block.s_magic`
        SbMagic = 45, "super_block.s_magic";
        /// `task_struct.flags`
        TaskFlags = 46, "task_struct.flags";
        /// `task_struct.thread_info.status`
        TaskStatus = 47, "task_struct.thread_info.status";
        /// `task_struct.files`
        TaskFiles = 48, "task_struct.files";
        /// `files_struct.fdt`
        FilesTable = 49, "files_struct.fdt";
        /// `fdtable.fd`
        TableFds = 50, "fdtable.fd";
        /// The number of the system call: `pt_regs.orig_ax`
        RegsCall = 51, "pt_regs.orig_ax";
        /// The first argument of a system call: `pt_regs.di`
        RegsFirst = 52, "pt_regs.di";
        /// The second: `pt_regs.si`
        RegsSecond = 53, "pt_regs.si";
        /// The third: `pt_regs.dx`
        RegsThird = 54, "pt_regs.dx";
        /// `mem_cgroup.swap.usage`
        MemcgSwapUsage = 55, "mem_cgroup.swap.usage";
        /// `cgroup.nr_populated_csets`, or `cgroup.self.nr_populated_csets` on newer kernels
        CgroupPopulated = 56, "cgroup.nr_populated_csets";
        /// `cgroup.nr_populated_domain_children`
        CgroupPopulatedDomains = 57, "cgroup.nr_populated_domain_children";
        /// `cgroup.nr_populated_threaded_children`
        CgroupPopulatedThreaded = 58, "cgroup.nr_populated_threaded_children";
        /// `mem_cgroup.vmstats`
        MemcgVmstats = 59, "mem_cgroup.vmstats";
        /// `memcg_vmstats.state`
        VmstatsState = 60, "memcg_vmstats.state";
        /// `task_struct.thread_pid`
        TaskThreadPid = 61, "task_struct.thread_pid";
        /// `pid.level`
        PidLevel = 62, "pid.level";
        /// `pid.numbers`
        PidNumbers = 63, "pid.numbers";
        /// The size of `struct upid`, of which `pid.numbers` is made
        UpidSize = 64, "sizeof(upid)";
        /// The number of a counter: `NR_ANON_MAPPED`
        StatAnon = 65, "NR_ANON_MAPPED";
        /// The number of a counter: `NR_FILE_PAGES`
        StatFile = 66, "NR_FILE_PAGES";
        /// The number of a counter: `NR_SHMEM`
        StatShmem = 67, "NR_SHMEM";
        /// The number of a counter: `MEMCG_KMEM`
        StatKernel = 68, "MEMCG_KMEM";
        /// The number of a counter: `NR_SLAB_RECLAIMABLE_B`
        StatSlabReclaimable = 69, "NR_SLAB_RECLAIMABLE_B";
        /// The number of a counter: `NR_SLAB_UNRECLAIMABLE_B`
        StatSlabUnreclaimable = 70, "NR_SLAB_UNRECLAIMABLE_B";
        /// The number of a counter: `MEMCG_SOCK`
        StatSock = 71, "MEMCG_SOCK";
        /// The number of a counter: `NR_INACTIVE_FILE`
        StatInactiveFile = 72, "NR_INACTIVE_FILE";
        /// The number of a counter: `NR_ACTIVE_FILE`
        StatActiveFile = 73, "NR_ACTIVE_FILE";
        /// The number of a counter: `NR_UNEVICTABLE`
        StatUnevictable = 74, "NR_UNEVICTABLE";
        /// The number of a counter: `NR_FILE_DIRTY`
        StatFileDirty = 75, "NR_FILE_DIRTY";
        /// The number of a counter: `NR_WRITEBACK`
        StatFileWriteback = 76, "NR_WRITEBACK";
        /// `task_group.shares`
        CpuShares = 77, "task_group.shares";
        /// `pids_cgroup.limit`
        PidsLimit = 78, "pids_cgroup.limit";
        /// `cpuset.cpus_allowed`, where that is a pointer (`CONFIG_CPUMASK_OFFSTACK`)
        CpusetCpus = 79, "cpuset.cpus_allowed";
        /// The slot of the pids controller: `cgroup.subsys[pids_cgrp_id]`
        CgroupPidsCss = 80, "cgroup.subsys[pids_cgrp_id]";
        /// The slot of the cpuset controller: `cgroup.subsys[cpuset_cgrp_id]`
        CgroupCpusetCss = 81, "cgroup.subsys[cpuset_cgrp_id]";
        /// `cftype.private`
        FilePrivate = 82, "cftype.private";
        /// The number of a file of the cpuset controller: `FILE_CPULIST`
        FileCpulist = 83, "FILE_CPULIST";
    }
}

/// The value of every [`Field`], for one kernel. A field that is not known is 0; the loader does not load
/// a program that reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Offsets {
    values: [u32; Self::LEN],
}

impl Offsets {
    /// How many values there are.
    pub const LEN: usize = Field::ALL.len();
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { values: [0; Self::LEN] };

    /// Sets one value.
    pub const fn set(&mut self, field: Field, value: u32) {
        self.values[field as usize] = value;
    }

    /// One value.
    pub const fn get(&self, field: Field) -> u32 {
        self.values[field as usize]
    }

    /// Where the value of `field` is kept: kernel programs read it there, so that the verifier sees the
    /// constant which user space put in.
    pub const fn slot(&self, field: Field) -> *const u32 {
        &raw const self.values[field as usize]
    }

    /// The bytes that a kernel program's global takes.
    pub fn to_bytes(self) -> [u8; Self::LEN * 4] {
        let mut bytes = [0; Self::LEN * 4];
        for (to, value) in bytes.chunks_exact_mut(4).zip(self.values) {
            to.copy_from_slice(&value.to_ne_bytes());
        }
        bytes
    }
}
