//! The policy of each container, and what it has the agent do.

use super::{
    book::Book,
    shrinks::{Ask, Ended, Shrinks},
};
use crate::policy::{self, Decision, Defaults, Mode, Rules, Scheduler, Seen, Slot};
use enforcer_gate::{CgroupId, Instant, Policy, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// Knows the rules, and whose turn it is.
#[derive(Debug)]
pub(super) struct Steward {
    defaults: Defaults,
    /// By container.
    rules: BTreeMap<String, (Slot, Rules)>,
    scheduler: Scheduler,
}

impl Steward {
    pub(super) fn new(defaults: Defaults) -> Self {
        Self { scheduler: Scheduler::new(defaults.changes_per_hour), defaults, rules: BTreeMap::new() }
    }

    /// Other defaults are in force from now on. What is known of each container's schedule stays.
    pub(super) fn reload(&mut self, defaults: Defaults, book: &Book) {
        self.scheduler.set_changes_per_hour(defaults.changes_per_hour);
        self.defaults = defaults;
        self.sync(book);
    }

    /// The rules of all containers that there are. A slot whose container starts anew is kept as long as its pod is.
    pub(super) fn sync(&mut self, book: &Book) {
        let before: BTreeSet<_> = self.rules.values().map(|(slot, _)| slot.pod.clone()).collect();
        self.rules = book
            .iter()
            .map(|(id, entry)| {
                let pod = &entry.pod;
                let name = &entry.container.name;
                let rules =
                    Rules::resolve(&self.defaults, &pod.namespace, &pod.labels, &pod.annotations, name);
                let slot = Slot { pod: pod.uid.clone(), container: name.clone() };
                (id.to_owned(), (slot, rules))
            })
            .collect();
        let now: BTreeSet<_> = self.rules.values().map(|(slot, _)| slot.pod.clone()).collect();
        for pod in before.difference(&now) {
            self.scheduler.pod_gone(pod);
        }
    }

    pub(super) fn mode(&self, id: &str) -> Mode {
        self.rules.get(id).map_or(Mode::Observe, |(_, rules)| rules.mode)
    }

    /// The cgroups that are to be guarded: those of pods, where they are known.
    pub(super) fn guarded(&self, book: &Book) -> BTreeSet<CgroupId> {
        let wanted = book.iter().filter(|(id, _)| self.mode(id) >= Mode::Guard);
        let cgroup = wanted.filter_map(|(_, entry)| {
            let pod = entry.pod.cgroup.as_ref().map(|pod| pod.id);
            pod.or_else(|| entry.container.home.as_ref().ok().map(|home| home.scope.id))
        });
        cgroup.collect()
    }

    pub(super) fn oom(&mut self, id: &str, now: Instant) {
        if let Some((slot, _)) = self.rules.get(id) {
            self.scheduler.oom_killed(now, slot);
        }
    }

    pub(super) fn ended(&mut self, ended: &Ended, now: Instant) {
        let how = ended.result.as_ref().map_or(policy::Ended::Failed, policy::Ended::of);
        if let Some((slot, _)) = self.rules.get(&ended.id) {
            self.scheduler.ended(now, slot, how);
        }
    }

    /// Whose turn it is, and what every other one waits for, which goes into the book.
    pub(super) fn turn(
        &mut self,
        book: &mut Book,
        shrinks: &Shrinks,
        gate: &Policy,
        now: Instant,
    ) -> Vec<Ask> {
        let mut asks: Vec<Ask> = Vec::new();
        for (id, (slot, rules)) in &self.rules {
            let Some(entry) = book.get_mut(id) else { continue };
            if let Some(fault) = &rules.fault {
                entry.policy_state = fault.to_string();
                continue;
            }
            if rules.mode < Mode::AutoShrink {
                entry.policy_state.clear();
                continue;
            }
            let sandbox = &entry.pod.sandbox;
            let Some(reading) = entry.fresh() else {
                entry.policy_state = policy::Why::Unread.to_string();
                continue;
            };
            let from = reading.limit();
            let seen = Seen {
                cgroup: reading.cgroup.id,
                limit: from,
                usage: reading.usage(),
                safe_minimum: entry.safe_minimum(gate),
                psi_some_avg10: reading.psi_avg10.0,
                in_flight: entry.in_flight,
                pod_busy: shrinks.is_busy(sandbox) || asks.iter().any(|ask| ask.sandbox == *sandbox),
                paused: false,
            };
            let decision = self.scheduler.consider(now, slot, rules, &seen);
            entry.policy_state = state(&decision, now);
            if let Decision::Shrink { target, .. } = decision {
                asks.push(Ask {
                    id: id.clone(),
                    target: entry.target(),
                    sandbox: sandbox.clone(),
                    from,
                    to: target,
                    by: "policy",
                });
            }
        }
        asks
    }
}

/// Where a container stands, in words.
fn state(decision: &Decision, now: Instant) -> String {
    match decision {
        Decision::Shrink { target, why } => format!("to {target}: {why}"),
        Decision::Wait { until, why } => format!("waits {}: {why}", until.since(now)),
        Decision::Blocked { why } => why.to_string(),
    }
}

/// A verdict in words.
pub(super) fn said(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Committed => "committed".into(),
        Verdict::Feasible => "feasible".into(),
        Verdict::Refused(reason) => format!("refused: {reason}"),
        Verdict::RolledBack(reason) => format!("taken back: {reason}"),
        Verdict::Failed(reason) => format!("failed: {reason}"),
    }
}
