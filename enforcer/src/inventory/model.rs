//! Pods and containers.

use crate::cgroup::shown;
use enforcer_gate::{CgroupId, Limit, Micros};
use serde::Serialize;
use std::{collections::BTreeMap, fmt, path::PathBuf};

/// A pod, by its sandbox: a pod whose sandbox died has another one after that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// The sandbox's id.
    pub sandbox: String,
    /// Kubernetes' namespace.
    pub namespace: String,
    /// Its name in there.
    pub name: String,
    /// Kubernetes' UID of it.
    pub uid: String,
    /// How many sandboxes it had before.
    pub attempt: u32,
    /// Whether it runs.
    pub state: PodState,
    /// The runtime's handler (of the `RuntimeClass`); empty for the default one.
    pub handler: String,
    /// Bounded.
    pub labels: BTreeMap<String, String>,
    /// Bounded.
    pub annotations: BTreeMap<String, String>,
    /// Its cgroup, in which those of its containers are; `None` where that can't be told.
    pub cgroup: Option<Located>,
}

/// A sandbox's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PodState {
    /// It runs.
    Ready,
    /// It has ended, or is ending.
    NotReady,
}

/// A container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// Its id.
    pub id: String,
    /// The id of its pod's sandbox.
    pub sandbox: String,
    /// Its name in the pod.
    pub name: String,
    /// How many of that name the pod had before.
    pub attempt: u32,
    /// The image, as the runtime names it.
    pub image: String,
    /// Its state.
    pub state: ContainerState,
    /// Its first process, as this node counts; `None` where none runs or the runtime does not tell.
    pub pid: Option<u32>,
    /// Its cgroups, or why there are none.
    pub home: Result<Home, NoHome>,
    /// As the runtime has them, which need not be what is in force.
    pub limits: Limits,
}

/// A container's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ContainerState {
    /// Made and not started.
    Created,
    /// It runs.
    Running,
    /// It has ended.
    Exited,
    /// The runtime does not know.
    Unknown,
}

impl ContainerState {
    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Running => "running",
            Self::Exited => "exited",
            Self::Unknown => "unknown",
        }
    }
}

/// A cgroup: where it is, and which one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// Below the mount, without a slash in front.
    pub path: PathBuf,
    /// Its inode number.
    pub id: CgroupId,
}

/// The cgroups of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// The one that the runtime made for it; all of the container is in there.
    pub scope: Located,
    /// The one in which its first process is: the scope itself, or deeper (crun's `container`, or one that the
    /// container made).
    pub processes: Located,
}

/// Why a container has no cgroup that can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoHome {
    /// It does not run.
    NotRunning,
    /// The runtime does not tell its process.
    NoProcess,
    /// Its process has ended meanwhile.
    Gone,
    /// Its process is in the sandbox's cgroup, as that of a runtime with a kernel of its own is.
    Sandbox,
    /// The process with its number is in another cgroup: another one, or a container that is nobody's known form.
    Elsewhere(PathBuf),
    /// It can't be read.
    Unreadable(String),
}

/// Fit to print.
impl fmt::Display for NoHome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRunning => f.write_str("it does not run"),
            Self::NoProcess => f.write_str("the runtime does not tell its process"),
            Self::Gone => f.write_str("its process has ended"),
            Self::Sandbox => f.write_str("it shares its sandbox's cgroup"),
            Self::Elsewhere(path) => write!(f, "its process is in another one: {}", shown(path)),
            Self::Unreadable(why) => write!(f, "it can't be read: {}", shown(why)),
        }
    }
}

/// A container's limits, as the runtime has them. `None`: none was asked for, or the runtime does not tell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Memory.
    pub memory: Option<Limit>,
    /// Memory and swap together.
    pub memory_and_swap: Option<Limit>,
    /// CPU time in each period.
    pub cpu_quota: Option<Micros>,
    /// The period.
    pub cpu_period: Option<Micros>,
    /// The weight, as cgroup v1 counts it: 1024 a CPU.
    pub cpu_shares: Option<u64>,
    /// CPUs, as a list; empty for all.
    pub cpuset_cpus: String,
    /// Memory nodes, as a list; empty for all.
    pub cpuset_mems: String,
}
