//! What is known of a container before and after it is resized. No I/O.

use super::ask::MilliCpu;
use crate::{
    cri::message::LinuxContainerResources,
    drift::Conversion,
    probe::{LimitKind, LimitValue},
};
use enforcer_gate::{CgroupId, Limit, Micros};
use std::path::PathBuf;

/// One cgroup, and what its limit files hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    /// Below the mount.
    pub path: PathBuf,
    /// Its inode number.
    pub id: CgroupId,
    /// By file; one that is not there is left out.
    pub values: Vec<(LimitKind, LimitValue)>,
}

/// The program that makes the containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Oci {
    /// runc: one cgroup, the scope.
    Runc,
    /// crun: the processes are in `container` below the scope, and both have limits.
    Crun,
    /// Another, of which it is not known what it writes.
    Other,
}

impl Oci {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Runc => "runc",
            Self::Crun => "crun",
            Self::Other => "the OCI runtime",
        }
    }
}

/// Who carries an update out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Engine {
    /// The CRI runtime's own name.
    pub name: String,
    /// Its version, as it says.
    pub version: String,
    /// The program below it.
    pub oci: Oci,
    /// The scope is a unit of systemd's, which has its own values of all limits and writes them all at each update.
    pub systemd: bool,
}

/// A container as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// Who carries an update out.
    pub engine: Engine,
    /// What the runtime would write again at any update: the OCI specification as it is stored.
    pub spec: LinuxContainerResources,
    /// What the runtime says that the container has; containerd's 1.6 says nothing.
    pub status: Option<LinuxContainerResources>,
    /// From the scope down to the cgroup of the processes.
    pub levels: Vec<Level>,
    /// What systemd has of limits of the scope that no specification has; empty where it was not asked.
    pub unit: Vec<(LimitKind, LimitValue)>,
    /// The pod's cgroup.
    pub pod: Option<Level>,
}

impl Level {
    /// What a file holds.
    pub fn value(&self, file: LimitKind) -> Option<LimitValue> {
        find(&self.values, file)
    }

    /// What a file of memory holds; no file limits nothing.
    pub fn memory(&self, file: LimitKind) -> Limit {
        match self.value(file) {
            Some(LimitValue::Memory(limit)) => limit,
            Some(
                LimitValue::Cpu { .. } | LimitValue::Weight(_) | LimitValue::Cpus(_) | LimitValue::Count(_),
            )
            | None => Limit::Max,
        }
    }

    /// `cpu.max`.
    pub fn cpu(&self) -> Option<Cpu> {
        match self.value(LimitKind::CpuMax) {
            Some(LimitValue::Cpu { quota, period }) => Some(Cpu { quota, period }),
            Some(
                LimitValue::Memory(_) | LimitValue::Weight(_) | LimitValue::Cpus(_) | LimitValue::Count(_),
            )
            | None => None,
        }
    }

    /// `cpu.weight`.
    pub fn weight(&self) -> Option<u64> {
        match self.value(LimitKind::CpuWeight) {
            Some(LimitValue::Weight(weight)) => Some(weight),
            Some(
                LimitValue::Memory(_) | LimitValue::Cpu { .. } | LimitValue::Cpus(_) | LimitValue::Count(_),
            )
            | None => None,
        }
    }
}

/// What `cpu.max` holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    /// CPU time in each period; `None` for no limit.
    pub quota: Option<Micros>,
    /// The period.
    pub period: Micros,
}

impl Cpu {
    /// In thousandths of a CPU, part of one cut off; `None` for no limit.
    pub fn milli(self) -> Option<MilliCpu> {
        let period = self.period.get().max(1);
        self.quota.map(|quota| MilliCpu::new(quota.get().saturating_mul(1000) / period))
    }

    /// Whether it lets less through than `other`.
    pub fn is_tighter(self, other: Self) -> bool {
        match (self.quota, other.quota) {
            (Some(quota), Some(others)) => {
                u128::from(quota.get()) * u128::from(other.period.get())
                    < u128::from(others.get()) * u128::from(self.period.get())
            }
            (Some(_), None) => true,
            (None, _) => false,
        }
    }

    /// As a value of the file.
    pub const fn value(self) -> LimitValue {
        LimitValue::Cpu { quota: self.quota, period: self.period }
    }
}

impl Look {
    /// The lowest `memory.max` from the scope down.
    pub fn memory(&self) -> Limit {
        self.lowest(LimitKind::MemoryMax)
    }

    /// The topmost cgroup that has it.
    pub fn memory_level(&self) -> Option<&Level> {
        self.levels.iter().find(|level| level.memory(LimitKind::MemoryMax) == self.memory())
    }

    /// The lowest `memory.swap.max`; `None` where the kernel does not count swap.
    pub fn swap(&self) -> Option<Limit> {
        let counted = self.levels.iter().any(|level| level.value(LimitKind::SwapMax).is_some());
        counted.then(|| self.lowest(LimitKind::SwapMax))
    }

    fn lowest(&self, file: LimitKind) -> Limit {
        self.levels.iter().map(|level| level.memory(file)).min().unwrap_or(Limit::Max)
    }

    /// The tightest `cpu.max`.
    pub fn cpu(&self) -> Option<Cpu> {
        let all = self.levels.iter().filter_map(Level::cpu);
        all.reduce(|tightest, other| if other.is_tighter(tightest) { other } else { tightest })
    }

    /// `cpu.weight` of the scope, which is what counts against other containers.
    pub fn weight(&self) -> Option<u64> {
        self.levels.first().and_then(Level::weight)
    }

    /// How this runtime makes a weight of shares, as far as this container shows it: its own weight may have drifted, but
    /// hardly every one.
    pub fn conversion(&self) -> Option<Conversion> {
        let shares = u64::try_from(self.spec.cpu_shares).ok().filter(|shares| *shares > 0)?;
        let unit = match find(&self.unit, LimitKind::CpuWeight) {
            Some(LimitValue::Weight(weight)) => Some(weight),
            Some(
                LimitValue::Memory(_) | LimitValue::Cpu { .. } | LimitValue::Cpus(_) | LimitValue::Count(_),
            )
            | None => None,
        };
        let weights = self.levels.iter().filter_map(Level::weight).chain(unit);
        weights.into_iter().find_map(|weight| {
            let mut fits = Conversion::ALL.into_iter().filter(|way| way.weight(shares) == weight);
            let first = fits.next()?;
            fits.next().is_none().then_some(first)
        })
    }
}

/// What is held for a file.
pub(super) fn find(values: &[(LimitKind, LimitValue)], file: LimitKind) -> Option<LimitValue> {
    values.iter().find(|(kind, _)| *kind == file).map(|(_, value)| *value)
}
