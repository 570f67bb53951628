//! Which memory limits the kubelet should have in force for a pod as it was admitted: of each container and of the pod's
//! own cgroup. No I/O.
//!
//! As `ResourceConfigForPod` in `pkg/kubelet/cm/helpers_linux.go`, 1.35.8 and 1.37.0, with the gate `PodLevelResources`
//! on (beta and on since 1.34). A pod's cgroup has a limit where every container has one, or the pod one of its own.

use super::{
    amounts::{Amounts, Kind},
    node::Version,
    scheduler::sum,
    state::{ContainerState, PodState, Qos, Role},
};
use crate::resize::MilliCpu;
use enforcer_gate::{Bytes, Limit};
use serde::Serialize;

/// What should be in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Expected {
    /// The pod's own cgroup.
    pub pod: PodExpected,
    /// Each container that runs, with its name.
    pub containers: Vec<(String, ContainerExpected)>,
}

/// What should be in force in a pod's own cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PodExpected {
    /// `memory.max`, as written: the kernel rounds it down to whole pages. `Max`: the kubelet writes none, and leaves one
    /// that is there (`doPodResizeAction`).
    pub memory: Limit,
    /// `cpu.max` as CPUs; none: the kubelet writes no quota, and leaves one that is there.
    pub cpu: Option<MilliCpu>,
}

/// What should be in force in a container's cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ContainerExpected {
    /// `memory.max`, as written. One without a limit of its own has the pod's, where the pod has one (KEP-2837).
    pub memory: Limit,
    /// `cpu.max` as CPUs.
    pub cpu: Option<MilliCpu>,
}

/// What should be in force, or none where it can't be told: the API does not say which limits were admitted while one
/// resize waits behind another, or before the kubelet has seen the newest spec.
pub fn expected(pod: &PodState, kubelet: Option<Version>) -> Option<Expected> {
    if pod.containers_left_out > 0 || !pod.holds_room() {
        return None;
    }
    let limits = |one: &ContainerState| {
        // A pending resize of a container that is not there yet has nothing in force that could tell.
        pod.allocated_limits(&one.level)
    };
    let every: Vec<_> = pod.containers.iter().map(|one| limits(one).map(|amounts| (one, amounts))).collect();
    let every: Vec<_> = every.into_iter().collect::<Option<_>>()?;
    let own = match pod.own() {
        Some(level) => pod.allocated_limits(level)?,
        None => Amounts::default(),
    };
    let pod_limits = own_limits(pod, &every, own, kubelet);
    let running = every.iter().filter(|(one, _)| one.running);
    let containers = running.map(|(one, amounts)| {
        let memory = set(*amounts, Kind::Memory).or(set(own, Kind::Memory));
        let cpu = set(*amounts, Kind::Cpu).or(set(own, Kind::Cpu));
        (one.name.clone(), ContainerExpected { memory: limit(memory), cpu: cpu.map(MilliCpu::new) })
    });
    Some(Expected { pod: pod_limits, containers: containers.collect() })
}

fn own_limits(
    pod: &PodState,
    every: &[(&ContainerState, Amounts)],
    own: Amounts,
    kubelet: Option<Version>,
) -> PodExpected {
    let of = |kind: Kind| {
        // Guaranteed pods have all of theirs, and pods of no class have none.
        let is_whole = match pod.qos {
            Qos::Guaranteed => true,
            Qos::BestEffort => false,
            Qos::Burstable => set(own, kind).is_some() || all_declared(every, kind, kubelet),
        };
        let amount = |one: &ContainerState| {
            every
                .iter()
                .find(|(other, _)| other.name == one.name)
                .map(|(_, amounts)| *amounts)
                .unwrap_or_default()
        };
        let limits = own.or(sum(pod, amount));
        // Overhead is added to what is limited.
        let limit = limits.get(kind).filter(|limit| *limit > 0).filter(|_| is_whole)?;
        Some(limit.saturating_add(pod.overhead.get(kind).unwrap_or(0)))
    };
    PodExpected { memory: limit(of(Kind::Memory)), cpu: of(Kind::Cpu).map(MilliCpu::new) }
}

/// Up to 1.36 an init container counts as limited too where a sidecar before it is: its limit is taken with theirs.
fn all_declared(every: &[(&ContainerState, Amounts)], kind: Kind, kubelet: Option<Version>) -> bool {
    let each_alone = kubelet.is_none_or(|version| version >= Version::V1_37);
    let mut sidecars = false;
    every.iter().all(|(one, amounts)| {
        let declared = set(*amounts, kind).is_some();
        sidecars |= one.role == Role::Sidecar && declared;
        declared || (!each_alone && one.role != Role::Regular && sidecars)
    })
}

/// A limit of zero is none.
fn set(amounts: Amounts, kind: Kind) -> Option<u64> {
    amounts.get(kind).filter(|amount| *amount > 0)
}

fn limit(bytes: Option<u64>) -> Limit {
    bytes.map_or(Limit::Max, |bytes| Limit::Bytes(Bytes::new(bytes)))
}

#[cfg(test)]
#[path = "tests/expectations.rs"]
mod tests;
