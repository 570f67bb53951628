//! Why a container's limit is what it is, in sentences. No I/O.

use crate::{
    admin::model::{ContainerView, Flight},
    cgroup::printable,
};
use enforcer_gate::{Bytes, Limit};

/// Terms of the floor that are named.
const TERMS_MAX: usize = 8;

/// Why the limit is what it is, and how low it could go.
pub(super) fn limit(view: &ContainerView) -> Vec<String> {
    let mut said = vec![in_force(view)];
    said.extend(held_below(view));
    said.extend(pod(view));
    if let Some(Limit::Bytes(high)) = view.high {
        said.push(format!("Above {high} it is slowed down (memory.high)."));
    }
    said.extend(lowest(view));
    said.push(pressure(view));
    match view.oom_kills {
        0 => {}
        1 => said.push("The agent saw one OOM kill in it.".into()),
        kills => said.push(format!("The agent saw {kills} OOM kills in it.")),
    }
    said
}

/// What is in flight, what blocks it, and what comes next.
pub(super) fn actuation<'a>(
    view: &ContainerView,
    flights: impl Iterator<Item = &'a Flight>,
    paused: bool,
) -> Vec<String> {
    let mut said: Vec<_> = flights.map(flight).collect();
    if paused {
        said.push("All actuation is paused: enforcer resume lets it go on.".into());
    }
    said.extend(view.drift.iter().map(|drift| format!("It has drifted: {}.", printable(drift))));
    said.push(match view.policy_state.as_str() {
        "" => format!("Its policy is {}.", printable(&view.policy)),
        state => format!("Its policy is {}: {}.", printable(&view.policy), printable(state)),
    });
    if !view.last_verdict.is_empty() {
        said.push(format!("Its last shrink: {}.", printable(&view.last_verdict)));
    }
    if !view.missing.is_empty() {
        said.push(format!("Not all is known: {}.", printable(&view.missing)));
    }
    said
}

fn in_force(view: &ContainerView) -> String {
    match (view.limit, view.runtime_limit.map(Limit::held)) {
        (None, _) => "Which limit is in force is not known.".into(),
        (Some(Limit::Max), Some(Limit::Bytes(runtime))) => {
            format!("Nothing limits its memory, though the runtime has {runtime}.")
        }
        (Some(Limit::Max), Some(Limit::Max) | None) => "Nothing limits its memory.".into(),
        (Some(limit), Some(runtime)) if limit == runtime => {
            format!("Its limit is {limit}, which is what the runtime has.")
        }
        (Some(limit), Some(runtime)) => format!("Its limit is {limit}, though the runtime has {runtime}."),
        (Some(limit), None) => format!("Its limit is {limit}; what the runtime has is not known."),
    }
}

/// crun, for one, keeps processes in a cgroup below the one that it was told to make.
fn held_below(view: &ContainerView) -> Option<String> {
    let (made, holds) = (view.cgroup.as_str(), view.limit_cgroup.as_str());
    (view.limit.is_some() && !made.is_empty() && !holds.is_empty() && made != holds).then(|| {
        let below = holds.strip_prefix(made).and_then(|rest| rest.strip_prefix('/'));
        match below {
            Some(below) => format!("It is held below the container's own cgroup, in {}.", printable(below)),
            None => "It is held by another cgroup than the container's own.".into(),
        }
    })
}

fn pod(view: &ContainerView) -> Option<String> {
    match (view.pod_limit?, view.limit) {
        (Limit::Bytes(pod), Some(Limit::Bytes(own))) if pod < own => Some(format!(
            "The limit of its pod is lower: at {pod} for all of its containers that holds first."
        )),
        (Limit::Bytes(pod), Some(Limit::Max)) => {
            Some(format!("Its pod is limited to {pod} for all of its containers."))
        }
        (Limit::Bytes(_) | Limit::Max, _) => None,
    }
}

fn lowest(view: &ContainerView) -> Option<String> {
    let Some(minimum) = view.safe_minimum else {
        return Some("How low it could safely go is not known yet.".into());
    };
    let stays = view.floor.map_or_else(String::new, |floor| {
        format!("; {floor} of it stay whatever is reclaimed{}", terms(view))
    });
    Some(match view.limit? {
        Limit::Bytes(limit) if minimum >= limit => {
            format!("It can't go lower: the safe minimum is {minimum}{stays}.")
        }
        Limit::Bytes(_) | Limit::Max => format!("It could go down to {minimum}{stays}."),
    })
}

/// The floor's terms, the largest first.
pub(super) fn floor_terms(view: &ContainerView) -> String {
    let mut terms: Vec<(&String, &Bytes)> = view.floor_terms.iter().collect();
    terms.sort_by_key(|(_, bytes)| std::cmp::Reverse(**bytes));
    let more = if terms.len() > TERMS_MAX { ", ..." } else { "" };
    let named: Vec<_> =
        terms.iter().take(TERMS_MAX).map(|(name, bytes)| format!("{} {bytes}", printable(name))).collect();
    format!("{}{more}", named.join(", "))
}

fn terms(view: &ContainerView) -> String {
    if view.floor_terms.is_empty() { String::new() } else { format!(" ({})", floor_terms(view)) }
}

fn pressure(view: &ContainerView) -> String {
    match (view.psi_some_avg10, view.psi_full_avg10) {
        (0, 0) => "Nothing in it waits for memory.".into(),
        (some, full) => format!(
            "In the last ten seconds some of it waited for memory {} of the time, all of it {}.",
            per_cent(some),
            per_cent(full)
        ),
    }
}

/// From hundredths.
pub(in crate::cli) fn per_cent(hundredths: u64) -> String {
    format!("{}.{:02}%", hundredths / 100, hundredths % 100)
}

fn flight(flight: &Flight) -> String {
    let Flight { target: _, to, from, state, since, by } = flight;
    format!("It is being taken from {from} to {to} by {}: {}, for {since}.", printable(by), printable(state))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::fixture;

    fn mib(mib: u64) -> Option<Limit> {
        bytes(mib << 20)
    }

    #[expect(clippy::unnecessary_wraps, reason = "as fields have it")]
    fn bytes(bytes: u64) -> Option<Limit> {
        Some(Limit::Bytes(Bytes::new(bytes)))
    }

    fn said(view: &ContainerView) -> String {
        limit(view).join(" ")
    }

    #[test]
    fn whose_limit_it_is() {
        let view = fixture::container();
        for (limit, runtime, pod, says) in [
            (mib(256), mib(256), mib(512), "Its limit is 256Mi, which is what the runtime has."),
            // Kubernetes' 100M, in whole pages.
            (
                bytes(99_999_744),
                bytes(100_000_000),
                None,
                "Its limit is 95.4Mi, which is what the runtime has.",
            ),
            (Some(Limit::Max), bytes(i64::MAX.cast_unsigned()), None, "Nothing limits its memory."),
            (mib(128), mib(256), None, "Its limit is 128Mi, though the runtime has 256Mi."),
            (mib(128), None, None, "Its limit is 128Mi; what the runtime has is not known."),
            (Some(Limit::Max), Some(Limit::Max), Some(Limit::Max), "Nothing limits its memory."),
            (Some(Limit::Max), None, mib(64), "Nothing limits its memory."),
            (Some(Limit::Max), mib(64), None, "Nothing limits its memory, though the runtime has 64Mi."),
            (None, mib(64), mib(64), "Which limit is in force is not known."),
        ] {
            let view = ContainerView { limit, runtime_limit: runtime, pod_limit: pod, ..view.clone() };
            assert_eq!(super::limit(&view)[0], says);
        }
        for (limit, pod, says) in [
            (
                mib(128),
                mib(64),
                Some("The limit of its pod is lower: at 64Mi for all of its containers that holds first."),
            ),
            (Some(Limit::Max), mib(64), Some("Its pod is limited to 64Mi for all of its containers.")),
            (mib(64), mib(64), None),
            (mib(64), Some(Limit::Max), None),
            (mib(64), None, None),
        ] {
            let view = ContainerView { limit, pod_limit: pod, ..view.clone() };
            assert_eq!(super::pod(&view).as_deref(), says);
        }
        for (holds, says) in [
            (view.cgroup.clone(), None),
            (String::new(), None),
            (format!("{}/a/b", view.cgroup), Some("It is held below the container's own cgroup, in a/b.")),
            (format!("{}-b", view.cgroup), Some("It is held by another cgroup than the container's own.")),
        ] {
            let view = ContainerView { limit_cgroup: holds, ..view.clone() };
            assert_eq!(held_below(&view).as_deref(), says);
        }
    }

    #[test]
    fn how_low_it_can_go() {
        let view = fixture::container();
        let says = "It could go down to 106Mi; 90Mi of it stay whatever is reclaimed (anon 84Mi, slab 6Mi).";
        assert!(said(&view).contains(says), "{}", said(&view));
        for (safe_minimum, limit, says) in [
            (Some(Bytes::from_mib(300)), mib(256), "It can't go lower: the safe minimum is 300Mi"),
            (Some(Bytes::from_mib(256)), mib(256), "It can't go lower"),
            (Some(Bytes::from_mib(256)), Some(Limit::Max), "It could go down to 256Mi"),
            (None, mib(256), "How low it could safely go is not known yet."),
        ] {
            let view = ContainerView { limit, safe_minimum, ..view.clone() };
            assert!(said(&view).contains(says), "{}", said(&view));
        }
    }

    #[test]
    fn what_slows_it_and_what_was_killed() {
        let view = ContainerView { high: mib(100), oom_kills: 3, ..fixture::container() };
        let all = said(&view);
        assert!(all.contains("Above 100Mi it is slowed down (memory.high)."), "{all}");
        assert!(all.contains("waited for memory 12.34% of the time, all of it 0.56%."), "{all}");
        assert!(all.contains("The agent saw 3 OOM kills in it."), "{all}");
        let calm = ContainerView { psi_some_avg10: 0, psi_full_avg10: 0, oom_kills: 0, ..view };
        assert!(said(&calm).ends_with("Nothing in it waits for memory."), "{}", said(&calm));
    }

    #[test]
    fn what_is_in_flight_and_what_blocks_it() {
        let drift = vec!["memory.max is 64Mi, the runtime has 128Mi".into()];
        let view = ContainerView { drift, missing: "no cgroup".into(), ..fixture::container() };
        assert_eq!(
            actuation(&view, [fixture::flight()].iter(), true),
            [
                "It is being taken from 256Mi to 128Mi by policy: trial, for 3s.",
                "All actuation is paused: enforcer resume lets it go on.",
                "It has drifted: memory.max is 64Mi, the runtime has 128Mi.",
                "Its policy is auto-shrink: the next look is in 8m.",
                "Its last shrink: committed at 128Mi.",
                "Not all is known: no cgroup.",
            ]
        );
        let plain = ContainerView {
            policy: "observe".into(),
            policy_state: String::new(),
            last_verdict: String::new(),
            ..fixture::container()
        };
        assert_eq!(actuation(&plain, [].iter(), false), ["Its policy is observe."]);
    }

    #[test]
    fn no_more_terms_than_fit() {
        let floor_terms = (0..20).map(|n| (format!("t{n:02}"), Bytes::from_mib(n))).collect();
        let text = super::floor_terms(&ContainerView { floor_terms, ..fixture::container() });
        assert!(text.starts_with("t19 19Mi, t18 18Mi") && text.ends_with("t12 12Mi, ..."), "{text}");
    }
}
