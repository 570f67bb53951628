//! What is to be done, in which order, and what is written besides. No I/O.

use super::{
    ask::{Ask, CpuLimit, CpuShare, MilliCpu, Via},
    effects::{self, Effect, effects},
    look::{Cpu, Level, Look, Oci},
};
use crate::{
    cri::message::LinuxContainerResources,
    drift::{Conversion, raw, shown},
    probe::{LimitKind, LimitValue},
};
use enforcer_gate::{Bytes, Limit, Micros, PAGE_SIZE};
use std::path::{Path, PathBuf};

/// The shortest quota that the kernel takes (kernel/sched/core.c, `min_cfs_quota_period`).
const QUOTA_MIN: u64 = 1000;
const PERIOD_DEFAULT: u64 = 100_000;

/// One step. A pod's limit goes up before a container's and down after it, so that it never is what binds.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// A limit of the pod's cgroup goes up, or stays out of the way.
    RaisePod(Set),
    /// The gate lowers `memory.max`, or refuses.
    Shrink {
        /// Where the limit in force is.
        cgroup: PathBuf,
        /// From where.
        from: Limit,
        /// To where.
        to: Bytes,
    },
    /// `UpdateContainerResources` with this, what is zero being left alone.
    Update(LinuxContainerResources),
    /// A limit of the container's own cgroups is set without the runtime.
    Set(Set),
    /// `memory.max` of the pod's cgroup goes down through the gate.
    ShrinkPod {
        /// The pod's cgroup.
        cgroup: PathBuf,
        /// From where.
        from: Limit,
        /// To where.
        to: Bytes,
    },
    /// `cpu.max` of the pod's cgroup goes down.
    LowerPod(Set),
}

/// A file that is set directly: by systemd for a unit of its own, else by a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set {
    /// Below the mount.
    pub cgroup: PathBuf,
    /// The file.
    pub file: LimitKind,
    /// What it holds.
    pub from: LimitValue,
    /// What it will hold.
    pub to: LimitValue,
}

/// What should hold where the limit acts, once all is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wanted {
    /// The lowest `memory.max`.
    pub memory: Option<Limit>,
    /// The lowest `memory.swap.max`.
    pub swap: Option<Limit>,
    /// The tightest `cpu.max`.
    pub cpu: Option<Cpu>,
    /// `cpu.weight` of the scope.
    pub weight: Option<u64>,
}

/// All of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// By which way.
    pub via: Via,
    /// In order; none where everything is as asked already.
    pub steps: Vec<Step>,
    /// What an update of the runtime's writes.
    pub effects: Vec<Effect>,
    /// What must hold afterwards.
    pub wanted: Wanted,
    /// What a person should know before.
    pub notes: Vec<String>,
}

/// Why it can't be done so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Nothing is asked.
    #[error("nothing is asked for")]
    Nothing,
    /// The cgroup has no such file.
    #[error("it has no {}", .0.name())]
    NoFile(LimitKind),
    /// An update of something else would lower memory without the gate.
    #[error(
        "the runtime would lower memory.max from {from} to {to} along with it: that is what its stored specification has"
    )]
    AlsoLowers {
        /// What is in force.
        from: Limit,
        /// What the runtime would write.
        to: Limit,
    },
    /// crun's own fault.
    #[error("crun makes the tightest cpu.max of the scope where there is to be no limit (1.21)")]
    CrunNoQuota,
    /// Less than the kernel takes.
    #[error(
        "{asked} is too little CPU: the kernel takes no quota of less than {QUOTA_MIN}us, which is {least} of the \
         period of {period} that is in force"
    )]
    QuotaTooShort {
        /// What was asked for.
        asked: MilliCpu,
        /// The least that would do.
        least: MilliCpu,
        /// The period in force.
        period: Micros,
    },
    /// Out of range.
    #[error("a weight is 1 to 10000, and shares are 2 to 262144")]
    Share,
    /// A runtime is told shares, and no number of them becomes this weight.
    #[error(
        "no number of shares becomes the weight {weight} with this runtime's conversion ({conversion}); {near} does"
    )]
    NoShares {
        /// What was asked for.
        weight: u64,
        /// The conversion's name.
        conversion: &'static str,
        /// The nearest weight that has shares.
        near: u64,
    },
}

impl PlanError {
    /// What to do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Nothing => "give --memory, --cpu, --cpu-weight or --cpu-shares",
            Self::NoFile(_) => {
                "look whether the controller is enabled: cgroup.subtree_control of the cgroup above"
            }
            Self::AlsoLowers { .. } => {
                "name the memory limit as well (--memory): then the gate looks after it, and the runtime keeps it"
            }
            Self::CrunNoQuota => {
                "give a number of CPUs with --cpu, as many as the node has; or use --via cgroup"
            }
            Self::QuotaTooShort { .. } => "give that or more",
            Self::Share => "give another",
            Self::NoShares { .. } => "give a weight that has shares, or --cpu-shares, or use --via cgroup",
        }
    }
}

impl Plan {
    /// What the runtime is sent, if anything.
    pub fn update(&self) -> Option<&LinuxContainerResources> {
        self.steps.iter().find_map(|step| match step {
            Step::Update(sent) => Some(sent),
            Step::RaisePod(_)
            | Step::Shrink { .. }
            | Step::Set(_)
            | Step::ShrinkPod { .. }
            | Step::LowerPod(_) => None,
        })
    }

    /// What the gate lowers first, if anything: the cgroup below the mount, and how far.
    pub fn first_shrink(&self) -> Option<(&Path, Bytes)> {
        self.steps.iter().find_map(|step| match step {
            Step::Shrink { cgroup, to, .. } | Step::ShrinkPod { cgroup, to, .. } => {
                Some((cgroup.as_path(), *to))
            }
            Step::RaisePod(_) | Step::Update(_) | Step::Set(_) | Step::LowerPod(_) => None,
        })
    }
}

/// Makes the plan.
pub fn plan(ask: &Ask, look: &Look, via: Via) -> Result<Plan, PlanError> {
    if ask.memory.is_none() && ask.cpu.is_none() && ask.share.is_none() {
        return Err(PlanError::Nothing);
    }
    let cpu = ask.cpu.map(|cpu| cpu_of(cpu, look)).transpose()?;
    let mut plan = Plan {
        via,
        steps: Vec::new(),
        effects: Vec::new(),
        wanted: Wanted { memory: ask.memory, swap: look.swap(), cpu, weight: None },
        notes: Vec::new(),
    };
    let now = look.memory();
    raise_pod(&mut plan, look, ask.memory, cpu);
    if let Some(Limit::Bytes(to)) = ask.memory
        && Limit::Bytes(to) < now
        && let Some(level) = look.memory_level()
    {
        plan.steps.push(Step::Shrink { cgroup: level.path.clone(), from: now, to });
    }
    match via {
        Via::Cri => update(&mut plan, ask, look)?,
        Via::Cgroup => set(&mut plan, ask, look)?,
    }
    lower_pod(&mut plan, look, ask.memory, cpu);
    Ok(plan)
}

/// In the period that is in force.
fn cpu_of(asked: CpuLimit, look: &Look) -> Result<Cpu, PlanError> {
    let now = look.cpu().ok_or(PlanError::NoFile(LimitKind::CpuMax))?;
    let period = now.period;
    match asked {
        CpuLimit::Max => Ok(Cpu { quota: None, period }),
        CpuLimit::Milli(asked) => {
            let quota = asked.get().saturating_mul(period.get()) / 1000;
            if quota < QUOTA_MIN {
                let least = MilliCpu::new((QUOTA_MIN * 1000).div_ceil(period.get().max(1)));
                return Err(PlanError::QuotaTooShort { asked, least, period });
            }
            Ok(Cpu { quota: Some(Micros::new(quota)), period })
        }
    }
}

/// What the runtime is sent, if it has to be told anything.
fn update(plan: &mut Plan, ask: &Ask, look: &Look) -> Result<(), PlanError> {
    let mut sent = LinuxContainerResources::default();
    if let Some(cpu) = plan.wanted.cpu {
        if cpu.quota.is_none() && look.engine.oci == Oci::Crun && look.engine.systemd {
            return Err(PlanError::CrunNoQuota);
        }
        let quota = cpu.quota.map_or(-1, |quota| signed(quota.get()));
        let period = signed(cpu.period.get());
        let is_known = look.spec.cpu_quota == quota && books_period(&look.spec) == period;
        if look.cpu() != Some(cpu) || !is_known {
            sent.cpu_quota = quota;
            sent.cpu_period = if books_period(&look.spec) == period { 0 } else { period };
        }
    }
    if let Some(share) = ask.share {
        let (shares, weight) = shares_of(share, look)?;
        plan.wanted.weight = weight;
        if look.spec.cpu_shares != shares || (weight.is_some() && look.weight() != weight) {
            sent.cpu_shares = shares;
        }
    }
    if let Some(memory) = ask.memory {
        let bytes = limit_of(memory);
        let is_known = |books: &LinuxContainerResources| books.memory_limit_in_bytes == bytes;
        let all_know = is_known(&look.spec) && look.status.as_ref().is_none_or(is_known);
        if look.memory() != memory || !all_know {
            sent.memory_limit_in_bytes = bytes;
        }
    }
    if sent == LinuxContainerResources::default() {
        return Ok(());
    }
    keep_memory(plan, ask, look, &mut sent)?;
    plan.effects = effects(look, &sent);
    tell_effects(plan, ask, look);
    plan.steps.push(Step::Update(sent));
    Ok(())
}

/// An update of anything writes the stored memory and swap again: what is in force must stay.
fn keep_memory(
    plan: &mut Plan,
    ask: &Ask,
    look: &Look,
    sent: &mut LinuxContainerResources,
) -> Result<(), PlanError> {
    let memory = match sent.memory_limit_in_bytes {
        0 => look.spec.memory_limit_in_bytes,
        bytes => bytes,
    };
    let written = match u64::try_from(memory) {
        Ok(0) => look.memory(),
        Ok(bytes) => Limit::Bytes(Bytes::new(bytes)).held(),
        Err(_) => Limit::Max,
    };
    if ask.memory.is_none() && written < look.memory() {
        return Err(PlanError::AlsoLowers { from: look.memory(), to: written });
    }
    if ask.memory.is_none() {
        plan.wanted.memory = Some(written);
        if written > look.memory() {
            plan.notes.push(format!(
                "the runtime's specification has a memory limit of {written}, which its update puts back in place of {}",
                look.memory()
            ));
        }
    }
    let Some(swap) = look.swap() else {
        plan.wanted.swap = None;
        return Ok(());
    };
    let total = match (memory, swap) {
        // No limit on memory lets none be said on swap alone.
        (..=0, Limit::Bytes(_))
            if sent.memory_limit_in_bytes != 0 || look.spec.memory_swap_limit_in_bytes < 0 =>
        {
            plan.wanted.swap = Some(Limit::Max);
            plan.notes.push(format!(
                "memory.swap.max goes from {swap} to max: the runtime can't be told one without a limit on memory"
            ));
            return Ok(());
        }
        (0, Limit::Bytes(_)) => return Ok(()),
        (_, Limit::Max) => -1,
        (_, Limit::Bytes(swap)) => memory.saturating_add(signed(swap.get())),
    };
    if sent.memory_limit_in_bytes != 0
        || effects::merged(&look.spec, sent).memory_swap_limit_in_bytes != total
    {
        // Swap comes with memory only.
        sent.memory_limit_in_bytes = memory;
        sent.memory_swap_limit_in_bytes = total;
    }
    Ok(())
}

/// What changes although nobody asked for it.
fn tell_effects(plan: &mut Plan, ask: &Ask, look: &Look) {
    for effect in &plan.effects {
        let is_asked = match effect.file {
            LimitKind::MemoryMax => ask.memory.is_some(),
            LimitKind::CpuMax => ask.cpu.is_some(),
            LimitKind::CpuWeight => ask.share.is_some(),
            LimitKind::SwapMax
            | LimitKind::MemoryHigh
            | LimitKind::MemoryMin
            | LimitKind::MemoryLow
            | LimitKind::CpusetCpus
            | LimitKind::PidsMax => false,
        };
        if let Some(after) = effect.after()
            && after != effect.before
            && !is_asked
        {
            let (path, file) = (crate::cgroup::shown(&effect.cgroup), effect.file.name());
            let (before, after) = (shown(effect.before), shown(after));
            plan.notes.push(format!("{file} of {path} goes from {before} to {after} along with it"));
        }
    }
    if look.engine.oci == Oci::Other {
        plan.notes.push("it is not known which files this OCI runtime writes".into());
    }
}

/// Without the runtime.
fn set(plan: &mut Plan, ask: &Ask, look: &Look) -> Result<(), PlanError> {
    let mut steps = Vec::new();
    if let Some(memory) = ask.memory {
        // From the outermost: what is below a lower one would not act.
        steps.extend(look.levels.iter().filter(|level| level.memory(LimitKind::MemoryMax) < memory).map(
            |level| {
                let from = LimitValue::Memory(level.memory(LimitKind::MemoryMax));
                Set {
                    cgroup: level.path.clone(),
                    file: LimitKind::MemoryMax,
                    from,
                    to: LimitValue::Memory(memory),
                }
            },
        ));
        // Where the gate lowers one, the lowest is lowered: the others are no lower, or raised above.
    }
    if let Some(cpu) = plan.wanted.cpu {
        steps.extend(look.levels.iter().filter_map(|level| {
            let from = level.cpu().filter(|now| *now != cpu)?;
            Some(Set {
                cgroup: level.path.clone(),
                file: LimitKind::CpuMax,
                from: from.value(),
                to: cpu.value(),
            })
        }));
    }
    if let Some(share) = ask.share {
        let weight = match share {
            CpuShare::Weight(weight) => weight,
            CpuShare::Shares(shares) => look.conversion().unwrap_or(Conversion::Quadratic).weight(shares),
        };
        check_share(share)?;
        let level = look.levels.first().ok_or(PlanError::NoFile(LimitKind::CpuWeight))?;
        let from = level.weight().ok_or(PlanError::NoFile(LimitKind::CpuWeight))?;
        plan.wanted.weight = Some(weight);
        if from != weight {
            steps.push(Set {
                cgroup: level.path.clone(),
                file: LimitKind::CpuWeight,
                from: LimitValue::Weight(from),
                to: LimitValue::Weight(weight),
            });
        }
    }
    plan.steps.extend(steps.into_iter().map(Step::Set));
    Ok(())
}

/// How far the pod's finite limits go up for the container's to go up.
fn raise_pod(plan: &mut Plan, look: &Look, memory: Option<Limit>, cpu: Option<Cpu>) {
    for (is_up, set) in pod_changes(plan, look, memory, cpu) {
        if is_up {
            plan.steps.push(Step::RaisePod(set));
        }
    }
}

fn lower_pod(plan: &mut Plan, look: &Look, memory: Option<Limit>, cpu: Option<Cpu>) {
    // Notes were made when it was looked at for the raise.
    let notes = plan.notes.len();
    let changes = pod_changes(plan, look, memory, cpu);
    plan.notes.truncate(notes);
    for (is_up, set) in changes {
        match (is_up, set.from, set.to) {
            (true, ..) => {}
            (false, LimitValue::Memory(from), LimitValue::Memory(Limit::Bytes(to))) => {
                plan.steps.push(Step::ShrinkPod { cgroup: set.cgroup, from, to });
            }
            (false, ..) => plan.steps.push(Step::LowerPod(set)),
        }
    }
}

/// By as much as the container's change; with whether that is up.
fn pod_changes(plan: &mut Plan, look: &Look, memory: Option<Limit>, cpu: Option<Cpu>) -> Vec<(bool, Set)> {
    let Some(pod) = &look.pod else { return Vec::new() };
    let mut all = Vec::new();
    if let (Limit::Bytes(limit), Some(to)) = (pod.memory(LimitKind::MemoryMax), memory) {
        match (look.memory(), to) {
            (Limit::Bytes(from), Limit::Bytes(to)) if from != to => {
                let new = if to > from {
                    limit.get().saturating_add(to.get() - from.get())
                } else {
                    limit.get().saturating_sub(from.get() - to.get()).max(PAGE_SIZE)
                };
                let [from_value, to_value] =
                    [limit, Bytes::new(new)].map(|bytes| LimitValue::Memory(Limit::Bytes(bytes)));
                all.push((to > from, pod_set(pod, LimitKind::MemoryMax, from_value, to_value)));
            }
            (Limit::Bytes(_), Limit::Bytes(_)) => {}
            (Limit::Max, Limit::Bytes(_)) | (_, Limit::Max) => {
                plan.notes.push(format!("the pod's own memory.max stays at {limit}"));
            }
        }
    }
    let of_pod = pod.cpu().and_then(|cpu| Some((cpu.quota?, cpu.period)));
    if let (Some((quota, period)), Some(to)) = (of_pod, cpu) {
        let in_pods_period = |cpu: Cpu| {
            cpu.quota.map(|quota| quota.get().saturating_mul(period.get()) / cpu.period.get().max(1))
        };
        match (look.cpu().and_then(in_pods_period), in_pods_period(to)) {
            (Some(from), Some(to)) if from != to => {
                let new = if to > from {
                    quota.get().saturating_add(to - from)
                } else {
                    quota.get().saturating_sub(from - to).max(QUOTA_MIN)
                };
                let value = |quota| LimitValue::Cpu { quota: Some(quota), period };
                all.push((to > from, pod_set(pod, LimitKind::CpuMax, value(quota), value(Micros::new(new)))));
            }
            (Some(_), Some(_)) => {}
            (None, Some(_)) | (_, None) => {
                let held = raw(LimitValue::Cpu { quota: Some(quota), period });
                plan.notes.push(format!("the pod's own cpu.max stays at {held}"));
            }
        }
    }
    all
}

fn pod_set(pod: &Level, file: LimitKind, from: LimitValue, to: LimitValue) -> Set {
    Set { cgroup: pod.path.clone(), file, from, to }
}

const fn check_share(share: CpuShare) -> Result<(), PlanError> {
    match share {
        CpuShare::Weight(1..=10_000) | CpuShare::Shares(2..=262_144) => Ok(()),
        CpuShare::Weight(_) | CpuShare::Shares(_) => Err(PlanError::Share),
    }
}

/// The shares to send, and the weight that they become where that is known.
fn shares_of(share: CpuShare, look: &Look) -> Result<(i64, Option<u64>), PlanError> {
    check_share(share)?;
    match share {
        CpuShare::Shares(shares) => {
            Ok((signed(shares), look.conversion().map(|conversion| conversion.weight(shares))))
        }
        CpuShare::Weight(weight) => {
            let conversion = look.conversion().unwrap_or(Conversion::Linear);
            let Some(shares) = conversion.shares(weight) else {
                let has = |weight: &u64| conversion.shares(*weight).is_some();
                let near = (weight..=10_000).find(has).or_else(|| (1..weight).rev().find(has)).unwrap_or(1);
                return Err(PlanError::NoShares { weight, conversion: conversion.name(), near });
            };
            Ok((signed(*shares.start()), Some(weight)))
        }
    }
}

fn books_period(spec: &LinuxContainerResources) -> i64 {
    if spec.cpu_period == 0 { signed(PERIOD_DEFAULT) } else { spec.cpu_period }
}

fn limit_of(limit: Limit) -> i64 {
    match limit {
        Limit::Bytes(bytes) => signed(bytes.get()),
        Limit::Max => -1,
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
