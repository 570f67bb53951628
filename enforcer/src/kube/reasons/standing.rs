//! Of what is so whether the kubelet says anything or not.

use super::{Code, Given, Reason};
use crate::{
    kube::{
        amounts::Kind,
        expectations::expected,
        flapping::Flapping,
        node::Heard,
        resize::{Change, Field, Phase, Resize},
        state::{PodState, Role},
    },
    utc::utc,
};
use enforcer_gate::{Bytes, Limit, PAGE_SIZE};

/// Of what is on its way without a word of trouble.
pub(super) fn in_flight(given: &Given<'_>, resize: &Resize) -> Option<Reason> {
    let Resize::InFlight { phase, .. } = resize else { return None };
    let pod = given.pod;
    match phase {
        Phase::Actuating => None,
        Phase::Asked => Some(
            Reason::new(
                Code::KubeletBehind,
                "The kubelet has not seen the newest spec of the pod.",
                "wait some seconds; else look whether the node's kubelet runs and reaches the API server",
            )
            .with("generation", pod.generation)
            .with_some("observed", pod.observed_generation),
        ),
        Phase::Unexplained => Some(
            Reason::new(
                Code::Unexplained,
                "What is in force is not what the spec says, and the kubelet says nothing of a resize.",
                "wait some seconds: it is so for an instant in each resize; else somebody has changed the limit behind \
                 the kubelet's back, and enforcer drift says who",
            )
            .with("differs", listed(resize.changes())),
        ),
    }
}

/// A resize waits for a kubelet that is not there.
pub(super) fn of_node(given: &Given<'_>, resize: &Resize) -> Option<Reason> {
    let node = given.node.filter(|_| *resize != Resize::None)?;
    match &node.heard {
        Heard::Ready | Heard::Never => None,
        Heard::NotReady { why } => Some(
            Reason::new(
                Code::NodeNotReady,
                "The node says that it is not ready: its kubelet may not carry out anything.",
                "look at the node first",
            )
            .with("node", &node.name)
            .with("the kubelet says", why),
        ),
        Heard::Silent { since_us } => Some(
            Reason::new(
                Code::NodeSilent,
                "The node's kubelet has not been heard of: what is said of the pod is what was so before.",
                "look whether the node and its kubelet run, and reach the API server",
            )
            .with("node", &node.name)
            .with_some("since", since_us.map(utc)),
        ),
    }
}

/// What the pod's make means for a resize of its memory.
pub(super) fn of_pod(given: &Given<'_>, resize: &Resize) -> Vec<Reason> {
    let changes = resize.changes();
    let mut found = Vec::new();
    found.extend(restarts(given.pod, changes));
    found.extend(unchecked(given, changes));
    found.extend(without_limit(given.pod, changes));
    found.extend(left_behind(given, resize));
    found
}

fn restarts(pod: &PodState, changes: &[Change]) -> Vec<Reason> {
    let restarted = changes.iter().filter(|change| {
        let container = change.container.as_deref().and_then(|name| pod.container(name));
        container.is_some_and(|container| match change.resource {
            Kind::Memory => container.restart_on.memory,
            Kind::Cpu => container.restart_on.cpu,
        })
    });
    let reason = |change: &Change| {
        let name = change.container.as_deref().unwrap_or_default();
        Reason::new(
            Code::RestartContainer,
            format!("Container {name} is restarted for it (resizePolicy RestartContainer for {}).", change.resource),
            "nothing to reclaim first: it starts anew with the new limit. The pod's own cgroup may keep the old one; \
             enforcer explain says so afterwards",
        )
        .with("change", change)
    };
    restarted.map(reason).collect()
}

/// The kubelet compares with usage only where a container's memory changes too (`validatePodResizeAction`).
fn unchecked(given: &Given<'_>, changes: &[Change]) -> Option<Reason> {
    let own = changes
        .iter()
        .find(|change| change.container.is_none() && change.resource == Kind::Memory && change.is_shrink())?;
    let of_container = |change: &Change| change.container.is_some() && change.resource == Kind::Memory;
    // One without a limit of its own takes the pod's, and is compared.
    let inherits =
        given.pod.containers.iter().any(|one| one.running && one.level.desired.limits.memory.is_none());
    if changes.iter().any(of_container) || inherits {
        return None;
    }
    let to = Bytes::new(own.to.unwrap_or(0));
    let usage = given.kernel.and_then(|kernel| kernel.pod?.current);
    let what = match usage {
        Some(usage) if usage >= to => format!(
            "The pod's own limit is to go to {to} with {usage} in use, and the kubelet does not compare them: without a \
             guard its containers are killed."
        ),
        Some(_) | None => {
            "The pod's own limit goes down alone, and the kubelet compares it with nothing.".into()
        }
    };
    let todo = "take it back, or keep the agent's guard in enforce, which refuses the write; enforcer floor on the pod's \
                cgroup says how low it can go";
    let reason = Reason::new(Code::UncheckedPodDecrease, what, todo).with("change", own);
    Some(reason.with_some("usage now", usage))
}

fn without_limit(pod: &PodState, changes: &[Change]) -> Option<Reason> {
    let shrinks = changes.iter().any(|change| change.resource == Kind::Memory && change.is_shrink());
    let own = pod.own().is_some_and(|level| level.desired.limits.memory.is_some());
    let names: Vec<_> = (pod.containers.iter())
        .filter(|one| {
            one.role != Role::Init && one.level.desired.limits.memory.is_none_or(|limit| limit.get() == 0)
        })
        .map(|one| one.name.as_str())
        .collect();
    if !shrinks || own || names.is_empty() {
        return None;
    }
    let reason = Reason::new(
        Code::ContainerWithoutLimit,
        "A container of the pod has no memory limit, so the pod's cgroup has none: only the containers with one are held.",
        "give each container a limit, or the pod one of its own, where the pod as a whole is to be held",
    );
    Some(reason.with("without a limit", names.join(", ")))
}

/// After a restart for a resize the pod's cgroup was seen to keep its old limit, while `ResizeCompleted` was told.
fn left_behind(given: &Given<'_>, resize: &Resize) -> Option<Reason> {
    if *resize != Resize::None {
        return None;
    }
    let pod = given.pod;
    let Limit::Bytes(expected) = expected(pod, given.node.and_then(|node| node.kubelet))?.pod.memory else {
        return None;
    };
    let by_kernel = given.kernel.and_then(|kernel| kernel.pod).map(|pod| pod.limit);
    let by_status = pod.pod_level.and_then(|level| level.actual).and_then(|actual| actual.limits.memory);
    let found = match by_kernel {
        Some(Limit::Bytes(bytes)) => Some(bytes),
        // None was ever set, or it was lifted: that is drift of another kind.
        Some(Limit::Max) => None,
        None => by_status,
    }?;
    if found.get().abs_diff(expected.get()) < PAGE_SIZE {
        return None;
    }
    let restarted: Vec<_> =
        pod.containers.iter().filter(|one| one.restart_on.memory).map(|one| one.name.as_str()).collect();
    let reason = Reason::new(
        Code::PodCgroupLeftBehind,
        format!("The pod's cgroup has {found} where its containers' limits come to {expected}."),
        "another resize of the pod has the kubelet write it again; the agent mends it where it may",
    );
    let reason = reason.with("pod's memory.max", found).with("should be", expected);
    Some(if restarted.is_empty() {
        reason
    } else {
        reason.with("restarted for a resize", restarted.join(", "))
    })
}

/// Told, never fought.
pub(super) fn flapping(found: &Flapping) -> Reason {
    let Flapping { managers, turns, values, since_us } = found;
    let values: Vec<_> = values.iter().map(ToString::to_string).collect();
    Reason::new(
        Code::Flapping,
        match managers.len() {
            0 | 1 => "Its limit is changed to and fro by one writer.",
            _ => "Several writers change its limit to and fro.",
        },
        "have one of them leave it alone (a VPA's updateMode, an operator's template, a person); the agent keeps out until \
         it is quiet",
    )
    .with("writers", managers.join(", "))
    .with("turns", turns)
    .with("between", values.join(", "))
    .with_some("since", since_us.map(utc))
}

/// Changes in a line.
fn listed(changes: &[Change]) -> String {
    const LISTED_MAX: usize = 4;
    let limits_first = |change: &&Change| change.field != Field::Limit;
    let mut all: Vec<_> = changes.iter().collect();
    all.sort_by_key(limits_first);
    let more = all.len().saturating_sub(LISTED_MAX);
    let mut text: Vec<_> = all.into_iter().take(LISTED_MAX).map(ToString::to_string).collect();
    if more > 0 {
        text.push(format!("{more} more"));
    }
    text.join(", ")
}
