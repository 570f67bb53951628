//! What the agent hands over as a whole before figures are told, so that what is gone has no series any more.

use super::{labels::Loss, own::Own};
use crate::{
    admin::model::{ContainerView, PartState},
    guard::Count,
    health::PartName,
    kube::state::{Level, PodState},
    overhead::Term,
    probe::ProgramCost,
};
use enforcer_gate::{Bytes, Limit, Micros, PAGE_SIZE, Pressure, Sample};
use std::collections::BTreeMap;

/// A container's memory limit as Kubernetes' API has it (KEP-1287).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ApiLimits {
    /// `spec`.
    pub desired: Option<Bytes>,
    /// What the kubelet has admitted.
    pub admitted: Option<Bytes>,
    /// What the kubelet says is in force.
    pub reported: Option<Bytes>,
}

impl ApiLimits {
    /// Of one container of a pod.
    pub fn of(pod: &PodState, level: &Level) -> Self {
        Self {
            desired: level.desired.limits.memory,
            admitted: pod.allocated_limits(level).and_then(|limits| limits.memory),
            reported: level.actual.and_then(|actual| actual.limits.memory),
        }
    }
}

/// A container's figures. What is `None` is not told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerGauges {
    /// The pod's namespace (untrusted text).
    pub namespace: String,
    /// The pod's name (untrusted text).
    pub pod: String,
    /// The container's name (untrusted text).
    pub container: String,
    /// The limit as Kubernetes has it; nothing where its API is not followed.
    pub api: ApiLimits,
    /// The limit as the runtime has it.
    pub allocated: Option<Limit>,
    /// The limit in force.
    pub limit: Option<Limit>,
    /// `memory.current`.
    pub usage: Option<Bytes>,
    /// What stays whatever reclaim does.
    pub floor: Option<Bytes>,
    /// The lowest limit that the gate would let in.
    pub safe_minimum: Option<Bytes>,
    /// Totals of `memory.pressure`.
    pub pressure: Option<Pressure>,
    /// Pages read back after they were reclaimed, ever.
    pub refaults: Option<u64>,
    /// What the kernel took back, ever.
    pub reclaimed: Option<Bytes>,
    /// `oom_kill` of `memory.events`.
    pub oom_kills: Option<u64>,
    /// Limits that are not what the runtime has.
    pub drifted: u64,
    /// The policy's mode, by its name.
    pub policy: String,
}

impl From<&ContainerView> for ContainerGauges {
    /// All that a view has; the rest is for [`ContainerGauges::read`].
    fn from(view: &ContainerView) -> Self {
        Self {
            namespace: view.namespace.clone(),
            pod: view.pod.clone(),
            container: view.container.clone(),
            allocated: view.runtime_limit,
            limit: view.limit,
            usage: view.usage,
            floor: view.floor,
            safe_minimum: view.safe_minimum,
            drifted: u64::try_from(view.drift.len()).unwrap_or(u64::MAX),
            policy: view.policy.clone(),
            ..Self::default()
        }
    }
}

impl ContainerGauges {
    /// Takes over what a reading of its cgroup says.
    pub fn read(&mut self, sample: &Sample) {
        let stat = &sample.stat;
        self.limit = Some(sample.max);
        self.usage = Some(sample.current);
        self.pressure = sample.pressure;
        self.refaults = Some(stat.workingset_refault_file.saturating_add(stat.workingset_refault_anon));
        self.reclaimed = Some(Bytes::new(stat.pgsteal.saturating_mul(PAGE_SIZE)));
        self.oom_kills = Some(sample.events.oom_kill);
    }
}

/// What a pod takes beyond its containers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OverheadGauges {
    /// The pod's namespace (untrusted text).
    pub namespace: String,
    /// The pod's name (untrusted text).
    pub pod: String,
    /// By term.
    pub terms: BTreeMap<Term, Bytes>,
    /// What the dead left.
    pub residue: Bytes,
    /// Processes that work for it.
    pub helpers: u64,
    /// CPU time beyond its containers.
    pub cpu: Micros,
}

/// What looking at pods' overhead took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OverheadCost {
    /// Files that were read.
    pub reads: u64,
    /// CPU time.
    pub cpu: Micros,
}

/// The node's and the agent's figures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeGauges {
    /// Whether all actuation is stopped.
    pub paused: bool,
    /// Pods that are known.
    pub pods: u64,
    /// Containers that run.
    pub containers: u64,
    /// Shrinks that are being carried out.
    pub in_flight: u64,
    /// How the agent's parts are.
    pub parts: BTreeMap<PartName, PartState>,
    /// The guard; `None` where it is off.
    pub guard: Option<GuardGauges>,
    /// What looking at pods' overhead took; `None` where that is off.
    pub overhead: Option<OverheadCost>,
    /// What the kernel programs that are attached have cost.
    pub programs: Vec<ProgramCost>,
    /// What was lost since the agent began, of what is counted elsewhere; the rest is for
    /// [`super::Metrics::dropped`].
    pub dropped: BTreeMap<Loss, u64>,
    /// What the agent itself takes; `None` where it could not be read.
    pub own: Option<Own>,
}

/// The guard's figures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GuardGauges {
    /// Whether it judges.
    pub armed: bool,
    /// Writes that it judged ([`crate::guard::Guard::counts`]).
    pub verdicts: Vec<Count>,
}

#[cfg(test)]
mod tests {
    use super::ApiLimits;
    use crate::kube::fixture::{condition, mib, pod, shrink};

    #[test]
    fn what_is_asked_admitted_and_reported_is_told_apart() {
        let of = |conditions: &[serde_json::Value]| {
            let pod = pod(|value| shrink(value, conditions));
            ApiLimits::of(&pod, &pod.container("main").expect("it is there").level)
        };
        let (asked, before) = (Some(mib(200)), Some(mib(400)));
        let limits = |admitted| ApiLimits { desired: asked, admitted, reported: before };
        assert_eq!(of(&[condition("PodResizeInProgress", "", "")]), limits(asked));
        assert_eq!(of(&[condition("PodResizePending", "Deferred", "")]), limits(before));
        let both =
            [condition("PodResizePending", "Deferred", ""), condition("PodResizeInProgress", "Error", "")];
        assert_eq!(of(&both), limits(None), "it can't be told");
    }
}
