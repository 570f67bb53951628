//! What a cgroup is, from its path: whose pod, which container, under whose management. No I/O.
//!
//! The kubelet's names are those of its systemd and cgroupfs drivers (pkg/kubelet/cm), a container's those of
//! containerd, CRI-O, Docker and Podman. Names inside a container are the container's own making and prove
//! nothing: from its cgroup on, only that it is inside of it is said. The same holds below `user.slice`.

mod kubernetes;
mod logs;
mod runtime;
#[cfg(test)]
mod tests;

pub use logs::{ContainerLog, PodLogs};

use serde::{Deserialize, Serialize};
use std::{fmt, os::unix::ffi::OsStrExt as _, path::Path};

/// Most bytes of an identifier that is taken for one.
const ID_BYTES_MAX: usize = 128;
/// Characters of a container's id that people are shown.
const SHORT_ID: usize = 12;

/// What a cgroup is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The root: the whole node.
    Node,
    /// All pods together.
    Pods,
    /// All pods of a QoS class together.
    Qos,
    /// A pod.
    Pod,
    /// A container.
    Container,
    /// Something that a container made for itself.
    InContainer,
    /// What watches over a container (conmon).
    Helper,
    /// A systemd service, scope or slice.
    Unit,
    /// Nothing that is known.
    Other,
}

/// A pod's class of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Qos {
    /// Requests equal limits.
    Guaranteed,
    /// Some requests or limits.
    Burstable,
    /// None.
    BestEffort,
}

impl Qos {
    /// As Kubernetes writes it in paths.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Guaranteed => "guaranteed",
            Self::Burstable => "burstable",
            Self::BestEffort => "besteffort",
        }
    }
}

/// Who runs a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Runtime {
    /// containerd
    Containerd,
    /// CRI-O
    Crio,
    /// Docker
    Docker,
    /// Podman
    Podman,
}

impl Runtime {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Containerd => "containerd",
            Self::Crio => "CRI-O",
            Self::Docker => "Docker",
            Self::Podman => "Podman",
        }
    }
}

/// What a cgroup is, and whose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// What it is for.
    pub role: Role,
    /// The class of its pod, or of the pods in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<Qos>,
    /// Its pod's UID, with dashes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Its container's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Who runs the container, where the name says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Runtime>,
    /// The systemd unit that it is or belongs to, where it belongs to no pod and no container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
}

impl Place {
    const fn new(role: Role) -> Self {
        Self { role, qos: None, pod: None, container: None, runtime: None, unit: None }
    }

    /// What the cgroup at `path` is: the path below the cgroup mount, with or without a slash in front. Any path
    /// will do.
    pub fn of(path: &Path) -> Self {
        let mut place = Self::new(Role::Node);
        let mut parent = "";
        let mut foreign = false;
        for part in path.as_os_str().as_bytes().split(|byte| *byte == b'/') {
            if part.is_empty() {
                continue;
            }
            // Names that are no text are nobody's that is known.
            let name = std::str::from_utf8(part).unwrap_or("\u{fffd}");
            foreign |= name == "user.slice";
            place = place.child(parent, name, foreign);
            parent = name;
        }
        place
    }

    fn child(self, parent: &str, name: &str, foreign: bool) -> Self {
        match self.role {
            Role::Container if name == "container" && parent != "container" => {
                // crun and podman put the processes one deeper; it is the same container.
                self
            }
            Role::Container | Role::InContainer => Self { role: Role::InContainer, ..self },
            Role::Helper => self,
            Role::Node | Role::Pods | Role::Qos | Role::Pod | Role::Unit | Role::Other => {
                let known = if foreign {
                    None
                } else {
                    kubernetes::child(&self, name).or_else(|| runtime::child(&self, parent, name))
                };
                known.unwrap_or_else(|| self.unit_or_other(name))
            }
        }
    }

    fn unit_or_other(self, name: &str) -> Self {
        let is_unit = [".service", ".scope", ".slice"].iter().any(|ending| name.ends_with(ending));
        if is_unit && name.len() <= ID_BYTES_MAX * 2 && self.pod.is_none() {
            return Self { unit: Some(name.to_owned()), ..Self::new(Role::Unit) };
        }
        match self.role {
            // Below a unit it is still the unit's.
            Role::Unit => self,
            Role::Node
            | Role::Pods
            | Role::Qos
            | Role::Pod
            | Role::Container
            | Role::InContainer
            | Role::Helper
            | Role::Other => Self { role: Role::Other, ..self },
        }
    }

    /// In a word: `pod`, `container`, `node`.
    pub const fn word(&self) -> &'static str {
        match self.role {
            Role::Node => "node",
            Role::Pods => "limit of all pods",
            Role::Qos => "QoS class",
            Role::Pod => "pod",
            Role::Container => "container",
            Role::InContainer => "cgroup inside the container",
            Role::Helper => "container helper",
            Role::Unit => "systemd unit",
            Role::Other => "cgroup",
        }
    }
}

/// For people; untrusted parts are plain identifiers or left out, so it is fit to print once escaped.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        if let Some(id) = &self.container {
            write!(f, " {}", id.get(..SHORT_ID).unwrap_or(id))?;
        }
        match (&self.pod, self.qos) {
            (Some(pod), _) if self.container.is_some() => write!(f, " of pod {pod}")?,
            (Some(pod), _) => write!(f, " {pod}")?,
            (None, Some(qos)) => write!(f, " {}", qos.name())?,
            (None, None) => {}
        }
        match &self.unit {
            Some(unit) => write!(f, " {unit}"),
            None => Ok(()),
        }
    }
}

/// Letters, digits, dash, dot and underline: what ids are made of.
pub(crate) fn is_id(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !text.is_empty() && text.len() <= ID_BYTES_MAX && text.bytes().all(plain)
}
