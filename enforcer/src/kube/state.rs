//! What is kept of a pod: what is desired, allocated and actual, and how a resize of it stands. No I/O, nothing of the
//! API's own types.
//!
//! *Desired* is the spec. *Allocated* is what the kubelet has admitted, *actual* what it says is in force
//! (KEP-1287; `status.containerStatuses[].allocatedResources` and `.resources`).

use super::amounts::{Amounts, Resources};
use serde::Serialize;

/// Most bytes of a name or message that is kept; more is cut.
pub const TEXT_BYTES_MAX: usize = 1024;
/// Most containers of a pod that are kept, init containers included.
pub const CONTAINERS_MAX: usize = 128;

/// A pod of the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PodState {
    /// Namespace and name.
    #[serde(flatten)]
    pub name: PodName,
    /// `metadata.uid`; the same name may be another pod a second later.
    pub uid: String,
    /// `metadata.resourceVersion`, as it is.
    pub resource_version: String,
    /// `metadata.generation`: goes up with each change of the spec.
    pub generation: i64,
    /// `status.observedGeneration`: the generation that the kubelet has acted on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `spec.nodeName`; empty before it has one.
    pub node: String,
    /// It has ended, or never began: nothing of it can be resized.
    pub life: Life,
    /// Its class.
    pub qos: Qos,
    /// Who owns its spec.
    pub source: Source,
    /// It is in the node's network namespace.
    pub host_network: bool,
    /// `spec.runtimeClassName`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub runtime_class: String,
    /// `spec.overhead`: what its sandbox takes beside its containers.
    pub overhead: Amounts,
    /// The pod's own resources, where it has them (KEP-2837), or where the kubelet says what they come to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_level: Option<Level>,
    /// Init containers in their order, then the others.
    pub containers: Vec<ContainerState>,
    /// Containers beyond [`CONTAINERS_MAX`].
    #[serde(skip_serializing_if = "is_zero")]
    pub containers_left_out: usize,
    /// `PodResizePending`, where it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<Condition>,
    /// `PodResizeInProgress`, where it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_progress: Option<Condition>,
    /// Who wrote last through the subresource `resize`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_resize: Option<Writer>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A pod's name in its namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PodName {
    /// The namespace.
    pub namespace: String,
    /// The name.
    #[serde(rename = "pod")]
    pub name: String,
}

/// Whether it can still be resized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Life {
    /// Not all of its containers have been started.
    Pending,
    /// It runs.
    Running,
    /// It is being deleted.
    Ending,
    /// `Succeeded` or `Failed`: it holds nothing any more.
    Ended,
    /// The node has not been heard of.
    Unknown,
}

/// Quality of service (`pkg/apis/core/v1/helper/qos`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Qos {
    /// Requests equal limits, for CPU and memory, in every container.
    Guaranteed,
    /// Something between.
    Burstable,
    /// No request and no limit at all.
    BestEffort,
}

impl Qos {
    /// As the API has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }
}

/// Who owns a pod's spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The API server.
    Api,
    /// A file of the node's, or a URL: what the API server has is a mirror of it, and its resize is refused.
    Static,
}

/// One container, or the pod itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Level {
    /// `spec`.
    pub desired: Resources,
    /// Requests that were admitted; the API has no allocated limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated: Option<Amounts>,
    /// What is in force, as the kubelet says. Limits are read back from the runtime, requests are what was last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual: Option<Resources>,
}

/// When a container is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It runs to its end before the others begin; its resources can't be changed.
    Init,
    /// An init container that goes on (`restartPolicy: Always`).
    Sidecar,
    /// One of those that the pod is for.
    Regular,
}

/// One container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContainerState {
    /// Its name.
    pub name: String,
    /// When it is there.
    pub role: Role,
    /// The runtime's id, without its scheme; empty where none was made.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// It runs.
    pub running: bool,
    /// Times that it was started again.
    pub restarts: i32,
    /// What it has.
    #[serde(flatten)]
    pub level: Level,
    /// Which resources it is restarted for (`resizePolicy: RestartContainer`).
    pub restart_on: RestartOn,
}

/// Which resources can't be changed without a restart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RestartOn {
    /// Memory.
    pub memory: bool,
    /// CPU.
    pub cpu: bool,
}

/// A condition that holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Condition {
    /// In a word, as the kubelet says: `Deferred`, `Infeasible`, `Error`, or nothing.
    pub reason: String,
    /// In the kubelet's words; other people's text.
    pub message: String,
    /// When it came to hold: microseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_us: Option<u64>,
    /// The generation of the spec that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
}

/// Who wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Writer {
    /// The field manager; any client can call itself so.
    pub manager: String,
    /// When: microseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_us: Option<u64>,
}

impl PodState {
    /// What it has of its own, where that is anything (`IsPodLevelResourcesSet`).
    pub fn own(&self) -> Option<&Level> {
        let is_set = |level: &&Level| !level.desired.requests.is_empty() || !level.desired.limits.is_empty();
        self.pod_level.as_ref().filter(is_set)
    }

    /// The container of this name.
    pub fn container(&self, name: &str) -> Option<&ContainerState> {
        self.containers.iter().find(|container| container.name == name)
    }

    /// Whether the kubelet has acted on the newest spec; one of before 1.34 does not say.
    pub fn is_observed(&self) -> bool {
        self.observed_generation.is_none_or(|observed| observed >= self.generation)
    }

    /// Whether it takes up room on its node: one that has ended does not.
    pub fn holds_room(&self) -> bool {
        self.life != Life::Ended
    }

    /// Which limits the kubelet has admitted, of the pod (`None`) or a container; the API does not say it, and it follows
    /// from what it does say. `None`: it can't be told.
    ///
    /// Without a pending condition that is what the spec has, once it was observed. With one, and none in progress, the
    /// kubelet has acted on all that it had admitted, and that is what is actual.
    pub fn allocated_limits(&self, level: &Level) -> Option<Amounts> {
        let asked_before =
            |condition: &Condition| condition.generation.is_none_or(|at| at >= self.generation);
        match (&self.pending, &self.in_progress) {
            (None, _) => (self.is_observed() && self.source == Source::Api).then_some(level.desired.limits),
            (Some(pending), None) if asked_before(pending) => level.actual.map(|actual| actual.limits),
            (Some(_), _) => None,
        }
    }
}
