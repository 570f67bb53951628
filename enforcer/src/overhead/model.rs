//! What is measured, in types. Every quantity saturates; what can't be is clamped and flagged.

use super::{
    cpu::{Cpu, Millicores},
    fit::Acceptance,
    helpers::Rule,
    phase::Phase,
};
use enforcer_gate::{Bytes, Micros};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A part of a pod's overhead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Term {
    /// The pod's cgroup less its app containers': anonymous memory (the pause process).
    PodAnon,
    /// The same: shared memory and tmpfs.
    PodShmem,
    /// The same: the kernel's memory that can't be reclaimed.
    PodKernel,
    /// The same: sockets' buffers.
    PodSock,
    /// The same: page cache.
    PodFile,
    /// The same: the kernel's memory that can be reclaimed.
    PodSlab,
    /// The same: what `memory.current` has and `memory.stat` does not tell, such as charges held ahead by a CPU.
    PodOther,
    /// Helpers outside of the pod's cgroup: their share of anonymous memory.
    HelperAnon,
    /// The same: shared memory.
    HelperShmem,
    /// The same: files that are mapped, the program first of all; page cache.
    HelperFile,
    /// The same: page tables.
    HelperPageTables,
    /// The same: the kernel's stacks of their threads.
    HelperStacks,
}

impl Term {
    /// All of them, in the order that they are shown in.
    pub const ALL: [Self; 12] = [
        Self::PodAnon,
        Self::PodShmem,
        Self::PodKernel,
        Self::PodSock,
        Self::PodFile,
        Self::PodSlab,
        Self::PodOther,
        Self::HelperAnon,
        Self::HelperShmem,
        Self::HelperFile,
        Self::HelperPageTables,
        Self::HelperStacks,
    ];

    /// Its name, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PodAnon => "pod_anon",
            Self::PodShmem => "pod_shmem",
            Self::PodKernel => "pod_kernel",
            Self::PodSock => "pod_sock",
            Self::PodFile => "pod_file",
            Self::PodSlab => "pod_slab",
            Self::PodOther => "pod_other",
            Self::HelperAnon => "helper_anon",
            Self::HelperShmem => "helper_shmem",
            Self::HelperFile => "helper_file",
            Self::HelperPageTables => "helper_page_tables",
            Self::HelperStacks => "helper_stacks",
        }
    }

    /// Whether `MemAvailable` counts it as there for the taking: it is reported, and takes no part in the acceptance.
    /// What `memory.stat` does not tell is free pages of a CPU's own, or page cache: neither is missing there.
    pub const fn is_reclaimable(self) -> bool {
        match self {
            Self::PodFile | Self::PodSlab | Self::PodOther | Self::HelperFile => true,
            Self::PodAnon
            | Self::PodShmem
            | Self::PodKernel
            | Self::PodSock
            | Self::HelperAnon
            | Self::HelperShmem
            | Self::HelperPageTables
            | Self::HelperStacks => false,
        }
    }
}

/// Something about a reading that whoever uses it must know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "flag", rename_all = "snake_case")]
pub enum Flag {
    /// A part was larger than its whole by so much; the difference was taken for zero.
    Clamped {
        /// Of which term.
        term: Term,
        /// By how much.
        by: Bytes,
    },
    /// CPU time of a part was more than of its whole, or went back, by so much; the difference was taken for zero.
    ClampedCpu {
        /// By how much.
        by: Micros,
    },
    /// A helper ended between two looks: its memory is not in the figures.
    ProcessGone {
        /// Its number.
        pid: u32,
    },
    /// A figure could not be read: it is not in the sum.
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        why: String,
    },
    /// No helper of the pod was found.
    NoHelper,
    /// It looks like a helper of this pod and is none: not counted.
    LookAlike {
        /// Its number.
        pid: u32,
        /// What speaks against it.
        why: String,
    },
    /// The pod, or a container of it, ended by itself.
    PodGone,
}

impl Flag {
    /// Whether the figures of the pod are not all there.
    pub const fn is_incomplete(&self) -> bool {
        match self {
            Self::ProcessGone { .. } | Self::Unreadable { .. } | Self::PodGone => true,
            Self::Clamped { .. } | Self::ClampedCpu { .. } | Self::NoHelper | Self::LookAlike { .. } => false,
        }
    }
}

/// A helper process of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Helper {
    /// Its number.
    pub pid: u32,
    /// Its program.
    pub program: String,
    /// Why it is this pod's.
    pub rule: Rule,
    /// Below the mount.
    pub cgroup: String,
    /// It is in the pod's cgroup, so its memory is in the pod's terms already.
    pub in_pod: bool,
    /// Its share of memory.
    pub memory: HelperMemory,
}

/// A process' memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelperMemory {
    /// Share of anonymous memory (`Pss_Anon`).
    pub anon: Bytes,
    /// Share of files (`Pss_File`).
    pub file: Bytes,
    /// Share of shared memory (`Pss_Shmem`).
    pub shmem: Bytes,
    /// Page tables (`VmPTE`).
    pub page_tables: Bytes,
    /// Kernel stacks.
    pub stacks: Bytes,
}

/// A pod's virtual machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vm {
    /// Its memory, by its monitor's command line.
    pub memory: Bytes,
    /// Its monitor is in the pod's cgroup.
    pub in_pod: bool,
}

/// One pod at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodSample {
    /// The step that it was taken in, counted from 0.
    pub step: usize,
    /// The pod's sandbox.
    pub sandbox: String,
    /// What it costs.
    pub terms: BTreeMap<Term, Bytes>,
    /// CPU time while nothing was made or removed; `None` where it could not be read.
    pub cpu: Option<Cpu>,
    /// What its app containers use; no part of the overhead.
    pub app: Bytes,
    /// Of that, what can't be reclaimed.
    pub app_kept: Bytes,
    /// What dead containers left in the pod's cgroup; no part of the overhead.
    #[serde(default)]
    pub residue: Bytes,
    /// `memory.peak` of the pod's cgroup; `None` where the kernel has none.
    #[serde(default)]
    pub peak: Option<Bytes>,
    /// Its virtual machine, where it has one whose memory is known.
    #[serde(default)]
    pub vm: Option<Vm>,
    /// The helpers that were found.
    pub helpers: Vec<Helper>,
    /// What to know about it.
    pub flags: Vec<Flag>,
}

impl PodSample {
    /// With what was used of CPUs, where that could be read.
    #[must_use]
    pub fn with(mut self, used: Option<(Cpu, Vec<Flag>)>) -> Self {
        if let Some((cpu, flags)) = used {
            self.cpu = Some(cpu);
            self.flags.extend(flags);
        }
        self
    }

    /// All terms together.
    pub fn total(&self) -> Bytes {
        self.terms.values().copied().sum()
    }

    /// The terms that the node misses.
    pub fn kept(&self) -> Bytes {
        self.terms.iter().filter(|(term, _)| !term.is_reclaimable()).map(|(_, bytes)| *bytes).sum()
    }

    /// The memory of its virtual machine.
    pub fn machine(&self) -> Option<Bytes> {
        self.vm.map(|vm| vm.memory)
    }

    /// The same, where the machine is in the pod's cgroup.
    pub fn machine_in_pod(&self) -> Option<Bytes> {
        self.vm.filter(|vm| vm.in_pod).map(|vm| vm.memory)
    }

    /// Whether every figure of it could be read.
    pub fn is_complete(&self) -> bool {
        !self.flags.iter().any(Flag::is_incomplete)
    }
}

/// The node at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSample {
    /// The step that it was taken in, counted from 0.
    pub step: usize,
    /// Pods of ours that ran.
    pub pods: u32,
    /// Pods of ours that had ever been made.
    pub made: u32,
    /// `MemAvailable`.
    pub available: Bytes,
    /// Free pages that CPUs keep for themselves, which `MemAvailable` lacks.
    pub on_cpus: Bytes,
    /// What is known and no overhead of a pod, by name: app containers, the runtime's daemon, this process, systemd.
    pub known: BTreeMap<String, Bytes>,
    /// Readings still moved when it was taken.
    pub unsettled: bool,
    /// Probes that succeeded in this step, of all pods together.
    #[serde(default)]
    pub probes: u32,
}

impl NodeSample {
    /// What the node would have left without all that is known.
    pub fn left(&self) -> Bytes {
        let known: Bytes = self.known.values().copied().sum();
        self.available.saturating_add(self.on_cpus).saturating_add(known)
    }
}

/// How a pod began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The step that it was made for, counted from 0.
    pub step: usize,
    /// Its sandbox.
    pub sandbox: String,
    /// CPU time from the call that makes its sandbox until its container runs.
    pub cpu: Cpu,
    /// `memory.peak` of its cgroup by then.
    pub peak: Option<Bytes>,
}

/// A whole measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Of this form of the document.
    pub version: u32,
    /// The label of all that was made.
    pub id: String,
    /// The runtime's name and version.
    pub runtime: String,
    /// The handler; empty for the default one.
    pub handler: String,
    /// The kernel's release.
    pub kernel: String,
    /// What the order of the steps was drawn from.
    pub seed: u64,
    /// How many pods there were in each step.
    pub steps: Vec<u32>,
    /// What the pods did.
    #[serde(default)]
    pub phase: Phase,
    /// How the pods began, the one to warm up apart.
    #[serde(default)]
    pub starts: Vec<Start>,
    /// The pods.
    pub pods: Vec<PodSample>,
    /// The node.
    pub nodes: Vec<NodeSample>,
    /// Why it is not whole.
    pub partial: Option<String>,
    /// What came of it; `None` where there was too little to say.
    pub result: Option<Outcome>,
}

/// What a measurement says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Mean of each term.
    pub terms: BTreeMap<Term, Bytes>,
    /// Over pods and steps.
    pub total: Spread,
    /// The same of what the node misses.
    pub kept: Spread,
    /// The node's word on it.
    pub acceptance: Acceptance,
    /// The number for the `RuntimeClass`.
    pub pod_fixed: Bytes,
    /// CPU of a pod that idles; `None` where none could be read.
    pub cpu: Option<Millicores>,
    /// Samples that were left out, for not all of their figures could be read.
    pub incomplete: usize,
    /// What grew with each pod in processes that are nobody's helper, by name: known, taken out, and no overhead of a pod.
    pub beside: BTreeMap<String, f64>,
}

/// How figures lie.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// How many.
    pub count: usize,
    /// Their mean.
    pub mean: Bytes,
    /// Half of them are no larger.
    pub p50: Bytes,
    /// 95 of 100 are no larger.
    pub p95: Bytes,
    /// 99 of 100 are no larger.
    pub p99: Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_those_of_the_json_and_all_are_listed() {
        let mut sorted = Term::ALL;
        sorted.sort_unstable();
        assert_eq!(sorted, Term::ALL, "in the order of the type, and each once");
        for term in Term::ALL {
            assert_eq!(serde_json::to_value(term).expect("is JSON"), term.name());
        }
    }

    proptest! {
        #[test]
        fn sums_never_wrap(bytes in proptest::collection::vec(any::<u64>(), 12)) {
            let terms = Term::ALL.into_iter().zip(bytes.iter().map(|bytes| Bytes::new(*bytes))).collect();
            let sample = PodSample {
                step: 0, sandbox: String::new(), terms, cpu: None, app: Bytes::ZERO, app_kept: Bytes::ZERO,
                residue: Bytes::ZERO, peak: None, vm: None, helpers: Vec::new(), flags: Vec::new(),
            };
            let exact: u128 = bytes.iter().map(|bytes| u128::from(*bytes)).sum();
            prop_assert_eq!(u128::from(sample.total().get()), exact.min(u128::from(u64::MAX)));
            prop_assert!(sample.kept() <= sample.total());
        }
    }
}
