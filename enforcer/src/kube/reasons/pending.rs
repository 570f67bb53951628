//! Of what the kubelet has not admitted: Deferred and Infeasible.

use super::{Code, Given, Reason, holders, number_after};
use crate::kube::{
    amounts::Kind,
    state::{Condition, PodState},
};

/// Pods that are named as those that hold a resource.
const HOLDERS_MAX: usize = 5;

/// `Node didn't have enough resource: memory, requested: N, used: N, capacity: N` (`pkg/kubelet/lifecycle/predicate.go`;
/// CPU in thousandths).
pub(super) fn deferred(given: &Given<'_>, condition: &Condition) -> Reason {
    let message = condition.message.as_str();
    let short = Kind::ALL.into_iter().find(|kind| message.contains(&format!("enough resource: {kind},")));
    let Some(kind) = short else {
        return Reason::new(
            Code::DeferredOther,
            "The kubelet puts it off and tries again when a pod of the node changes, and every three minutes at the latest.",
            "read the kubelet's words below",
        )
        .with("the kubelet says", message);
    };
    let code = match kind {
        Kind::Memory => Code::DeferredMemory,
        Kind::Cpu => Code::DeferredCpu,
    };
    let [asked, used, capacity] =
        ["requested: ", "used: ", "capacity: "].map(|before| number_after(message, before));
    let lacking = match (asked, used, capacity) {
        (Some(asked), Some(used), Some(capacity)) => {
            Some(asked.saturating_add(used).saturating_sub(capacity))
        }
        _ => None,
    };
    let all = holders(given, kind);
    let what = match lacking {
        Some(lacking) => format!("The node lacks {} of {kind} requests for it.", kind.shown(lacking)),
        None => format!("The node has not enough {kind} requests left for it."),
    };
    let todo = format!(
        "lower the {kind} request that is asked for, or free requests on the node: shrink or move one of the pods that \
         hold most; the kubelet tries again by itself"
    );
    let shown = |amount: Option<u64>| amount.map(|amount| kind.shown(amount));
    let mut reason = Reason::new(code, what, todo)
        .with_some("asked for by this pod", shown(asked))
        .with_some("requested by the others", shown(used))
        .with_some("the node has for pods", shown(capacity));
    for (name, held) in all.iter().take(HOLDERS_MAX) {
        reason = reason.with(&format!("held by {}/{}", name.namespace, name.name), kind.shown(*held));
    }
    match all.len().saturating_sub(HOLDERS_MAX) {
        0 => reason,
        more => reason.with("held by others", format!("{more} more pods")),
    }
}

/// `pkg/kubelet/allocation/allocation_manager.go` of 1.35, `handlers.go` of 1.37.
pub(super) fn infeasible(given: &Given<'_>, condition: &Condition) -> Reason {
    let message = condition.message.as_str();
    let (code, what, todo) = by_words(message);
    let mut reason = Reason::new(code, what, todo).with("the kubelet says", message);
    if code == Code::InfeasibleCapacity {
        for kind in Kind::ALL.into_iter().filter(|kind| message.contains(&format!("capacity: {kind},"))) {
            let shown = |before| number_after(message, before).map(|amount| kind.shown(amount));
            reason = reason.with_some("asked for", shown("requested: "));
            // Its own name has the word too.
            let (_, numbers) = message.split_once("requested: ").unwrap_or_default();
            let capacity = number_after(numbers, "capacity: ").map(|amount| kind.shown(amount));
            reason = reason.with_some("the node has for pods", capacity);
        }
    }
    reason
        .with_some("the kubelet's version", given.node.and_then(|node| node.kubelet))
        .with_class(given.pod, code)
}

impl Reason {
    fn with_class(self, pod: &PodState, code: Code) -> Self {
        if matches!(code, Code::InfeasibleCpuManager | Code::InfeasibleMemoryManager) {
            return self.with("the pod's class", pod.qos.name());
        }
        self
    }
}

fn by_words(message: &str) -> (Code, &'static str, &'static str) {
    let has = |words: &str| message.contains(words);
    if has("InPlacePodLevelResourcesVerticalScaling is disabled") {
        (
            Code::InfeasiblePodLevelOff,
            "The kubelet does not resize a pod's own resources (feature gate InPlacePodLevelResourcesVerticalScaling).",
            "resize the containers instead, turn the gate on at the node, or make the pod anew",
        )
    } else if has("InPlacePodVerticalScaling is disabled") {
        (
            Code::InfeasibleFeatureOff,
            "The kubelet does not resize in place (feature gate InPlacePodVerticalScaling is off).",
            "turn the gate on at the node, or make the pod anew with the new values",
        )
    } else if has("static-pods") {
        (
            Code::InfeasibleStaticPod,
            "It is a static pod: its spec is a file on the node.",
            "change the file in the kubelet's folder of manifests; the kubelet makes the pod anew",
        )
    } else if has("with swap") {
        (
            Code::InfeasibleSwap,
            "The container may swap, and the kubelet resizes no memory request of one that may.",
            "change the limit alone and leave the memory request, set resizePolicy RestartContainer for memory, or \
             make the pod anew",
        )
    } else if has("CPU Manager policy") {
        (
            Code::InfeasibleCpuManager,
            "The node's CPU manager is static, and the pod is Guaranteed: its CPUs can't be changed.",
            "leave the CPU as it is and change memory alone, or make the pod anew",
        )
    } else if has("Memory Manager policy") {
        (
            Code::InfeasibleMemoryManager,
            "The node's memory manager is static, and the pod is Guaranteed: its memory can't be changed.",
            "leave the memory as it is, or make the pod anew",
        )
    } else if has("enough capacity") {
        (
            Code::InfeasibleCapacity,
            "It asks for more than the node has for all of its pods.",
            "ask for less, or have the pod made anew on a larger node",
        )
    } else if has("Memory-backed emptyDir") {
        (
            Code::InfeasibleMemoryVolume,
            "A volume in memory would change its size with it, which this kubelet does not do.",
            "leave the volume's sizeLimit as it is, or make the pod anew",
        )
    } else {
        (
            Code::InfeasibleOther,
            "The kubelet will not do it, and does not try again before the spec changes.",
            "read the kubelet's words below; change the spec, or make the pod anew",
        )
    }
}
