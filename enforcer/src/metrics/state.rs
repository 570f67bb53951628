//! The figures: what has happened so far, and what was handed over last. No I/O, no clock.

use super::{
    definitions::{CONTAINERS_MAX, Metric, PODS_MAX},
    gauges::{ContainerGauges, NodeGauges, OverheadGauges},
    labels::{CALLS, Loss, NONE, OTHER, OUTCOMES, UNKNOWN},
    spread::Spread,
};
use crate::{
    cgroup::printable,
    drift::Who,
    http::Losses,
    names::Role,
    probe::{LimitKind, OomConstraint},
};
use enforcer_gate::{Micros, Reason, Verdict};
use std::collections::BTreeMap;

/// Most bytes of a name in a label; one of Kubernetes has 253 at most.
const NAME_BYTES_MAX: usize = 256;

/// The values of a metric's labels; empty ones for those that it has not.
type Labels = [&'static str; 2];

/// Everything that is told.
#[derive(Debug)]
pub(super) struct State {
    /// What has happened how often. All labels are of closed sets.
    pub(super) events: BTreeMap<Metric, BTreeMap<Labels, u64>>,
    /// How long shrinks took, by verdict.
    pub(super) durations: BTreeMap<&'static str, Spread>,
    /// By namespace, pod and container; at most [`CONTAINERS_MAX`].
    pub(super) containers: BTreeMap<[String; 3], ContainerGauges>,
    /// By namespace and pod; at most [`PODS_MAX`].
    pub(super) overheads: BTreeMap<[String; 2], OverheadGauges>,
    pub(super) node: NodeGauges,
    pub(super) connections: Losses,
    /// When the agent began, since 1970.
    pub(super) began: Micros,
}

impl State {
    /// Nothing has happened. What can is there with zero: a counter that begins at one has no increase to be seen.
    pub(super) fn new(began: Micros) -> Self {
        let mut state = Self {
            events: BTreeMap::new(),
            durations: Verdict::NAMES.iter().map(|verdict| (*verdict, Spread::default())).collect(),
            containers: BTreeMap::new(),
            overheads: BTreeMap::new(),
            node: NodeGauges::default(),
            connections: Losses::default(),
            began,
        };
        for (metric, labels) in shrinks().chain(kills()).chain(writes()).chain(others()) {
            state.add(metric, labels, 0);
        }
        state
    }

    /// So many more.
    pub(super) fn add(&mut self, metric: Metric, labels: Labels, more: u64) {
        let count = self.events.entry(metric).or_default().entry(labels).or_default();
        *count = count.saturating_add(more);
    }

    pub(super) fn dropped(&mut self, loss: Loss, more: u64) {
        self.add(Metric::Dropped, [loss.name(), ""], more);
    }

    /// What was lost by that name, of what is counted elsewhere.
    pub(super) fn lost_elsewhere(&self, what: &str) -> u64 {
        let connections = [
            (Loss::ConnectionRefused, self.connections.refused()),
            (Loss::ConnectionCut, self.connections.cut()),
            (Loss::ConnectionFailed, self.connections.failed()),
        ];
        let node = self.node.dropped.iter().map(|(loss, count)| (*loss, *count));
        let of_that_name = node.chain(connections).filter(|(loss, _)| loss.name() == what);
        of_that_name.fold(0, |sum: u64, (_, count)| sum.saturating_add(count))
    }

    pub(super) fn runtime_call_failed(&mut self, call: &str) {
        let call = CALLS.iter().find(|known| **known == call).unwrap_or(&OTHER);
        self.add(Metric::RuntimeErrors, [call, ""], 1);
    }

    pub(super) fn shrink_ended(&mut self, verdict: &Verdict, took: Micros) {
        let reason = verdict.reason().map_or(NONE, Reason::name);
        self.add(Metric::Verdicts, [verdict.name(), reason], 1);
        self.durations.entry(verdict.name()).or_default().observe(took);
    }

    /// Those that there is no room for, and those whose names another has, are counted and left out.
    pub(super) fn set_containers(&mut self, all: Vec<ContainerGauges>) {
        self.containers.clear();
        let mut left_out = 0;
        for one in all {
            let key = [&one.namespace, &one.pod, &one.container].map(|text| name(text));
            if self.containers.len() >= CONTAINERS_MAX || self.containers.contains_key(&key) {
                left_out += 1;
            } else {
                self.containers.insert(key, one);
            }
        }
        self.dropped(Loss::ContainerSeries, left_out);
    }
}

impl State {
    /// As [`Self::set_containers`]; a pod of whose name there are two sandboxes has the one of the first.
    pub(super) fn set_overheads(&mut self, all: Vec<OverheadGauges>) {
        self.overheads.clear();
        for one in all {
            let key = [&one.namespace, &one.pod].map(|text| name(text));
            if self.overheads.len() < PODS_MAX {
                self.overheads.entry(key).or_insert(one);
            }
        }
    }
}

fn shrinks() -> impl Iterator<Item = (Metric, Labels)> {
    let plain = [Verdict::Committed, Verdict::Feasible].map(|verdict| verdict.name());
    Verdict::NAMES.iter().flat_map(move |verdict| {
        let reasons = if plain.contains(verdict) { &[NONE] } else { Reason::NAMES };
        reasons.iter().map(|reason| (Metric::Verdicts, [*verdict, *reason]))
    })
}

/// A cgroup's limit is hit under the constraint of that name, the node's memory runs out under any other.
fn kills() -> impl Iterator<Item = (Metric, Labels)> {
    OomConstraint::ALL.iter().flat_map(|constraint| {
        let by_cgroup = *constraint == OomConstraint::Memcg;
        let owners = Role::ALL.iter().filter(move |role| (**role != Role::Node) == by_cgroup);
        let owners = owners.map(|role| role.name()).chain([UNKNOWN]);
        owners.map(|owner| (Metric::OomKills, [owner, constraint.name()]))
    })
}

fn writes() -> impl Iterator<Item = (Metric, Labels)> {
    LimitKind::ALL.iter().map(|file| file.name()).flat_map(|file| {
        let writes = Who::ALL.iter().map(move |who| (Metric::LimitWrites, [file, who.name()]));
        // A write of our own is no drift.
        let drifts = [Who::Systemd, Who::Other].map(|who| (Metric::Drifts, [file, who.name()]));
        let mends = OUTCOMES.map(|outcome| (Metric::Mends, [file, outcome]));
        writes.chain(drifts).chain(mends)
    })
}

fn others() -> impl Iterator<Item = (Metric, Labels)> {
    let calls = CALLS.map(|call| (Metric::RuntimeErrors, [call, ""]));
    let reloads = OUTCOMES.map(|outcome| (Metric::Reloads, [outcome, ""]));
    let losses = Loss::all().map(|loss| (Metric::Dropped, [loss.name(), ""]));
    calls.into_iter().chain(reloads).chain(losses)
}

/// A name of others as a label has it: printable, and not too long.
fn name(text: &str) -> String {
    const MARK: &str = "...";
    let mut text = printable(text);
    if text.len() > NAME_BYTES_MAX {
        text.truncate(text.floor_char_boundary(NAME_BYTES_MAX - MARK.len()));
        text.push_str(MARK);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_are_printable_and_bounded() {
        assert_eq!(name("web-0"), "web-0");
        assert_eq!(name("a\nb\u{1b}\u{202e}\u{fffd}"), "a\\nb\\u{1b}\\u{202e}\u{fffd}");
        let long = name(&"é".repeat(500));
        assert!(long.len() <= NAME_BYTES_MAX && long.ends_with("é..."), "{long}");
        assert_eq!(name(&long), long);
    }

    #[test]
    fn what_there_is_no_room_for_is_counted() {
        let mut state = State::new(Micros::ZERO);
        let one = |number: usize| ContainerGauges { pod: number.to_string(), ..ContainerGauges::default() };
        let mut all: Vec<_> = (0..CONTAINERS_MAX + 3).map(one).collect();
        all.push(one(0));
        state.set_containers(all);
        let lost = |state: &State| state.events[&Metric::Dropped][&[Loss::ContainerSeries.name(), ""]];
        assert_eq!((state.containers.len(), lost(&state)), (CONTAINERS_MAX, 4));
        state.set_containers(vec![one(1), one(1)]);
        assert_eq!((state.containers.len(), lost(&state)), (1, 5));
        state.set_containers(Vec::new());
        assert_eq!((state.containers.len(), lost(&state)), (0, 5));
    }

    #[test]
    fn a_call_without_a_name_of_its_own_is_another() {
        let mut state = State::new(Micros::ZERO);
        state.runtime_call_failed("Version");
        state.runtime_call_failed("Nonsense");
        let errors = &state.events[&Metric::RuntimeErrors];
        assert_eq!((errors[&["Version", ""]], errors[&[OTHER, ""]]), (1, 1));
        assert_eq!(errors.len(), CALLS.len());
    }
}
