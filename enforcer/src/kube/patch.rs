//! Patches of `pods/resize`: what is sent, and what comes of it.
//!
//! Limits are changed, and requests only where the API demands it: in a Guaranteed pod, where they are the same, and where
//! a request would be above its limit. A patch holds for one pod (`uid`) as it was read (`resourceVersion`): whatever
//! changed since makes it a conflict, and whoever sent it looks again. It needs the verb `patch` on `pods/resize`, no
//! more.

use super::{
    amounts::{Amounts, Kind, Resources},
    call::{CallError, Request, path},
    connect::Server,
    read::{ask_for, pod_parts},
    reasons::Refusal,
    resources,
    state::{PodName, PodState, Qos, Role, Source},
};
use crate::cgroup::shown;
use enforcer_gate::PAGE_SIZE;
use http::Method;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// As whom we write (`metadata.managedFields`).
pub const FIELD_MANAGER: &str = "enforcer";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// Limits that a container, or the pod itself, is to have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Want {
    /// The container; none: the pod's own.
    pub container: Option<String>,
    /// What is not said stays.
    pub limits: Amounts,
}

/// A patch that is ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ResizePatch {
    /// The pod.
    #[serde(flatten)]
    pub pod: PodName,
    /// The generation that it was decided on.
    pub generation: i64,
    /// What is sent: a strategic merge patch.
    pub body: Value,
}

/// Why there is no patch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Nothing would change.
    #[error("its limits are as asked already")]
    Nothing,
    /// The pod has no such container.
    #[error("the pod has no container {}", shown(.0))]
    NoContainer(String),
    /// It runs to its end before the others begin.
    #[error("{} is an init container, whose resources can't be changed", shown(.0))]
    InitContainer(String),
    /// Its spec is a file on the node.
    #[error("it is a static pod, whose spec is a file on the node")]
    Static,
    /// It has ended.
    #[error("the pod has ended")]
    Ended,
    /// The pod would get another class, which the API server refuses.
    #[error("its class would change from {} to {}, which a resize can't do", .0.name(), .1.name())]
    QosChange(Qos, Qos),
    /// No process lives in less than a page.
    #[error("{0} is less than a page")]
    TooLittle(enforcer_gate::Bytes),
}

impl PlanError {
    /// The way out.
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::NoContainer(_) => "enforcer explain pod/NAMESPACE/NAME lists its containers",
            Self::InitContainer(_) => "change its pod's template",
            Self::Static => {
                "change the file in the kubelet's folder of manifests; the kubelet makes the pod anew"
            }
            Self::Ended => "name one that runs",
            Self::QosChange(Qos::BestEffort, _) => {
                "give the pod a request or limit in its template: one without any can't be resized"
            }
            Self::QosChange(..) => {
                "leave the request lower than the limit in one container, or make the pod anew"
            }
            Self::TooLittle(_) => "give at least 4Ki",
        }
    }
}

/// What came of a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is in the spec; the kubelet comes next. The pod as it is now.
    Patched(Box<PodState>),
    /// The pod has changed since it was read (409): look again.
    Conflict,
    /// There is no such pod any more.
    Gone,
    /// The API server refuses it (403, 422 and the like): the same won't do later.
    Refused(Refusal),
    /// Nobody answers, or not now. It may have been done where the answer was lost, which looking again tells.
    Unavailable {
        /// What the API server asks to be waited.
        retry_after: Option<Duration>,
        /// Why.
        why: CallError,
    },
}

/// Makes the patch for a pod as it was read.
pub fn plan(pod: &PodState, wants: &[Want]) -> Result<ResizePatch, PlanError> {
    if pod.source == Source::Static {
        return Err(PlanError::Static);
    }
    if !pod.holds_room() {
        return Err(PlanError::Ended);
    }
    let mut after = pod.clone();
    for want in wants {
        apply(&mut after, want)?;
    }
    if after == *pod {
        return Err(PlanError::Nothing);
    }
    let class = class(&after);
    if class != pod.qos {
        return Err(PlanError::QosChange(pod.qos, class));
    }
    let list = |is_init: bool| {
        let pairs = pod.containers.iter().zip(&after.containers);
        let pairs = pairs.filter(|(one, _)| (one.role != Role::Regular) == is_init);
        let changed = pairs.filter_map(|(before, after)| {
            let resources = difference(&before.level.desired, &after.level.desired)?;
            Some(json!({"name": before.name, "resources": resources}))
        });
        changed.collect::<Vec<_>>()
    };
    let mut spec = Map::new();
    for (key, list) in [("initContainers", list(true)), ("containers", list(false))] {
        if !list.is_empty() {
            spec.insert(key.into(), Value::Array(list));
        }
    }
    let own = |pod: &PodState| pod.pod_level.map(|level| level.desired).unwrap_or_default();
    if let Some(resources) = difference(&own(pod), &own(&after)) {
        spec.insert("resources".into(), resources);
    }
    let metadata = json!({"uid": pod.uid, "resourceVersion": pod.resource_version});
    let body = json!({"metadata": metadata, "spec": spec});
    Ok(ResizePatch { pod: pod.name.clone(), generation: pod.generation, body })
}

fn apply(pod: &mut PodState, want: &Want) -> Result<(), PlanError> {
    if let Some(memory) = want.limits.memory.filter(|memory| memory.get() < PAGE_SIZE) {
        return Err(PlanError::TooLittle(memory));
    }
    let guaranteed = pod.qos == Qos::Guaranteed;
    let desired = match &want.container {
        None => &mut pod.pod_level.get_or_insert_default().desired,
        Some(name) => {
            let found = pod.containers.iter_mut().find(|one| one.name == *name);
            let container = found.ok_or_else(|| PlanError::NoContainer(name.clone()))?;
            if container.role == Role::Init {
                return Err(PlanError::InitContainer(name.clone()));
            }
            &mut container.level.desired
        }
    };
    for kind in Kind::ALL {
        let Some(limit) = want.limits.get(kind) else { continue };
        let request = desired.requests.get(kind);
        desired.limits = desired.limits.with(kind, Some(limit));
        if guaranteed || request.is_some_and(|request| request > limit) {
            desired.requests = desired.requests.with(kind, Some(limit));
        }
    }
    Ok(())
}

/// The class by the rule of the API server (`pkg/apis/core/v1/helper/qos`).
fn class(pod: &PodState) -> Qos {
    let every: Vec<Resources> = match pod.own() {
        Some(level) => vec![level.desired],
        None => pod.containers.iter().map(|one| one.level.desired).collect(),
    };
    resources::class(&every)
}

fn difference(before: &Resources, after: &Resources) -> Option<Value> {
    let of = |before: &Amounts, after: &Amounts| {
        let changed = Kind::ALL.into_iter().filter(|kind| before.get(*kind) != after.get(*kind));
        let changed =
            changed.filter_map(|kind| Some((kind.name().into(), kind.quantity(after.get(kind)?).into())));
        changed.collect::<Map<String, Value>>()
    };
    let mut parts = Map::new();
    for (key, list) in
        [("limits", of(&before.limits, &after.limits)), ("requests", of(&before.requests, &after.requests))]
    {
        if !list.is_empty() {
            parts.insert(key.into(), Value::Object(list));
        }
    }
    (!parts.is_empty()).then_some(Value::Object(parts))
}

/// Sends it, or has the API server judge it without keeping it (`dryRun=All`).
pub async fn send(server: &Server, patch: &ResizePatch, dry_run: bool) -> Outcome {
    let parts: Vec<_> = pod_parts(&patch.pod).into_iter().chain(["resize"]).collect();
    let mut query = vec![("fieldManager", FIELD_MANAGER), ("fieldValidation", "Strict")];
    if dry_run {
        query.push(("dryRun", "All"));
    }
    let request = Request {
        call: "patch pods/resize",
        method: Method::PATCH,
        target: path(&parts, &query),
        body: Some((STRATEGIC, patch.body.to_string().into_bytes())),
    };
    match ask_for(server, &request, &patch.pod).await {
        Ok(pod) => Outcome::Patched(Box::new(pod)),
        Err(error) => outcome(error),
    }
}

pub(super) fn outcome(error: CallError) -> Outcome {
    if error.is_passing() {
        return Outcome::Unavailable { retry_after: error.retry_after(), why: error };
    }
    match error {
        CallError::Status { status: 409, .. } => Outcome::Conflict,
        CallError::Status { status: 404 | 410, .. } => Outcome::Gone,
        CallError::Status { status, reason, message, .. } => {
            Outcome::Refused(Refusal { status, reason, message })
        }
        CallError::Unreachable { .. }
        | CallError::Deadline { .. }
        | CallError::Broken { .. }
        | CallError::TooLong { .. }
        | CallError::Garbage { .. } => Outcome::Unavailable { retry_after: None, why: error },
    }
}

#[cfg(test)]
#[path = "tests/patch.rs"]
mod tests;
