//! Which files an update of the runtime's writes, asked or not. No I/O.
//!
//! As seen with containerd 1.7.24, runc 1.1.15 and crun 1.21 under systemd 257 (docs/resize.md): an update sends the
//! whole stored specification again, systemd writes every limit file of the scope at each change of any property, and
//! the OCI runtime then writes its own.

use super::look::{Cpu, Look, Oci, find};
use crate::{
    cri::message::LinuxContainerResources,
    drift::parse,
    probe::{LimitKind, LimitValue},
};
use enforcer_gate::{Bytes, Limit, Micros};
use std::path::PathBuf;

/// Who writes a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// systemd, for the scope's unit.
    Systemd,
    /// runc, crun.
    Oci,
}

/// One write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// Who.
    pub by: Writer,
    /// What; `None` where that is not known: systemd's own value of the unit, or a weight by an unknown conversion.
    pub value: Option<LimitValue>,
}

/// A file that is written by an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// The cgroup, below the mount.
    pub cgroup: PathBuf,
    /// The file.
    pub file: LimitKind,
    /// What it holds.
    pub before: LimitValue,
    /// The writes, in order; the last one holds.
    pub writes: Vec<Write>,
}

impl Effect {
    /// What it will hold, where that is known.
    pub fn after(&self) -> Option<LimitValue> {
        self.writes.last().and_then(|write| write.value)
    }
}

/// What the stored specification is after this update (`updateOCIResource` of containerd's CRI plugin): what is zero
/// stays, and where memory comes without swap, swap becomes the same, which is none.
pub fn merged(spec: &LinuxContainerResources, sent: &LinuxContainerResources) -> LinuxContainerResources {
    let number = |sent: i64, spec: i64| if sent == 0 { spec } else { sent };
    let text = |sent: &String, spec: &String| if sent.is_empty() { spec.clone() } else { sent.clone() };
    let swap = match (sent.memory_limit_in_bytes, sent.memory_swap_limit_in_bytes) {
        (memory, 0) if memory != 0 => memory,
        (_, swap) => number(swap, spec.memory_swap_limit_in_bytes),
    };
    let mut unified = spec.unified.clone();
    unified.extend(sent.unified.clone());
    LinuxContainerResources {
        cpu_period: number(sent.cpu_period, spec.cpu_period),
        cpu_quota: number(sent.cpu_quota, spec.cpu_quota),
        cpu_shares: number(sent.cpu_shares, spec.cpu_shares),
        memory_limit_in_bytes: number(sent.memory_limit_in_bytes, spec.memory_limit_in_bytes),
        memory_swap_limit_in_bytes: swap,
        cpuset_cpus: text(&sent.cpuset_cpus, &spec.cpuset_cpus),
        cpuset_mems: text(&sent.cpuset_mems, &spec.cpuset_mems),
        unified,
        ..LinuxContainerResources::default()
    }
}

/// Every file that is written, with what it will hold.
pub fn effects(look: &Look, sent: &LinuxContainerResources) -> Vec<Effect> {
    let spec = merged(&look.spec, sent);
    let last = look.levels.len().saturating_sub(1);
    let mut all = Vec::new();
    for (depth, level) in look.levels.iter().enumerate() {
        for (file, before) in &level.values {
            let mut writes = Vec::new();
            if depth == 0 && look.engine.systemd {
                let value = systemd(look, &spec, *file).or_else(|| find(&look.unit, *file));
                writes.push(Write { by: Writer::Systemd, value });
            }
            let is_oci = match look.engine.oci {
                Oci::Runc => depth == 0,
                // The deepest that it made: what a container makes itself is not its.
                Oci::Crun => depth == last.min(1),
                Oci::Other => false,
            };
            if is_oci {
                let by = Writer::Oci;
                let own = own(look, &spec, *file);
                if own.is_some() || (*file == LimitKind::CpuWeight && spec.cpu_shares > 0) {
                    writes.push(Write { by, value: own });
                }
                let more = unified(&spec, *file);
                writes.extend(more.map(|value| Write { by, value: Some(value) }));
            }
            if !writes.is_empty() {
                all.push(Effect { cgroup: level.path.clone(), file: *file, before: *before, writes });
            }
        }
    }
    all
}

/// A limit that the specification has under its own name in cgroup v2.
fn unified(spec: &LinuxContainerResources, file: LimitKind) -> Option<LimitValue> {
    parse(file, spec.unified.get(file.name())?)
}

/// What runc writes to the scope, or crun to the cgroup in it.
fn own(look: &Look, spec: &LinuxContainerResources, file: LimitKind) -> Option<LimitValue> {
    match file {
        LimitKind::MemoryMax => memory(spec.memory_limit_in_bytes),
        LimitKind::SwapMax => swap(spec),
        LimitKind::CpuMax => cpu(spec).map(Cpu::value),
        LimitKind::CpuWeight => weight(look, spec),
        LimitKind::CpusetCpus if !spec.cpuset_cpus.is_empty() => parse(file, &spec.cpuset_cpus),
        LimitKind::CpusetCpus
        | LimitKind::MemoryHigh
        | LimitKind::MemoryMin
        | LimitKind::MemoryLow
        | LimitKind::PidsMax => None,
    }
}

/// What the OCI runtime has systemd set; `None` where it sets nothing, so that the unit's own value is written.
fn systemd(look: &Look, spec: &LinuxContainerResources, file: LimitKind) -> Option<LimitValue> {
    let total = spec.memory_swap_limit_in_bytes;
    match (file, look.engine.oci) {
        // Memory and swap together, as if it were cgroup v1.
        (LimitKind::SwapMax, Oci::Crun) => memory(total),
        // It sets no swap of zero.
        (LimitKind::SwapMax, Oci::Runc) => {
            swap(spec).filter(|value| *value != LimitValue::Memory(Limit::Bytes(Bytes::ZERO)))
        }
        // In whole per cent of a CPU.
        (LimitKind::CpuMax, Oci::Runc | Oci::Crun) => {
            if cpu(spec).is_some_and(|cpu| cpu.quota.is_none()) && look.engine.oci == Oci::Crun {
                return Some(no_quota_by_crun(spec).value());
            }
            cpu(spec).map(|cpu| whole_per_cent(cpu).value())
        }
        (LimitKind::MemoryMax | LimitKind::CpuWeight | LimitKind::CpusetCpus, Oci::Runc | Oci::Crun) => {
            unified(spec, file).filter(|_| look.engine.oci == Oci::Runc).or_else(|| own(look, spec, file))
        }
        (
            LimitKind::MemoryHigh | LimitKind::MemoryMin | LimitKind::MemoryLow | LimitKind::PidsMax,
            Oci::Runc,
        ) => unified(spec, file),
        (
            LimitKind::MemoryHigh | LimitKind::MemoryMin | LimitKind::MemoryLow | LimitKind::PidsMax,
            Oci::Crun,
        )
        | (_, Oci::Other) => None,
    }
}

/// Zero is not said, below zero no limit.
fn memory(bytes: i64) -> Option<LimitValue> {
    let limit = match u64::try_from(bytes) {
        Ok(0) => return None,
        Ok(bytes) => Limit::Bytes(Bytes::new(bytes)).held(),
        Err(_) => Limit::Max,
    };
    Some(LimitValue::Memory(limit))
}

/// `memory.swap.max`: the specification's swap has memory in it.
fn swap(spec: &LinuxContainerResources) -> Option<LimitValue> {
    let (memory, total) = (spec.memory_limit_in_bytes, spec.memory_swap_limit_in_bytes);
    let limit = match total {
        0 => return None,
        ..0 => Limit::Max,
        1.. => {
            Limit::Bytes(Bytes::new(u64::try_from(total.saturating_sub(memory.max(0))).unwrap_or(0))).held()
        }
    };
    Some(LimitValue::Memory(limit))
}

/// `cpu.max`; `None` where the specification says nothing of it.
pub(super) fn cpu(spec: &LinuxContainerResources) -> Option<Cpu> {
    let period = u64::try_from(spec.cpu_period).ok().filter(|period| *period > 0);
    if spec.cpu_quota == 0 && period.is_none() {
        return None;
    }
    let quota = u64::try_from(spec.cpu_quota).ok().filter(|quota| *quota > 0).map(Micros::new);
    Some(Cpu { quota, period: Micros::new(period.unwrap_or(PERIOD_DEFAULT)) })
}

const PERIOD_DEFAULT: u64 = 100_000;
/// What systemd counts CPU time by: 1 % of a CPU, in microseconds a second.
const PER_CENT: u64 = 10_000;
const SECOND: u64 = 1_000_000;

/// As systemd writes it: what is no whole per cent is made one by the OCI runtime, upwards.
fn whole_per_cent(cpu: Cpu) -> Cpu {
    let Some(quota) = cpu.quota else { return Cpu { quota: None, period: Micros::new(PERIOD_DEFAULT) } };
    let period = cpu.period.get().max(1);
    let a_second = (quota.get().saturating_mul(SECOND) / period).checked_next_multiple_of(PER_CENT);
    let a_second = a_second.unwrap_or(u64::MAX);
    Cpu { quota: Some(Micros::new(a_second.saturating_mul(period) / SECOND)), period: cpu.period }
}

/// crun 1.21 has systemd set a quota of -1 as an unsigned number, of which the least that the kernel takes is left: no
/// limit becomes the tightest there is.
fn no_quota_by_crun(spec: &LinuxContainerResources) -> Cpu {
    let period = u64::try_from(spec.cpu_period).ok().filter(|period| *period > 0).unwrap_or(PERIOD_DEFAULT);
    Cpu { quota: Some(Micros::new(1000)), period: Micros::new(period) }
}

fn weight(look: &Look, spec: &LinuxContainerResources) -> Option<LimitValue> {
    let shares = u64::try_from(spec.cpu_shares).ok().filter(|shares| *shares > 0)?;
    let conversion = look.conversion()?;
    Some(LimitValue::Weight(conversion.weight(shares)))
}
