//! What the agent says of a container. No I/O.

use super::book::Entry;
use crate::probe::{LimitKind, LimitValue};
use crate::{
    admin::model::ContainerView,
    cgroup::{printable, shown},
    drift::{Expected, shown as value_shown},
};
use enforcer_gate::{Bytes, Policy};
use std::collections::BTreeMap;

/// A limit that has drifted, what it holds and what it should.
pub(super) type Of = (LimitKind, LimitValue, Expected);

/// A container as people and scripts are told of it.
pub(super) fn view(entry: &Entry, policy: &Policy, mode: &str, drifted: &[Of]) -> ContainerView {
    let Entry { pod, container, reading, .. } = entry;
    let home = container.home.as_ref();
    let pod_cgroup = pod.cgroup.as_ref().map(|pod| shown(&pod.path));
    let reading = reading.as_ref();
    let sample = reading.map(|reading| &reading.sample);
    let stat = sample.map(|sample| &sample.stat);
    let missing = match (home, &entry.trouble) {
        (Err(why), _) => why.to_string(),
        (Ok(_), Some(trouble)) => printable(trouble),
        (Ok(_), None) if reading.is_none() => "it was not read yet".into(),
        (Ok(_), None) => String::new(),
    };
    ContainerView {
        namespace: pod.namespace.clone(),
        pod: pod.name.clone(),
        container: container.name.clone(),
        id: container.id.clone(),
        handler: pod.handler.clone(),
        image: container.image.clone(),
        cgroup: home.map(|home| shown(&home.scope.path)).unwrap_or_default(),
        limit_cgroup: reading.map(|reading| shown(&reading.cgroup.path)).unwrap_or_default(),
        usage: sample.map(|sample| sample.current),
        limit: sample.map(|sample| sample.max),
        high: sample.map(|sample| sample.high),
        runtime_limit: container.limits.memory,
        pod_limit: reading.zip(pod_cgroup).and_then(|(reading, path)| reading.limit_above(&path)),
        floor: reading.map(|reading| reading.floor.bytes),
        floor_terms: reading.map(|reading| terms(reading.floor.terms)).unwrap_or_default(),
        safe_minimum: entry.safe_minimum(policy),
        psi_some_avg10: reading.map_or(0, |reading| reading.psi_avg10.0),
        psi_full_avg10: reading.map_or(0, |reading| reading.psi_avg10.1),
        refaults: stat
            .map_or(0, |stat| stat.workingset_refault_file.saturating_add(stat.workingset_refault_anon)),
        oom_kills: entry.oom_kills,
        policy: mode.into(),
        policy_state: entry.policy_state.clone(),
        last_verdict: entry.last_verdict.clone(),
        drift: drifted.iter().map(drift).collect(),
        missing,
    }
}

fn terms(terms: enforcer_gate::Terms) -> BTreeMap<String, Bytes> {
    let named = terms.list().into_iter().filter(|term| term.bytes > Bytes::ZERO);
    named.map(|term| (term.name.to_owned(), term.bytes)).collect()
}

fn drift((file, value, expected): &Of) -> String {
    let expected = match expected {
        Expected::Value(expected) => value_shown(*expected).to_string(),
        Expected::Shares(shares) => format!("{shares} shares"),
    };
    format!("{} is {}, the runtime has {expected}", file.name(), value_shown(*value))
}
