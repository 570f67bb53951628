//! Of what the API server did not take.

use super::{Code, Reason};
use serde::Serialize;

/// An answer of the API server that is a no.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// The status of HTTP: 403, 422, or another of the 400s.
    pub status: u16,
    /// `status.reason`, as in `Forbidden`.
    pub reason: String,
    /// In the API server's words; other people's text.
    pub message: String,
}

/// Why a resize was refused by the API server (validation, admission, authorisation of 1.35.8 and 1.37.0).
pub fn of_refusal(refusal: &Refusal) -> Reason {
    let message = refusal.message.as_str();
    let (code, what, todo) = by_words(message, refusal.status);
    let quota = message.split_once("exceeded quota: ").map(|(_, rest)| rest);
    let part = |name: &str| -> Option<String> {
        // `NAME, requested: limits.memory=1Gi, used: ..., limited: ...`
        let (_, rest) = quota?.split_once(&format!("{name}: "))?;
        let end = ["requested: ", "used: ", "limited: "].iter().filter_map(|next| rest.find(next)).min();
        Some(rest[..end.unwrap_or(rest.len())].trim_end_matches([' ', ',']).to_owned())
    };
    let name = quota.and_then(|rest| rest.split_once(',')).map(|(name, _)| name.to_owned());
    Reason::new(code, what, todo)
        .with_some("quota", name)
        .with_some("more asked for", part("requested"))
        .with_some("used", part("used"))
        .with_some("at most", part("limited"))
        .with("status", refusal.status)
        .with("the API server says", message)
}

fn by_words(message: &str, status: u16) -> (Code, &'static str, &'static str) {
    let has = |words: &str| message.contains(words);
    let range = ["minimum ", "maximum "].iter().any(|words| has(words)) && has(" usage per ");
    if has("exceeded quota: ")
        || has("failed quota: ")
        || has("insufficient quota")
        || has("status unknown for quota")
    {
        (
            Code::RefusedQuota,
            "A quota of the namespace has no room for it.",
            "raise the ResourceQuota, or lower what other pods of the namespace have",
        )
    } else if range || has("max limit to request ratio") {
        (
            Code::RefusedLimitRange,
            "A limit range of the namespace does not allow these values.",
            "keep to it, or change the LimitRange",
        )
    } else if has("QOS Class may not change") {
        (
            Code::RefusedQosChange,
            "The pod's class (QoS) would change, which a resize can't do.",
            "keep requests equal to limits in a Guaranteed pod, and different in one that is not",
        )
    } else if has("cannot be removed") {
        (
            Code::RefusedRemoval,
            "A limit or request can't be taken away by a resize.",
            "give it another value, or make the pod anew",
        )
    } else if has("enough allocatable resources") {
        (
            Code::RefusedNodeCapacity,
            "It asks for more than the node has for all of its pods.",
            "ask for less, or have the pod made anew on a larger node",
        )
    } else if has("pod update requires features")
        || has("without support for resize")
        || has("only supported on linux")
    {
        (
            Code::RefusedNodeFeature,
            "The pod's node can't do it.",
            "turn the feature on at the node, or have the pod made anew elsewhere",
        )
    } else if has("static pods cannot be resized") {
        (
            Code::RefusedStaticPod,
            "It is a static pod: its spec is a file on the node.",
            "change the file in the kubelet's folder of manifests; the kubelet makes the pod anew",
        )
    } else if has("cannot patch resource") || has("cannot get resource") || status == 401 {
        (
            Code::RefusedNotAllowed,
            "Who asked may not do this.",
            "grant it: the verb patch on pods/resize (deploy/ has the role)",
        )
    } else if has("ValidatingAdmissionPolicy") || has("admission webhook") {
        (
            Code::RefusedPolicy,
            "An admission policy or webhook of the cluster refuses it.",
            "read its words below; an agent may change the pods of its own node only",
        )
    } else if status == 422 {
        (Code::RefusedInvalid, "The API server finds the values invalid.", "read its words below")
    } else {
        (Code::RefusedOther, "The API server refuses it.", "read its words below")
    }
}
