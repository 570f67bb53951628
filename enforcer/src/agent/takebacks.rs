//! Limits that the gate has given back to a container, on their way into the specification again: each comes to one of the
//! named ends (`kube::takeback`), and what changes on the way is said. No I/O, no clock.

use super::wishes::Wish;
use crate::{
    cgroup::printable,
    kube::{
        amounts::Amounts,
        outbox::{Came, DECISIONS_MAX, Decision},
        patch::Want,
        state::{PodName, PodState},
        takeback::{Decided, Standing, TakeBack},
    },
};
use enforcer_gate::{Bytes, Limit, Micros};
use std::collections::BTreeMap;

/// A patch is tried for so long; what is held after that is left to people.
const TRIED_FOR: Micros = Micros::from_secs(600);

/// What there is to say of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    /// `pod/NAMESPACE/NAME:CONTAINER`.
    pub(super) target: String,
    pub(super) text: String,
}

#[derive(Debug)]
struct One {
    pod: PodName,
    back: TakeBack,
}

/// By the pod's uid and the container's name. As many as can wait to be patched.
#[derive(Debug, Default)]
pub(super) struct TakeBacks(BTreeMap<(String, String), One>);

impl TakeBacks {
    /// Begins one: what is to be patched; nothing where too many are under way.
    pub(super) fn begin(&mut self, wish: &Wish, limit: Bytes, now_us: u64) -> Option<Decision> {
        let key = (wish.uid.clone(), wish.container.clone());
        if self.0.len() >= DECISIONS_MAX && !self.0.contains_key(&key) {
            return None;
        }
        let (uid, container) = key.clone();
        let decided = Decided { uid, generation: wish.generation, container, limit };
        let back = TakeBack::begin(decided, now_us, TRIED_FOR);
        self.0.insert(key, One { pod: wish.pod.clone(), back });
        let limits = Amounts { memory: Some(limit), cpu: None };
        Some(Decision {
            pod: wish.pod.clone(),
            uid: wish.uid.clone(),
            generation: wish.generation,
            want: Want { container: Some(wish.container.clone()), limits },
        })
    }

    /// Pods as they are now, by uid, and the limit in force in a container of that id.
    pub(super) fn look(
        &mut self,
        pods: &BTreeMap<String, PodState>,
        kernel: impl Fn(&str) -> Option<Limit>,
        now_us: u64,
    ) -> Vec<Said> {
        let looked = |(uid, container): &(String, String), one: &mut One| {
            let pod = pods.get(uid);
            let id = pod.and_then(|pod| pod.container(container)).map(|found| found.id.as_str());
            one.step(container, |back| drop(back.on_pod(pod, id.and_then(&kernel), now_us)))
        };
        let said = self.0.iter_mut().filter_map(|(key, one)| looked(key, one)).collect();
        self.0.retain(|_, one| !one.is_over());
        said
    }

    /// What came of the patch.
    pub(super) fn came(&mut self, decision: &Decision, came: &Came, now_us: u64) -> Option<Said> {
        let key = (decision.uid.clone(), decision.want.container.clone()?);
        let one = self.0.get_mut(&key)?;
        let said = one.step(&key.1, |back| match came {
            Came::Of(outcome) => drop(back.on_outcome(outcome, now_us)),
            Came::Overtaken(pod) => drop(back.on_pod(pod.as_deref(), None, now_us)),
            Came::Impossible(error) => back.stuck(&error.to_string(), now_us),
            Came::GaveUp => back.stuck("the pod changed under each try", now_us),
        });
        self.0.retain(|_, one| !one.is_over());
        said
    }
}

impl One {
    /// What there is to say after a step: nothing, where it stands as before.
    fn step(&mut self, container: &str, step: impl FnOnce(&mut TakeBack)) -> Option<Said> {
        let before = said(self.back.standing());
        step(&mut self.back);
        let after = said(self.back.standing()).filter(|after| before.as_ref() != Some(after))?;
        let target = format!("pod/{}/{}:{container}", self.pod.namespace, self.pod.name);
        Some(Said { target, text: after })
    }

    fn is_over(&self) -> bool {
        matches!(self.back.standing(), Standing::Restored | Standing::Yielded { .. })
    }
}

fn said(standing: &Standing) -> Option<String> {
    match standing {
        Standing::Open => None,
        Standing::Restored => Some("restored: spec, kubelet and kernel have the old limit again".into()),
        Standing::Held { reason, given_up, .. } => {
            let end = if *given_up { "; it is tried no more" } else { "" };
            Some(format!(
                "held: the kernel has the old limit and the spec has not: {}{end}",
                printable(reason)
            ))
        }
        Standing::Yielded { manager } if manager.is_empty() => {
            Some("yielded: somebody has decided anew since, or the pod is gone".into())
        }
        Standing::Yielded { manager } => {
            Some(format!("yielded: {} has decided anew since", printable(manager)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::fixture::{condition, mib, pod, shrink};
    use serde_json::json;

    const SECOND: u64 = 1_000_000;

    fn pods(edit: impl FnOnce(&mut serde_json::Value)) -> BTreeMap<String, PodState> {
        let pod = pod(|value| {
            shrink(value, &[]);
            edit(value);
        });
        [(pod.uid.clone(), pod)].into()
    }

    /// `main` of `shop/web-1` went from 400 to 200 MiB in generation 4, and is to have 400 again.
    fn begun() -> (TakeBacks, Decision) {
        let wishes = crate::agent::wishes::wishes(&pod(|value| shrink(value, &[])));
        let mut backs = TakeBacks::default();
        let decision = backs.begin(&wishes[0], mib(400), 0).expect("there is room");
        assert_eq!((decision.generation, decision.want.limits.memory), (4, Some(mib(400))));
        (backs, decision)
    }

    fn patched(conditions: &[serde_json::Value], manager: &str) -> BTreeMap<String, PodState> {
        pods(|value| {
            value["metadata"]["generation"] = json!(5);
            value["status"]["observedGeneration"] = json!(5);
            value["spec"]["containers"][0]["resources"]["limits"]["memory"] = json!("400Mi");
            value["status"]["conditions"] = json!(conditions);
            value["metadata"]["managedFields"][2]["manager"] = json!(manager);
        })
    }

    #[test]
    fn each_end_is_said_once_and_forgotten() {
        let kernel = |_: &str| Some(Limit::Bytes(mib(400)));
        let only = |said: Vec<Said>| {
            assert!(said.iter().all(|said| said.target == "pod/shop/web-1:main"), "{said:?}");
            said.into_iter().map(|said| said.text).collect::<Vec<_>>()
        };
        let (mut backs, decision) = begun();
        assert_eq!(only(backs.look(&pods(|_| {}), kernel, SECOND)), [""; 0]);
        let after = patched(&[condition("PodResizePending", "Deferred", "no\nroom")], "enforcer");
        let pod = after.values().next().expect("one").clone();
        let came = Came::Of(crate::kube::patch::Outcome::Patched(Box::new(pod)));
        let said = backs.came(&decision, &came, 2 * SECOND).expect("it is put off");
        assert!(said.text.ends_with("the spec has not: no\\nroom"), "{said:?}");
        assert_eq!(only(backs.look(&after, kernel, 3 * SECOND)), [""; 0], "once");
        let after = patched(&[], "enforcer");
        // The kernel has another limit: not yet.
        assert_eq!(only(backs.look(&after, |_| Some(Limit::Bytes(mib(200))), 4 * SECOND)), [""; 0]);
        let said = only(backs.look(&after, kernel, 5 * SECOND));
        assert_eq!(said, ["restored: spec, kubelet and kernel have the old limit again"]);
        assert!(backs.0.is_empty());

        let (mut backs, _) = begun();
        let anew = pods(|value| {
            value["metadata"]["generation"] = json!(6);
            value["metadata"]["managedFields"][2]["manager"] = json!("vpa\u{1b}");
            value["spec"]["containers"][0]["resources"]["limits"]["memory"] = json!("150Mi");
        });
        assert_eq!(only(backs.look(&anew, kernel, SECOND)), ["yielded: vpa\\u{1b} has decided anew since"]);
        let (mut backs, decision) = begun();
        assert!(
            backs.came(&decision, &Came::Overtaken(None), SECOND).expect("gone").text.starts_with("yielded")
        );
        assert_eq!(backs.came(&decision, &Came::GaveUp, SECOND), None, "it is over");
    }

    #[test]
    fn what_is_not_taken_in_time_is_held_and_said_so() {
        let (mut backs, decision) = begun();
        let said = backs.came(&decision, &Came::GaveUp, SECOND).expect("held");
        assert!(said.text.contains("changed under each try") && !said.text.contains("no more"), "{said:?}");
        let late = TRIED_FOR.get() + SECOND;
        let said = backs.look(&pods(|_| {}), |_| None, late);
        assert!(said[0].text.ends_with("changed under each try; it is tried no more"), "{said:?}");
        assert_eq!(backs.look(&pods(|_| {}), |_| None, late + SECOND), []);
        assert_eq!(backs.look(&BTreeMap::new(), |_| None, late + SECOND).len(), 1, "the pod is gone");
    }
}
