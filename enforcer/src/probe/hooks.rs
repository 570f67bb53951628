//! Which hook tells what: the table of needs, each with its hooks best-first, and the judgement whether a
//! hook fits a kernel. Pure: it is given a [`Summary`] of the kernel's types.

use super::summary::{Argument, Summary};
use enforcer_abi::{Field, LimitKind, Program};
use std::collections::BTreeSet;
use std::fmt;

/// Something that the agent wants to be told by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Each OOM kill: victim, whose limit, which trigger.
    OomKill,
    /// Which kills were a group kill (`memory.oom.group`).
    OomGroup,
    /// That an OOM is over, and what came before it.
    OomEnd,
    /// Begin and end of reclaim in watched cgroups.
    Reclaim,
    /// Writes to one limit file.
    LimitWrite(LimitKind),
    /// Cgroups that are made, removed and released.
    CgroupLife,
    /// Unsafe writes to memory limits of guarded cgroups, to be refused.
    Guard,
}

impl Need {
    /// All needs, in the order that output shows them.
    pub const ALL: &'static [Self] = &[
        Self::OomKill,
        Self::OomGroup,
        Self::OomEnd,
        Self::Reclaim,
        Self::LimitWrite(LimitKind::MemoryMax),
        Self::LimitWrite(LimitKind::MemoryHigh),
        Self::LimitWrite(LimitKind::SwapMax),
        Self::LimitWrite(LimitKind::MemoryMin),
        Self::LimitWrite(LimitKind::MemoryLow),
        Self::LimitWrite(LimitKind::CpuMax),
        Self::LimitWrite(LimitKind::CpuWeight),
        Self::LimitWrite(LimitKind::CpusetCpus),
        Self::LimitWrite(LimitKind::PidsMax),
        Self::CgroupLife,
        Self::Guard,
    ];

    /// Whether it only tells, and never stands in anybody's way.
    pub const fn only_tells(self) -> bool {
        !matches!(self, Self::Guard)
    }

    /// What is lost when no hook for it can be had.
    pub const fn lost(self) -> &'static str {
        match self {
            Self::OomKill => "OOM kills are seen only as counts in memory.events, without victim and owner",
            Self::OomGroup => "group kills are not marked as such; their victims still share one number",
            Self::OomEnd => "that an OOM is over is guessed from silence; memory.stat is read after the kill",
            Self::Reclaim => "reclaim is not seen: a trial notices its effect only from files, later",
            Self::LimitWrite(_) => "who writes this limit is not known; a change is seen only by reading it",
            Self::CgroupLife => "cgroups that come and go are found only by looking again",
            Self::Guard => "other writers can't be kept from unsafe limits",
        }
    }

    /// The hooks that answer it, best first.
    pub const fn hooks(self) -> &'static [Hook] {
        match self {
            Self::OomKill => OOM_KILL,
            Self::OomGroup => OOM_GROUP,
            Self::OomEnd => OOM_END,
            Self::Reclaim => RECLAIM,
            Self::LimitWrite(LimitKind::MemoryMax) => MEMORY_MAX,
            Self::LimitWrite(LimitKind::MemoryHigh) => MEMORY_HIGH,
            Self::LimitWrite(LimitKind::SwapMax) => SWAP_MAX,
            Self::LimitWrite(LimitKind::MemoryMin) => MEMORY_MIN,
            Self::LimitWrite(LimitKind::MemoryLow) => MEMORY_LOW,
            Self::LimitWrite(LimitKind::CpuMax) => CPU_MAX,
            Self::LimitWrite(LimitKind::CpuWeight) => CPU_WEIGHT,
            Self::LimitWrite(LimitKind::CpusetCpus) => CPUSET_CPUS,
            Self::LimitWrite(LimitKind::PidsMax) => PIDS_MAX,
            Self::CgroupLife => CGROUP_LIFE,
            Self::Guard => guard::GUARD,
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OomKill => f.write_str("OOM kills"),
            Self::OomGroup => f.write_str("OOM group kills"),
            Self::OomEnd => f.write_str("ends of OOMs"),
            Self::Reclaim => f.write_str("reclaim"),
            Self::LimitWrite(file) => write!(f, "writes to {}", file.name()),
            Self::CgroupLife => f.write_str("cgroup life"),
            Self::Guard => f.write_str("the guard"),
        }
    }
}

/// A place in the kernel where a program can be attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// A function's entry, through a BPF trampoline.
    Fentry(&'static str),
    /// A function's return, through a BPF trampoline.
    Fexit(&'static str),
    /// A function's entry, through a breakpoint.
    Kprobe(&'static str),
    /// A tracepoint with typed arguments.
    TpBtf(&'static str),
    /// A question of the kernel to its security modules.
    Lsm(&'static str),
}

impl Point {
    /// The function of the kernel that it is attached to; `None` for a tracepoint.
    pub fn function(self) -> Option<String> {
        match self {
            Self::Fentry(name) | Self::Fexit(name) | Self::Kprobe(name) => Some(name.to_owned()),
            Self::Lsm(name) => Some(format!("bpf_lsm_{name}")),
            Self::TpBtf(_) => None,
        }
    }

    /// The tracepoint that it is attached to; `None` for a function.
    pub const fn tracepoint(self) -> Option<&'static str> {
        match self {
            Self::TpBtf(name) => Some(name),
            Self::Fentry(_) | Self::Fexit(_) | Self::Kprobe(_) | Self::Lsm(_) => None,
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = match self {
            Self::Fentry(name) => ("fentry", name),
            Self::Fexit(name) => ("fexit", name),
            Self::Kprobe(name) => ("kprobe", name),
            Self::TpBtf(name) => ("tp_btf", name),
            Self::Lsm(name) => ("lsm", name),
        };
        write!(f, "{kind}:{name}")
    }
}

/// One program at one place, and what it takes for granted there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attachment {
    /// The program.
    pub program: Program,
    /// The place.
    pub point: Point,
    /// The arguments that it reads, by position.
    pub arguments: &'static [(usize, Argument<'static>)],
    /// The values that it reads.
    pub fields: &'static [Field],
}

/// Programs that answer a need together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hook {
    /// Its name in output.
    pub name: &'static str,
    /// All of these must attach.
    pub attachments: &'static [Attachment],
    /// What is lost against the best hook.
    pub lost: Option<&'static str>,
}

/// Why a hook does not fit, decided without trying.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The options rule it out.
    #[error("{} is switched off", .0.name())]
    SwitchedOff(Program),
    /// The kernel has no such function or tracepoint.
    #[error("this kernel has no {0}")]
    NoPoint(Point),
    /// An argument is of another type.
    #[error("argument {position} of {point} is {found}, not {wanted}")]
    Argument {
        /// Where.
        point: Point,
        /// Which, from 0.
        position: usize,
        /// What it is.
        found: String,
        /// What the program takes it for.
        wanted: String,
    },
    /// The kernel's types lack a value that the program reads.
    #[error("this kernel's type information has no {}", .0.name())]
    NoField(Field),
}

impl Hook {
    /// Whether every program of it finds what it takes for granted.
    pub fn fits(&self, kernel: &Summary, disabled: &BTreeSet<Program>) -> Result<(), Unfit> {
        self.attachments.iter().try_for_each(|attachment| attachment.fits(kernel, disabled))
    }
}

impl Attachment {
    /// Whether the program finds what it takes for granted.
    pub fn fits(&self, kernel: &Summary, disabled: &BTreeSet<Program>) -> Result<(), Unfit> {
        if disabled.contains(&self.program) {
            return Err(Unfit::SwitchedOff(self.program));
        }
        let arguments = match self.point.function() {
            Some(name) => kernel.function(&name),
            None => self.point.tracepoint().and_then(|name| kernel.tracepoint(name)),
        };
        let arguments = arguments.ok_or(Unfit::NoPoint(self.point))?;
        for (position, wanted) in self.arguments {
            let found = arguments.get(*position).map(String::as_str);
            if !wanted.is(found) {
                return Err(Unfit::Argument {
                    point: self.point,
                    position: *position,
                    found: found.unwrap_or("missing").to_owned(),
                    wanted: wanted.to_string(),
                });
            }
        }
        match self.fields.iter().find(|field| kernel.offset(**field).is_none()) {
            Some(field) => Err(Unfit::NoField(*field)),
            None => Ok(()),
        }
    }
}

const CGROUP: [Field; 2] = [Field::CgroupKn, Field::KnId];

const OOM_BEGIN: &[Field] = &[
    Field::OomMemcg,
    Field::MemcgCgroup,
    CGROUP[0],
    CGROUP[1],
    Field::MemcgUsage,
    Field::MemcgMax,
    Field::MemcgMaxEvents,
];
const OOM_CHOSEN: &[Field] = &[
    Field::OomChosen,
    Field::OomTotalpages,
    Field::OomConstraint,
    Field::TaskSignal,
    Field::TaskTgid,
    Field::SignalFlags,
];
const OOM_VICTIM: &[Field] = &[
    Field::TaskPid,
    Field::TaskTgid,
    Field::TaskComm,
    Field::TaskCgroups,
    Field::TaskMm,
    Field::TaskSignal,
    Field::TaskGroupLeader,
    Field::TaskStartTime,
    Field::CssSetCgroup,
    Field::CssSetMemoryCss,
    CGROUP[0],
    CGROUP[1],
    Field::MemcgUsage,
    Field::MemcgMax,
    Field::MmAnon,
    Field::MmFile,
    Field::MmShmem,
    Field::SignalOomScoreAdj,
];

/// What programs read if this kernel has it, and do without if not.
#[cfg(test)]
const OPTIONAL: &[Field] = &[
    Field::MemcgVmstats,
    Field::VmstatsState,
    Field::TaskThreadPid,
    Field::PidLevel,
    Field::PidNumbers,
    Field::UpidSize,
    Field::StatAnon,
    Field::StatFile,
    Field::StatShmem,
    Field::StatKernel,
    Field::StatSlabReclaimable,
    Field::StatSlabUnreclaimable,
    Field::StatSock,
    Field::StatInactiveFile,
    Field::StatActiveFile,
    Field::StatUnevictable,
    Field::StatFileDirty,
    Field::StatFileWriteback,
];

const fn at(
    program: Program,
    point: Point,
    arguments: &'static [(usize, Argument<'static>)],
    fields: &'static [Field],
) -> Attachment {
    Attachment { program, point, arguments, fields }
}

const OOM_CONTROL: &[(usize, Argument)] = &[(0, Argument::PointerTo("oom_control"))];
const TASK: &[(usize, Argument)] = &[(0, Argument::PointerTo("task_struct"))];

const BEGIN_FENTRY: Attachment =
    at(Program::OomBeginFentry, Point::Fentry("out_of_memory"), OOM_CONTROL, OOM_BEGIN);
const BEGIN_KPROBE: Attachment =
    at(Program::OomBeginKprobe, Point::Kprobe("out_of_memory"), OOM_CONTROL, OOM_BEGIN);
const CHOSEN_FENTRY: Attachment =
    at(Program::OomKillFentry, Point::Fentry("oom_kill_process"), OOM_CONTROL, OOM_CHOSEN);
const CHOSEN_KPROBE: Attachment =
    at(Program::OomKillKprobe, Point::Kprobe("oom_kill_process"), OOM_CONTROL, OOM_CHOSEN);
const VICTIM_TP: Attachment = at(Program::OomVictimTp, Point::TpBtf("mark_victim"), TASK, OOM_VICTIM);
const VICTIM_FENTRY: Attachment =
    at(Program::OomVictimFentry, Point::Fentry("mark_oom_victim"), TASK, OOM_VICTIM);
const VICTIM_KPROBE: Attachment =
    at(Program::OomVictimKprobe, Point::Kprobe("mark_oom_victim"), TASK, OOM_VICTIM);

const OOM_KILL: &[Hook] = &[
    Hook {
        name: "fentry:out_of_memory, fentry:oom_kill_process, tp_btf:mark_victim",
        attachments: &[BEGIN_FENTRY, CHOSEN_FENTRY, VICTIM_TP],
        lost: None,
    },
    Hook {
        // Older kernels pass only a process id to the tracepoint.
        name: "fentry:out_of_memory, fentry:oom_kill_process, fentry:mark_oom_victim",
        attachments: &[BEGIN_FENTRY, CHOSEN_FENTRY, VICTIM_FENTRY],
        lost: None,
    },
    Hook {
        name: "kprobe:out_of_memory, kprobe:oom_kill_process, tp_btf:mark_victim",
        attachments: &[BEGIN_KPROBE, CHOSEN_KPROBE, VICTIM_TP],
        lost: None,
    },
    Hook {
        name: "kprobe:out_of_memory, kprobe:oom_kill_process, kprobe:mark_oom_victim",
        attachments: &[BEGIN_KPROBE, CHOSEN_KPROBE, VICTIM_KPROBE],
        lost: None,
    },
    Hook {
        name: "tp_btf:mark_victim",
        attachments: &[VICTIM_TP],
        lost: Some("whose limit was hit, its usage and limit, and whether the victim was exiting"),
    },
];

const OOM_GROUP: &[Hook] = &[Hook {
    name: "fexit:mem_cgroup_get_oom_group",
    attachments: &[at(
        Program::OomGroupFexit,
        Point::Fexit("mem_cgroup_get_oom_group"),
        TASK,
        &[Field::MemcgCgroup, CGROUP[0], CGROUP[1]],
    )],
    lost: None,
}];

const OOM_END: &[Hook] = &[Hook {
    name: "fexit:out_of_memory",
    attachments: &[at(Program::OomEndFexit, Point::Fexit("out_of_memory"), OOM_CONTROL, &[])],
    lost: None,
}];

const MEMCG_ID: &[Field] = &[Field::MemcgCgroup, CGROUP[0], CGROUP[1]];

const RECLAIM: &[Hook] = &[
    Hook {
        name: "fentry+fexit:try_to_free_mem_cgroup_pages",
        attachments: &[
            at(
                Program::ReclaimBeginFentry,
                Point::Fentry("try_to_free_mem_cgroup_pages"),
                &[(0, Argument::PointerTo("mem_cgroup")), (3, Argument::Named("unsigned int"))],
                MEMCG_ID,
            ),
            at(
                Program::ReclaimEndFexit,
                Point::Fexit("try_to_free_mem_cgroup_pages"),
                &[(0, Argument::PointerTo("mem_cgroup"))],
                &[],
            ),
        ],
        lost: None,
    },
    Hook {
        // Older kernels do not pass the cgroup.
        name: "tp_btf:mm_vmscan_memcg_reclaim_begin/end",
        attachments: &[
            at(
                Program::ReclaimBeginTp,
                Point::TpBtf("mm_vmscan_memcg_reclaim_begin"),
                &[(2, Argument::PointerTo("mem_cgroup"))],
                MEMCG_ID,
            ),
            at(
                Program::ReclaimEndTp,
                Point::TpBtf("mm_vmscan_memcg_reclaim_end"),
                &[(0, Argument::Named("long unsigned int")), (1, Argument::PointerTo("mem_cgroup"))],
                &[],
            ),
        ],
        lost: Some("whether a limit forced the reclaim or memory.reclaim asked for it"),
    },
];

const OPEN_FILE: &[(usize, Argument)] =
    &[(0, Argument::PointerTo("kernfs_open_file")), (1, Argument::PointerTo("char"))];

macro_rules! limit_hook {
    ($table:ident, $function:literal, $name:literal, $begin:ident, $end:ident, [$($field:ident),+]) => {
        const $table: &[Hook] = &[Hook {
            name: $name,
            attachments: &[
                at(Program::$begin, Point::Fentry($function), OPEN_FILE, &[
                    Field::OpenFileKn, Field::KnParent, Field::KnPriv, Field::KnId, $(Field::$field),+
                ]),
                at(Program::$end, Point::Fexit($function), OPEN_FILE, &[
                    Field::OpenFileKn, Field::KnParent, Field::KnPriv, Field::KnId, $(Field::$field),+
                ]),
            ],
            lost: None,
        }];
    };
}

limit_hook!(
    MEMORY_MAX,
    "memory_max_write",
    "fentry+fexit:memory_max_write",
    MaxBegin,
    MaxEnd,
    [CgroupMemoryCss, MemcgMax]
);
limit_hook!(
    MEMORY_HIGH,
    "memory_high_write",
    "fentry+fexit:memory_high_write",
    HighBegin,
    HighEnd,
    [CgroupMemoryCss, MemcgHigh]
);
limit_hook!(
    SWAP_MAX,
    "swap_max_write",
    "fentry+fexit:swap_max_write",
    SwapBegin,
    SwapEnd,
    [CgroupMemoryCss, MemcgSwapMax]
);
limit_hook!(
    MEMORY_MIN,
    "memory_min_write",
    "fentry+fexit:memory_min_write",
    MinBegin,
    MinEnd,
    [CgroupMemoryCss, MemcgMin]
);
limit_hook!(
    MEMORY_LOW,
    "memory_low_write",
    "fentry+fexit:memory_low_write",
    LowBegin,
    LowEnd,
    [CgroupMemoryCss, MemcgLow]
);
limit_hook!(
    CPU_MAX,
    "cpu_max_write",
    "fentry+fexit:cpu_max_write",
    CpuBegin,
    CpuEnd,
    [CgroupCpuCss, CpuQuota, CpuPeriod]
);
limit_hook!(
    CPUSET_CPUS,
    "cpuset_write_resmask",
    "fentry+fexit:cpuset_write_resmask",
    CpusetBegin,
    CpusetEnd,
    [CgroupCpusetCss, CpusetCpus, FilePrivate, FileCpulist, CgroupRoot, RootHierarchy]
);
limit_hook!(
    PIDS_MAX,
    "pids_max_write",
    "fentry+fexit:pids_max_write",
    PidsBegin,
    PidsEnd,
    [CgroupPidsCss, PidsLimit, CgroupRoot, RootHierarchy]
);

const WEIGHT: &[(usize, Argument)] =
    &[(0, Argument::PointerTo("cgroup_subsys_state")), (2, Argument::Named("long long unsigned int"))];
const WEIGHT_FIELDS: &[Field] = &[Field::CssCgroup, CGROUP[0], CGROUP[1], Field::CpuShares];

const CPU_WEIGHT: &[Hook] = &[Hook {
    name: "fentry+fexit:cpu_weight_write_u64",
    attachments: &[
        at(Program::WeightBegin, Point::Fentry("cpu_weight_write_u64"), WEIGHT, WEIGHT_FIELDS),
        at(Program::WeightEnd, Point::Fexit("cpu_weight_write_u64"), WEIGHT, WEIGHT_FIELDS),
    ],
    lost: None,
}];

const LIFE: &[Field] = &[
    CGROUP[0],
    CGROUP[1],
    Field::KnName,
    Field::CgroupRoot,
    Field::RootHierarchy,
    Field::CgroupParentCss,
    Field::CssCgroup,
    Field::CgroupLevel,
];
const CGROUP_ARGUMENT: &[(usize, Argument)] = &[(0, Argument::PointerTo("cgroup"))];

const CGROUP_LIFE: &[Hook] = &[Hook {
    name: "tp_btf:cgroup_mkdir/rmdir/release",
    attachments: &[
        at(Program::CgroupMkdir, Point::TpBtf("cgroup_mkdir"), CGROUP_ARGUMENT, LIFE),
        at(Program::CgroupRmdir, Point::TpBtf("cgroup_rmdir"), CGROUP_ARGUMENT, LIFE),
        at(Program::CgroupRelease, Point::TpBtf("cgroup_release"), CGROUP_ARGUMENT, LIFE),
    ],
    lost: None,
}];

mod guard;

#[cfg(test)]
mod tests;
