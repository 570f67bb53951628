//! Whether what a `RuntimeClass` declares is enough for what was measured, and not far too much. No I/O.
//!
//! The kubelet adds `podFixed` to the containers' limits for the limit of the pod's cgroup
//! (`ResourceConfigForPod`, pkg/kubelet/cm), and the scheduler to their requests (KEP-688). So what lies in the pod's
//! cgroup beyond its containers must fit into it or the pod is killed, and what lies elsewhere is missing to the node.

use super::{
    declared::Declared,
    fit::{bytes, round_up_mib, spread},
    model::{PodSample, Run, Term},
};
use enforcer_gate::Bytes;
use serde::Serialize;

/// More than the value that would do by no more than this is no waste: a share of it, but at least so much.
pub const SLACK_PERCENT: u64 = 25;
/// What is added to what a filled machine needs.
const MARGIN: Bytes = Bytes::from_mib(1);
/// Of memory.
pub const SLACK_MEMORY: Bytes = Bytes::from_mib(4);
/// Of CPU, in thousandths.
pub const SLACK_MILLICORES: u64 = 10;

/// How a declared amount lies to what was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// Some of 100 pods need more: more than five.
    TooSmall,
    /// It is enough, and no waste.
    Fits,
    /// It is enough, and more than [`SLACK_PERCENT`] beyond what would do.
    TooLarge,
    /// It is not declared.
    Undeclared,
}

impl Size {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooSmall => "too small",
            Self::Fits => "fits",
            Self::TooLarge => "too large",
            Self::Undeclared => "not declared",
        }
    }
}

/// An amount that was declared, and what it is held against; bytes, or thousandths of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Judged {
    /// What is declared.
    pub declared: Option<u64>,
    /// What 95 of 100 pods get by with.
    pub needed: u64,
    /// The number to declare.
    pub would_do: u64,
    /// What that means.
    pub size: Size,
}

fn judge(declared: Option<u64>, needed: u64, would_do: u64, slack_min: u64) -> Judged {
    // What would do is rounded up from what is needed; by hand it need not be.
    let would_do = would_do.max(needed);
    let share = u128::from(would_do) * u128::from(SLACK_PERCENT) / 100;
    let slack = u64::try_from(share).unwrap_or(u64::MAX).max(slack_min);
    let size = match declared {
        None => Size::Undeclared,
        Some(declared) if declared < needed => Size::TooSmall,
        Some(declared) if declared > would_do.saturating_add(slack) => Size::TooLarge,
        Some(_) => Size::Fits,
    };
    Judged { declared, needed, would_do, size }
}

/// What speaks for an OOM kill in a pod's cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ground {
    /// 99 of 100 pods hold so much beyond their containers in their cgroup that can't be reclaimed.
    Kept,
    /// A virtual machine's memory is in the pod's cgroup, and its guest may fill all of it.
    Machine,
    /// `memory.peak` of a pod's cgroup was so much beyond its containers; how much of that could have been reclaimed is
    /// not known, so it may come to an OOM kill and need not.
    Peak,
}

/// A pod whose containers use all of their limits would hit its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Oom {
    /// What says so.
    pub ground: Ground,
    /// What the pod's cgroup would hold: beyond its containers' limits, but for [`Ground::Machine`], whose containers
    /// are in the machine's memory.
    pub holds: Bytes,
    /// What there is for that.
    pub room: Bytes,
}

/// A virtual machine whose process is in the pod's cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Its memory, by its command line: its guest may come to fill it, with page cache if nothing else.
    pub memory: Bytes,
    /// The 95th percentile of all that the pod costs besides shared memory, which is where the guest's is.
    pub beside: Bytes,
}

/// What a measurement says of the amounts to declare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Needs {
    /// What 95 of 100 pods get by with: the 95th percentile of all terms, and what the node misses beyond their sum.
    pub memory: Bytes,
    /// The number to declare.
    pub memory_would_do: Bytes,
    /// The 99th percentile of what lies in the pod's cgroup beyond its containers and can't be reclaimed.
    pub in_pod: Bytes,
    /// The highest `memory.peak` of a pod's cgroup less what its containers used.
    pub peak: Option<Bytes>,
    /// The virtual machine in the pod's cgroup.
    pub machine: Option<Machine>,
    /// The 95th percentile of CPU beyond the containers, in thousandths, rounded up; and the number to declare.
    pub cpu: Option<(u64, u64)>,
}

/// The terms in the pod's cgroup that can't be reclaimed.
fn in_pod(pod: &PodSample) -> Bytes {
    let kept = [Term::PodAnon, Term::PodShmem, Term::PodKernel, Term::PodSock];
    kept.iter().filter_map(|term| pod.terms.get(term).copied()).sum()
}

fn beside_shared(pod: &PodSample) -> Bytes {
    pod.total().saturating_sub(pod.terms.get(&Term::PodShmem).copied().unwrap_or_default())
}

impl Needs {
    /// `None` where a measurement has too little to say.
    pub fn of(run: &Run) -> Option<Self> {
        let result = run.result.as_ref()?;
        let whole = || run.pods.iter().filter(|pod| pod.is_complete());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
        let cpu = result.cpu.map(|cpu| (cpu.p95.ceil() as u64, u64::from(cpu.pod_fixed)));
        let missed = bytes(result.acceptance.unexplained);
        Some(Self {
            memory: result.total.p95.saturating_add(missed),
            memory_would_do: result.pod_fixed,
            in_pod: spread(whole().map(in_pod).collect())?.p99,
            peak: whole().filter_map(|pod| Some(pod.peak?.saturating_sub(pod.app))).max(),
            machine: whole().filter_map(PodSample::machine_in_pod).max().and_then(|memory| {
                Some(Machine { memory, beside: spread(whole().map(beside_shared).collect())?.p95 })
            }),
            cpu,
        })
    }
}

/// What is declared, held against what was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Memory, in bytes. Nothing declared is none declared, and too small.
    pub memory: Judged,
    /// CPU, in thousandths; `None` where none was measured.
    pub cpu: Option<Judged>,
    /// Whether a pod is to be killed for it.
    pub oom: Option<Oom>,
}

impl Checked {
    /// Whether more must be declared, of one or the other.
    pub fn is_too_small(&self) -> bool {
        let is = |judged: &Judged| judged.size == Size::TooSmall;
        let is_oom = self.oom.is_some_and(|oom| oom.ground != Ground::Peak);
        is(&self.memory) || self.cpu.as_ref().is_some_and(is) || is_oom
    }

    /// Whether less would do.
    pub fn is_too_large(&self) -> bool {
        let is = |judged: &Judged| judged.size == Size::TooLarge;
        is(&self.memory) || self.cpu.as_ref().is_some_and(is)
    }
}

/// Holds them against each other. `limits`: the sum of the memory limits of a pod's containers, which only counts where
/// they share a virtual machine's memory.
pub fn check(declared: &Declared, needs: &Needs, limits: Bytes) -> Checked {
    let memory = declared.memory.unwrap_or(Bytes::ZERO);
    let filled = needs.machine.map(|Machine { memory, beside }| {
        let needed = memory.saturating_sub(limits).saturating_add(beside);
        (needed, round_up_mib(needed.saturating_add(MARGIN)))
    });
    let (filled, filled_would_do) = filled.unwrap_or_default();
    let needed = needs.memory.max(filled);
    let would_do = needs.memory_would_do.max(filled_would_do);
    let oom = |ground, holds: Bytes, room: Bytes| (holds > room).then_some(Oom { ground, holds, room });
    let machine = needs.machine.map(|machine| machine.memory);
    Checked {
        memory: judge(Some(memory.get()), needed.get(), would_do.get(), SLACK_MEMORY.get()),
        cpu: needs.cpu.map(|(needed, would_do)| judge(declared.cpu, needed, would_do, SLACK_MILLICORES)),
        oom: machine
            .and_then(|machine| oom(Ground::Machine, machine, limits.saturating_add(memory)))
            .or_else(|| oom(Ground::Kept, needs.in_pod, memory))
            .or_else(|| oom(Ground::Peak, needs.peak?, memory)),
    }
}

#[cfg(test)]
mod tests;
