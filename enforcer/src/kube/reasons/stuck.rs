//! Of what was admitted and can't be carried out: `PodResizeInProgress` with the reason `Error`.

use super::{Code, Given, Reason, Usage, number_after};
use crate::kube::state::Condition;
use enforcer_gate::Bytes;

/// Limits of one message that are looked at.
const TRIED_MAX: usize = 16;

/// One limit that the kubelet would not set (`validateMemoryResizeAction`).
struct Tried<'a> {
    /// The container; none: the pod.
    container: Option<&'a str>,
    limit: Bytes,
    /// As the message has it: the pod's, also where it is about a container.
    usage: Option<Bytes>,
}

/// A reason for each limit that was refused, or one for all.
pub(super) fn error(given: &Given<'_>, condition: &Condition) -> Vec<Reason> {
    let message = condition.message.as_str();
    let tried: Vec<_> =
        message.split("attempting to set ").skip(1).take(TRIED_MAX).filter_map(tried).collect();
    if !tried.is_empty() {
        return tried.iter().map(|tried| usage(given, tried, message)).collect();
    }
    let no_usage = ["memory usage", "unable to get pod cgroup"].iter().any(|words| message.contains(words));
    let reason = if no_usage {
        Reason::new(
            Code::ErrorNoUsage,
            "The kubelet can't tell how much the pod uses, and lowers nothing before it can.",
            "look at the kubelet's log for its statistics (CRI stats or cAdvisor); it tries again by itself",
        )
    } else {
        Reason::new(
            Code::ErrorRuntime,
            "The container runtime or the kernel refused what the kubelet wrote.",
            "read the words below, and the runtime's log; the kubelet tries again by itself. Where enforcer's guard \
             refused the write, enforcer guard log says so",
        )
    };
    vec![reason.with("the kubelet says", message)]
}

/// `pod memory limit (N) below current usage (N)`, `container "NAME" memory limit (N) below current usage (N)`.
fn tried(text: &str) -> Option<Tried<'_>> {
    let limit = number_after(text, "memory limit (").map(Bytes::new)?;
    let container =
        text.strip_prefix("container \"").and_then(|rest| rest.split_once('"')).map(|(name, _)| name);
    if container.is_none() && !text.starts_with("pod ") {
        return None;
    }
    Some(Tried { container, limit, usage: number_after(text, "usage (").map(Bytes::new) })
}

fn usage(given: &Given<'_>, tried: &Tried<'_>, message: &str) -> Reason {
    let whose = tried.container.map_or_else(|| "the pod".into(), |name| format!("container {name}"));
    let limit = tried.limit;
    let found = given.kernel.and_then(|kernel| match tried.container {
        Some(name) => kernel.containers.get(name),
        None => kernel.pod.as_ref(),
    });
    let reason = match found {
        Some(Usage { current: Some(current), .. }) if *current < limit => Reason::new(
            Code::ErrorUsageStale,
            format!(
                "Usage of {whose} is under the new limit by now; the kubelet goes by a figure of some seconds ago."
            ),
            "wait for its next try, within some fifteen seconds; usage has to stay under the new limit till then",
        ),
        Some(Usage { floor: Some(floor), .. }) if *floor < limit => Reason::new(
            Code::ErrorUsagePageCache,
            format!(
                "Usage of {whose} is above the new limit, and {floor} of it can't be reclaimed: the rest is page cache \
                 or can be swapped, but the kubelet counts all of it and reclaims none."
            ),
            "reclaim first: the agent does so where the pod asks for it, enforcer shrink does so at once; the kubelet's \
             next try passes then",
        ),
        Some(Usage { floor: Some(floor), .. }) => Reason::new(
            Code::ErrorUsageResident,
            format!("{floor} of what {whose} uses can't be reclaimed, which is not under the new limit."),
            format!(
                "ask for more than {floor}: enforcer floor says how low it can go; or have the workload use less"
            ),
        ),
        Some(Usage { floor: None, .. }) | None => Reason::new(
            Code::ErrorUsage,
            format!(
                "Usage of {whose} is above the new limit, and the kubelet lowers none under what is used."
            ),
            "on its node enforcer explain and enforcer floor say how much of it is page cache that could go",
        ),
    };
    let said = if tried.container.is_some() {
        "the kubelet's figure (of the whole pod)"
    } else {
        "the kubelet's figure"
    };
    reason
        .with("new limit", limit)
        .with_some("usage now", found.and_then(|usage| usage.current))
        .with_some("of which stays", found.and_then(|usage| usage.floor))
        .with_some(said, tried.usage)
        .with("the kubelet says", message)
}
