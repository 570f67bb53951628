//! What a pod counts for on its node, as the scheduler has it during a resize: the greatest of desired, allocated and
//! actual requests. No I/O.
//!
//! As `PodRequests` with `UseStatusResources` in `k8s.io/component-helpers/resource/helpers.go`, versions 0.35.8 and 0.37.0.
//! Claims of devices (DRA) on the node's memory are not counted.

use super::{
    amounts::{Amounts, Kind},
    node::{NodeState, Version},
    state::{ContainerState, Level, PodName, PodState, Role},
};
use serde::Serialize;

/// How the greatest is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rules {
    /// Of each container, then the sum: up to 1.36.
    PerContainer,
    /// Of the sums: from 1.37 on.
    PerPod,
}

impl Rules {
    /// Those of a version; a scheduler of no known version goes by the newest.
    pub fn of(version: Option<Version>) -> Self {
        match version {
            Some(version) if version < Version::V1_37 => Self::PerContainer,
            Some(_) | None => Self::PerPod,
        }
    }
}

/// A pod's requests in all, overhead included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// By its spec.
    pub desired: Amounts,
    /// As the kubelet has admitted it: what it goes by when it admits another.
    pub allocated: Amounts,
    /// As the kubelet says that it is in force.
    pub actual: Amounts,
    /// What the scheduler counts.
    pub scheduler: Amounts,
}

impl Figures {
    /// The sums of two.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            desired: self.desired.plus(other.desired),
            allocated: self.allocated.plus(other.allocated),
            actual: self.actual.plus(other.actual),
            scheduler: self.scheduler.plus(other.scheduler),
        }
    }
}

/// What a pod counts for. One that has ended counts for nothing.
pub fn figures(pod: &PodState, rules: Rules) -> Figures {
    if !pod.holds_room() {
        return Figures::default();
    }
    let all =
        |of: fn(&Level) -> Amounts| with_own(pod, sum(pod, |one| of(&one.level)), of).plus(pod.overhead);
    // What the kubelet says of the whole pod has the overhead in it.
    let own = pod.pod_level.as_ref();
    let said = own.and_then(|level| level.actual).map(|actual| actual.requests);
    Figures {
        desired: all(desired),
        allocated: own.and_then(|level| level.allocated).unwrap_or_else(|| all(allocated)),
        actual: said.unwrap_or_default().or(all(actual)),
        scheduler: match rules {
            Rules::PerContainer => per_container(pod),
            Rules::PerPod => per_pod(pod),
        },
    }
}

/// A node's pods and what they come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeSum {
    /// The node.
    pub node: String,
    /// How it was counted.
    pub rules: Rules,
    /// What pods can have.
    pub allocatable: Amounts,
    /// Each pod, the one that counts for most memory first.
    pub pods: Vec<(PodName, Figures)>,
    /// All of them.
    pub sum: Figures,
}

impl NodeSum {
    /// Counts.
    pub fn of<'a>(node: &NodeState, pods: impl IntoIterator<Item = &'a PodState>, rules: Rules) -> Self {
        let here = pods.into_iter().filter(|pod| pod.node == node.name && pod.holds_room());
        let mut pods: Vec<_> = here.map(|pod| (pod.name.clone(), figures(pod, rules))).collect();
        pods.sort_by(|(one_name, one), (other_name, other)| {
            other.scheduler.memory.cmp(&one.scheduler.memory).then_with(|| one_name.cmp(other_name))
        });
        let sum = pods.iter().fold(Figures::default(), |sum, (_, figures)| sum.plus(*figures));
        Self { node: node.name.clone(), rules, allocatable: node.allocatable, pods, sum }
    }

    /// By how much the scheduler's sum is over what pods can have; zero where it is not, or where that is not known.
    pub fn over(&self, kind: Kind) -> u64 {
        let allocatable = self.allocatable.get(kind).unwrap_or(u64::MAX);
        self.sum.scheduler.get(kind).unwrap_or(0).saturating_sub(allocatable)
    }
}

fn desired(level: &Level) -> Amounts {
    level.desired.requests
}

/// What was not said yet is as desired.
fn allocated(level: &Level) -> Amounts {
    level.allocated.unwrap_or(level.desired.requests)
}

/// What was not said yet is as allocated.
fn actual(level: &Level) -> Amounts {
    match level.actual {
        Some(actual) if !actual.requests.is_empty() => actual.requests,
        Some(_) | None => allocated(level),
    }
}

/// Containers that run together, or the most that an init container needs beside the sidecars before it, whichever is
/// more (KEP-753).
pub(super) fn sum(pod: &PodState, of: impl Fn(&ContainerState) -> Amounts) -> Amounts {
    let (mut together, mut sidecars, mut at_start) =
        (Amounts::default(), Amounts::default(), Amounts::default());
    for one in &pod.containers {
        let amounts = of(one);
        match one.role {
            Role::Regular => together = together.plus(amounts),
            Role::Sidecar => {
                together = together.plus(amounts);
                sidecars = sidecars.plus(amounts);
                at_start = at_start.most(sidecars);
            }
            Role::Init => at_start = at_start.most(amounts.plus(sidecars)),
        }
    }
    together.most(at_start)
}

/// What a pod has of its own stands for its containers'.
fn with_own(pod: &PodState, sum: Amounts, own: impl Fn(&Level) -> Amounts) -> Amounts {
    let own = pod.own().filter(|level| !level.desired.requests.is_empty()).map(own);
    own.unwrap_or_default().or(sum)
}

fn is_infeasible(pod: &PodState) -> bool {
    pod.pending.as_ref().is_some_and(|pending| pending.reason == "Infeasible")
}

fn greatest(level: &Level, infeasible: bool) -> Amounts {
    let Some(actual) = level.actual else { return level.desired.requests };
    let known = actual.requests.most(level.allocated.unwrap_or_default());
    if infeasible { known } else { known.most(level.desired.requests) }
}

fn per_container(pod: &PodState) -> Amounts {
    let infeasible = is_infeasible(pod);
    let sum = sum(pod, |one| match one.role {
        Role::Init => one.level.desired.requests,
        Role::Sidecar | Role::Regular => greatest(&one.level, infeasible),
    });
    // Only what the spec has of its own is looked up.
    let own = |level: &Level| {
        let greatest = greatest(level, infeasible);
        let named = |kind: &Kind| level.desired.requests.get(*kind).is_some();
        Kind::ALL
            .into_iter()
            .filter(named)
            .fold(Amounts::default(), |own, kind| own.with(kind, greatest.get(kind)))
    };
    with_own(pod, sum, own).plus(pod.overhead)
}

fn per_pod(pod: &PodState) -> Amounts {
    let infeasible = is_infeasible(pod);
    let spec = |of: &Level| if infeasible { Amounts::default() } else { of.desired.requests };
    let admitted = |level: &Level| level.allocated.unwrap_or_else(|| spec(level));
    let in_force = |level: &Level| match level.actual {
        Some(actual) if !actual.requests.is_empty() => actual.requests,
        Some(_) | None => admitted(level),
    };
    let own = pod.pod_level.as_ref();
    let said = own.and_then(|level| level.allocated.zip(level.actual.map(|actual| actual.requests)));
    let (allocated, actual) = said
        .filter(|(_, actual)| !actual.is_empty())
        .unwrap_or_else(|| (sum(pod, |one| admitted(&one.level)), sum(pod, |one| in_force(&one.level))));
    let desired = if infeasible { Amounts::default() } else { sum(pod, |one| one.level.desired.requests) };
    let greatest = desired.most(allocated).most(actual);
    let own = |level: &Level| match level.actual {
        None => level.desired.requests,
        Some(actual) => spec(level).most(actual.requests).most(level.allocated.unwrap_or_default()),
    };
    with_own(pod, greatest, own).plus(pod.overhead)
}

#[cfg(test)]
#[path = "tests/scheduler.rs"]
mod tests;
