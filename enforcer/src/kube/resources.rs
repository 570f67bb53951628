//! Reads pods and nodes of the API into what is kept of them. No I/O.
//!
//! Fields as of 1.35; what an older API server does not send is absent, what a newer one sends besides is not read.
//! Names and messages are other people's text: they are cut here and escaped where they are printed.

use super::{
    amounts::{Amounts, Resources},
    node::{Heard, NodeState, Version},
    state::{
        CONTAINERS_MAX, Condition, ContainerState, Level, Life, PodName, PodState, Qos, RestartOn, Role,
        Source, TEXT_BYTES_MAX, Writer,
    },
};
use k8s_openapi::{
    api::core::v1::{Container, ContainerStatus, Node, Pod, PodCondition, PodSpec, PodStatus},
    apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, Time},
};

/// Most features that a node declares and that are kept.
const FEATURES_MAX: usize = 64;
/// What a mirror of a static pod carries (`pkg/kubelet/types/pod_update.go`).
const MIRROR: &str = "kubernetes.io/config.mirror";
const SOURCE: &str = "kubernetes.io/config.source";

/// What is kept of a pod.
pub fn pod(pod: &Pod) -> PodState {
    let (meta, no_spec, no_status) = (&pod.metadata, PodSpec::default(), PodStatus::default());
    let spec = pod.spec.as_ref().unwrap_or(&no_spec);
    let status = pod.status.as_ref().unwrap_or(&no_status);
    let init = spec.init_containers.as_deref().unwrap_or_default();
    let init_status = status.init_container_statuses.as_deref().unwrap_or_default();
    let own_status = status.container_statuses.as_deref().unwrap_or_default();
    let containers = (init.iter().map(|one| container(one, init_role(one), init_status)))
        .chain(spec.containers.iter().map(|one| container(one, Role::Regular, own_status)));
    PodState {
        name: PodName { namespace: text(meta.namespace.as_deref()), name: text(meta.name.as_deref()) },
        uid: text(meta.uid.as_deref()),
        resource_version: text(meta.resource_version.as_deref()),
        generation: meta.generation.unwrap_or(0),
        observed_generation: status.observed_generation,
        node: text(spec.node_name.as_deref()),
        life: life(meta.deletion_timestamp.is_some(), status.phase.as_deref()),
        qos: qos(status.qos_class.as_deref(), spec),
        source: source(pod),
        host_network: spec.host_network.unwrap_or(false),
        runtime_class: text(spec.runtime_class_name.as_deref()),
        overhead: Amounts::of(spec.overhead.as_ref()),
        pod_level: pod_level(spec, status),
        containers: containers.take(CONTAINERS_MAX).collect(),
        containers_left_out: (init.len() + spec.containers.len()).saturating_sub(CONTAINERS_MAX),
        pending: condition(status, "PodResizePending"),
        in_progress: condition(status, "PodResizeInProgress"),
        last_resize: last_resize(meta.managed_fields.as_deref().unwrap_or_default()),
    }
}

/// What is kept of a node.
pub fn node(node: &Node) -> NodeState {
    let status = node.status.clone().unwrap_or_default();
    let info = status.node_info.as_ref();
    let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready");
    NodeState {
        name: text(node.metadata.name.as_deref()),
        allocatable: Amounts::of(status.allocatable.as_ref()),
        capacity: Amounts::of(status.capacity.as_ref()),
        kubelet: info.and_then(|info| Version::parse(&info.kubelet_version)),
        runtime: text(info.map(|info| info.container_runtime_version.as_str())),
        heard: ready.map_or(Heard::Never, |condition| match condition.status.as_str() {
            "True" => Heard::Ready,
            "False" => Heard::NotReady { why: text(condition.message.as_deref()) },
            _ => Heard::Silent { since_us: micros(condition.last_transition_time.as_ref()) },
        }),
        features: (status.declared_features.iter().flatten())
            .take(FEATURES_MAX)
            .map(|name| text(Some(name)))
            .collect(),
    }
}

/// A newer kubelet says what is allocated and actual also for a pod that has no resources of its own.
fn pod_level(spec: &PodSpec, status: &PodStatus) -> Option<Level> {
    let level = Level {
        desired: Resources::of(spec.resources.as_ref()),
        allocated: status.allocated_resources.as_ref().map(|list| Amounts::of(Some(list))),
        actual: status.resources.as_ref().map(|actual| Resources::of(Some(actual))),
    };
    (level != Level::default()).then_some(level)
}

fn container(spec: &Container, role: Role, statuses: &[ContainerStatus]) -> ContainerState {
    let status = statuses.iter().find(|status| status.name == spec.name);
    let restarts_for = |kind: &str| {
        let mut policies = spec.resize_policy.iter().flatten();
        policies.any(|policy| policy.resource_name == kind && policy.restart_policy == "RestartContainer")
    };
    let id = status.and_then(|status| status.container_id.as_deref()).unwrap_or_default();
    ContainerState {
        name: text(Some(&spec.name)),
        role,
        id: text(Some(id.split_once("://").map_or(id, |(_, id)| id))),
        running: status.and_then(|status| status.state.as_ref()).is_some_and(|state| state.running.is_some()),
        restarts: status.map_or(0, |status| status.restart_count),
        level: Level {
            desired: Resources::of(spec.resources.as_ref()),
            allocated: (status.and_then(|status| status.allocated_resources.as_ref()))
                .map(|list| Amounts::of(Some(list))),
            actual: (status.and_then(|status| status.resources.as_ref()))
                .map(|actual| Resources::of(Some(actual))),
        },
        restart_on: RestartOn { memory: restarts_for("memory"), cpu: restarts_for("cpu") },
    }
}

fn init_role(container: &Container) -> Role {
    if container.restart_policy.as_deref() == Some("Always") { Role::Sidecar } else { Role::Init }
}

fn life(deleting: bool, phase: Option<&str>) -> Life {
    match phase {
        Some("Succeeded" | "Failed") => Life::Ended,
        _ if deleting => Life::Ending,
        Some("Running") => Life::Running,
        Some("Pending") => Life::Pending,
        _ => Life::Unknown,
    }
}

/// As the status has it; before it has one, by the rule.
fn qos(said: Option<&str>, spec: &PodSpec) -> Qos {
    match said {
        Some("Guaranteed") => return Qos::Guaranteed,
        Some("Burstable") => return Qos::Burstable,
        Some("BestEffort") => return Qos::BestEffort,
        _ => {}
    }
    let every = match &spec.resources {
        Some(own) => vec![Resources::of(Some(own))],
        None => (spec.init_containers.iter().flatten().chain(&spec.containers))
            .map(|one| Resources::of(one.resources.as_ref()))
            .collect(),
    };
    class(&every)
}

/// The class of a pod of whose containers each has these, or which has these of its own (`GetPodQOS`).
pub(super) fn class(every: &[Resources]) -> Qos {
    let is_set = |amounts: &Amounts| {
        amounts.memory.is_some_and(|memory| memory.get() > 0) || amounts.cpu.is_some_and(|cpu| cpu.get() > 0)
    };
    let is_equal = |one: &Resources| {
        let Resources { requests, limits } = one;
        limits.memory.is_some() && limits.cpu.is_some() && requests.or(*limits) == *limits
    };
    if every.iter().all(|one| !is_set(&one.requests) && !is_set(&one.limits)) {
        Qos::BestEffort
    } else if every.iter().all(is_equal) {
        Qos::Guaranteed
    } else {
        Qos::Burstable
    }
}

fn source(pod: &Pod) -> Source {
    let annotations = pod.metadata.annotations.as_ref();
    let of = |key| annotations.and_then(|all| all.get(key)).map(String::as_str);
    let by_node = (pod.metadata.owner_references.iter().flatten())
        .any(|owner| owner.kind == "Node" && owner.api_version == "v1");
    if of(MIRROR).is_some() || of(SOURCE).is_some_and(|source| source != "api") || by_node {
        Source::Static
    } else {
        Source::Api
    }
}

fn condition(status: &PodStatus, kind: &str) -> Option<Condition> {
    let holds = |condition: &&PodCondition| condition.type_ == kind && condition.status == "True";
    let found = status.conditions.iter().flatten().find(holds)?;
    Some(Condition {
        reason: text(found.reason.as_deref()),
        message: text(found.message.as_deref()),
        since_us: micros(found.last_transition_time.as_ref()),
        generation: found.observed_generation.filter(|at| *at > 0),
    })
}

/// The latest of those that wrote through `resize`.
fn last_resize(managed: &[ManagedFieldsEntry]) -> Option<Writer> {
    let resizes = managed.iter().filter(|entry| entry.subresource.as_deref() == Some("resize"));
    let latest = resizes.max_by_key(|entry| micros(entry.time.as_ref()))?;
    Some(Writer { manager: text(latest.manager.as_deref()), at_us: micros(latest.time.as_ref()) })
}

fn micros(time: Option<&Time>) -> Option<u64> {
    time.and_then(|time| u64::try_from(time.0.as_microsecond()).ok())
}

/// Cut to [`TEXT_BYTES_MAX`] at a whole character.
pub(super) fn text(found: Option<&str>) -> String {
    let found = found.unwrap_or_default();
    found[..found.floor_char_boundary(TEXT_BYTES_MAX)].to_owned()
}
