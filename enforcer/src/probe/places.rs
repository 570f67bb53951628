//! Where each [`Field`] is found in the kernel's types.

use enforcer_abi::Field;

/// How to find one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The offset of a member, by path from a structure; the first path that exists.
    Member(&'static str, &'static [&'static str]),
    /// The offset of an element in an array: structure, member, the enumerator that is the index.
    Element(&'static str, &'static str, &'static str),
    /// The offset of a memory counter of `mm_struct.rss_stat`, by the enumerator that is its index.
    Counter(&'static str),
    /// The size of a structure.
    Size(&'static str),
    /// The value of an enumerator.
    Enumerator(&'static str),
}

/// Where a field is found.
pub(crate) const fn place(field: Field) -> Place {
    use Place::{Counter, Element, Enumerator, Member, Size};
    match field {
        Field::OomMemcg => Member("oom_control", &["memcg"]),
        Field::OomChosen => Member("oom_control", &["chosen"]),
        Field::OomTotalpages => Member("oom_control", &["totalpages"]),
        Field::OomConstraint => Member("oom_control", &["constraint"]),
        Field::MemcgCgroup => Member("mem_cgroup", &["css.cgroup"]),
        Field::MemcgUsage => Member("mem_cgroup", &["memory.usage"]),
        Field::MemcgMax => Member("mem_cgroup", &["memory.max"]),
        Field::MemcgHigh => Member("mem_cgroup", &["memory.high"]),
        Field::MemcgMin => Member("mem_cgroup", &["memory.min"]),
        Field::MemcgLow => Member("mem_cgroup", &["memory.low"]),
        Field::MemcgMaxEvents => Element("mem_cgroup", "memory_events_local", "MEMCG_MAX"),
        Field::MemcgSwapMax => Member("mem_cgroup", &["swap.max"]),
        Field::CpuQuota => Member("task_group", &["cfs_bandwidth.quota"]),
        Field::CpuPeriod => Member("task_group", &["cfs_bandwidth.period"]),
        Field::CgroupKn => Member("cgroup", &["kn"]),
        Field::CgroupLevel => Member("cgroup", &["level"]),
        Field::CgroupRoot => Member("cgroup", &["root"]),
        Field::CgroupParentCss => Member("cgroup", &["self.parent"]),
        Field::CssCgroup => Member("cgroup_subsys_state", &["cgroup"]),
        Field::CgroupMemoryCss => Element("cgroup", "subsys", "memory_cgrp_id"),
        Field::CgroupCpuCss => Element("cgroup", "subsys", "cpu_cgrp_id"),
        Field::RootHierarchy => Member("cgroup_root", &["hierarchy_id"]),
        Field::KnId => Member("kernfs_node", &["id"]),
        Field::KnName => Member("kernfs_node", &["name"]),
        Field::KnParent => Member("kernfs_node", &["__parent", "parent"]),
        Field::KnPriv => Member("kernfs_node", &["priv"]),
        Field::OpenFileKn => Member("kernfs_open_file", &["kn"]),
        Field::TaskPid => Member("task_struct", &["pid"]),
        Field::TaskTgid => Member("task_struct", &["tgid"]),
        Field::TaskComm => Member("task_struct", &["comm"]),
        Field::TaskCgroups => Member("task_struct", &["cgroups"]),
        Field::TaskMm => Member("task_struct", &["mm"]),
        Field::TaskSignal => Member("task_struct", &["signal"]),
        Field::TaskGroupLeader => Member("task_struct", &["group_leader"]),
        Field::TaskStartTime => Member("task_struct", &["start_time"]),
        Field::CssSetCgroup => Member("css_set", &["dfl_cgrp"]),
        Field::CssSetMemoryCss => Element("css_set", "subsys", "memory_cgrp_id"),
        Field::SignalFlags => Member("signal_struct", &["flags"]),
        Field::SignalOomScoreAdj => Member("signal_struct", &["oom_score_adj"]),
        Field::MmAnon => Counter("MM_ANONPAGES"),
        Field::MmFile => Counter("MM_FILEPAGES"),
        Field::MmShmem => Counter("MM_SHMEMPAGES"),
        Field::FileInode => Member("file", &["f_inode"]),
        Field::InodeSb => Member("inode", &["i_sb"]),
        Field::InodePrivate => Member("inode", &["i_private"]),
        Field::SbMagic => Member("super_block", &["s_magic"]),
        Field::TaskFlags => Member("task_struct", &["flags"]),
        Field::TaskStatus => Member("task_struct", &["thread_info.status"]),
        Field::TaskFiles => Member("task_struct", &["files"]),
        Field::FilesTable => Member("files_struct", &["fdt"]),
        Field::TableFds => Member("fdtable", &["fd"]),
        Field::RegsCall => Member("pt_regs", &["orig_ax"]),
        Field::RegsFirst => Member("pt_regs", &["di"]),
        Field::RegsSecond => Member("pt_regs", &["si"]),
        Field::RegsThird => Member("pt_regs", &["dx"]),
        Field::MemcgSwapUsage => Member("mem_cgroup", &["swap.usage"]),
        Field::CgroupPopulated => Member("cgroup", &["nr_populated_csets", "self.nr_populated_csets"]),
        Field::CgroupPopulatedDomains => Member("cgroup", &["nr_populated_domain_children"]),
        Field::CgroupPopulatedThreaded => Member("cgroup", &["nr_populated_threaded_children"]),
        Field::MemcgVmstats => Member("mem_cgroup", &["vmstats"]),
        Field::VmstatsState => Member("memcg_vmstats", &["state"]),
        Field::TaskThreadPid => Member("task_struct", &["thread_pid"]),
        Field::PidLevel => Member("pid", &["level"]),
        Field::PidNumbers => Member("pid", &["numbers"]),
        Field::UpidSize => Size("upid"),
        Field::StatAnon => Enumerator("NR_ANON_MAPPED"),
        Field::StatFile => Enumerator("NR_FILE_PAGES"),
        Field::StatShmem => Enumerator("NR_SHMEM"),
        Field::StatKernel => Enumerator("MEMCG_KMEM"),
        Field::StatSlabReclaimable => Enumerator("NR_SLAB_RECLAIMABLE_B"),
        Field::StatSlabUnreclaimable => Enumerator("NR_SLAB_UNRECLAIMABLE_B"),
        Field::StatSock => Enumerator("MEMCG_SOCK"),
        Field::StatInactiveFile => Enumerator("NR_INACTIVE_FILE"),
        Field::StatActiveFile => Enumerator("NR_ACTIVE_FILE"),
        Field::StatUnevictable => Enumerator("NR_UNEVICTABLE"),
        Field::StatFileDirty => Enumerator("NR_FILE_DIRTY"),
        Field::StatFileWriteback => Enumerator("NR_WRITEBACK"),
    }
}
