//! Observing: enough history for a verdict, without touching anything.

use super::{
    monitor::Baseline,
    reclaiming::Reclaiming,
    run::Run,
    stage::{Stage, Step},
};
use crate::{Instant, Limit, Policy, Reason, Verdict, text::escaped};
use alloc::format;

/// Fewer readings are no window.
const SAMPLES_MIN: u64 = 3;

impl Run {
    /// A reading came in while observing. Back-off is the gate's to judge, before this.
    pub(super) fn observed(&mut self, policy: &Policy, now: Instant) -> Step {
        let Some(found) = self.found else { return Step::Observe(now) };
        if Limit::Bytes(self.target) >= found.max {
            return Step::Stop(Reason::NotAShrink { current: found.max });
        }
        if !self.has_window(policy) {
            let end = self.observing_until(policy);
            let next = now.after(policy.sample_interval);
            return Step::Observe(if end > now { next.min(end) } else { next });
        }
        if !self.admitted(policy) {
            return Step::Stop(Reason::BelowSafeMinimum);
        }
        if let Some(killer) = self.killer().cloned() {
            if !policy.allow_pressure_killer {
                return Step::Stop(Reason::PressureKiller(killer));
            }
            let comm = escaped(&killer.comm, 64);
            let cgroup = escaped(&killer.cgroup, 120);
            self.notes.add(format!(
                "{comm} (pid {}) kills on memory pressure of {cgroup}: allowed by policy",
                killer.pid
            ));
        }
        if self.request.dry_run {
            return Step::Finish(Verdict::Feasible);
        }
        self.begin_work(policy);
        Step::Go(Stage::Reclaiming(Reclaiming::new(policy, now)))
    }

    /// Observing ends, and what is added from here on is the shrink's doing.
    pub(super) fn begin_work(&mut self, policy: &Policy) {
        if let Some(history) = &self.history {
            self.baseline = Some(Baseline::take(history.first(), history.last(), policy));
        }
        self.direct_reclaim_before = self.direct_reclaim;
        self.accepted = self.need(policy);
    }

    /// When the window is about covered, if nothing breaks it.
    pub(super) fn observing_until(&self, policy: &Policy) -> Instant {
        let first = self.history.as_ref().map(|history| history.first().at);
        let anew = self.sight.since().filter(|since| Some(*since) != first);
        anew.unwrap_or(self.entered).after(policy.observe_window)
    }

    /// Whether the window is covered. Nobody to observe: one reading says it all.
    fn has_window(&self, policy: &Policy) -> bool {
        self.sight.is_empty_throughout()
            || self.sight.since().is_some_and(|since| {
                let seen = self.last().at.since(since);
                seen >= policy.observe_window && self.sight.readings() >= SAMPLES_MIN
            })
    }
}
