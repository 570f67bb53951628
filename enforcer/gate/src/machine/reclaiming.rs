//! Reclaiming: usage is made to fit under the brake in paced steps, within the stall budget.

use super::{
    run::Run,
    stage::{Stage, Step, Window},
};
use crate::{Action, Bytes, Instant, Margins, Micros, PAGE_SIZE, Policy, Reason, history::Counters};
use serde::{Deserialize, Serialize};

/// The first step is this share of the policy's largest; steps double while they stall nobody.
const FIRST_STEP_SHARE: u64 = 4;
/// No step is smaller: one charge batch.
const STEP_MIN: Bytes = Bytes::new(64 * PAGE_SIZE);
/// A step may stall the workload for this share of what a second may.
const STEP_STALL_SHARE: u64 = 10;
/// So many steps in a row without a page reclaimed, and reclaim is stuck.
const STUCK_STEPS: u32 = 8;
/// So many steps in a row that begin no lower than one before: the workload refills as fast as we
/// reclaim, and only the brake can hold it.
const FLAT_STEPS: u32 = 8;
const GAP_MIN: Micros = Micros::from_millis(1);
const GAP_MAX: Micros = Micros::from_millis(200);
/// Rest after a step that reclaimed nothing, times such steps in a row: writeback needs time.
const GAP_STUCK: Micros = Micros::from_millis(20);

/// One step: a point of the cgroup's reclaimability curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReclaimStep {
    /// Bytes asked of `memory.reclaim`.
    pub asked: Bytes,
    /// How far usage fell.
    pub freed: Bytes,
    /// How long the write took.
    pub took: Micros,
    /// PSI `some` that the workload had from before the step until after it.
    pub stall: Micros,
    /// The kernel said EAGAIN: less than asked.
    pub partial: bool,
}

/// What this state remembers.
#[derive(Debug, Clone)]
pub(super) struct Reclaiming {
    step: Bytes,
    next_at: Instant,
    asked: Option<Asked>,
    stuck_steps: u32,
    flat_steps: u32,
    /// The lowest usage that a step began with.
    lowest: Bytes,
}

/// The step on its way, and then the rest after it, in which its stall still shows.
#[derive(Debug, Clone, Copy)]
struct Asked {
    bytes: Bytes,
    usage: Bytes,
    counters: Counters,
    took: Micros,
    partial: bool,
    /// How far usage had fallen right after.
    freed: Option<Bytes>,
}

impl Reclaiming {
    pub(super) fn new(policy: &Policy, now: Instant) -> Self {
        Self {
            step: policy.reclaim_step.scaled(1, FIRST_STEP_SHARE).max(STEP_MIN),
            next_at: now,
            asked: None,
            stuck_steps: 0,
            flat_steps: 0,
            lowest: Bytes::new(u64::MAX),
        }
    }

    /// The write returned.
    pub(super) fn reclaimed(&mut self, took: Micros, partial: bool, now: Instant) -> Step {
        if let Some(asked) = &mut self.asked {
            asked.took = took;
            asked.partial = partial;
        }
        let writeback = GAP_STUCK.scaled(self.stuck_steps.into(), 1);
        self.next_at = now.after(took.max(writeback).clamp(GAP_MIN, GAP_MAX));
        Step::Observe(now)
    }

    /// A reading came in.
    pub(super) fn sampled(&mut self, run: &mut Run, policy: &Policy, now: Instant) -> Step {
        let point = run.last();
        let usage = point.floor.usage;
        if let Some(asked) = &mut self.asked {
            asked.freed.get_or_insert(asked.usage.saturating_sub(usage));
        }
        let brake = run.brake(policy);
        let holds = run.holds(policy);
        let over = run.stall().over(&policy.stall);
        let ends = !holds || over || usage <= brake || self.flat_steps >= FLAT_STEPS;
        if (ends || now >= self.next_at)
            && let Some(asked) = self.asked.take()
        {
            self.learn(&asked, &point.counters, run, policy, now);
        }
        if !holds {
            return Step::Stop(Reason::BelowSafeMinimum);
        }
        if over {
            return Step::Stop(Reason::StallBudget);
        }
        if usage <= brake || self.flat_steps >= FLAT_STEPS {
            return Step::Go(Stage::Trial(Window::default()));
        }
        if self.stuck_steps >= STUCK_STEPS {
            return Step::Stop(Reason::ReclaimStuck { usage });
        }
        if now < self.next_at {
            return Step::Observe(self.next_at);
        }
        // A little below the brake, so that it does not bite at once.
        let goal = brake.saturating_sub(Margins::at(run.target, policy).early);
        let bytes = usage.saturating_sub(goal).min(self.step).max(Bytes::new(PAGE_SIZE)).page_ceil();
        if usage.saturating_add(bytes.scaled(1, 8)) <= self.lowest {
            self.lowest = usage;
            self.flat_steps = 0;
        } else if self.stuck_steps == 0 {
            self.flat_steps = self.flat_steps.saturating_add(1);
        }
        self.asked = Some(Asked {
            bytes,
            usage,
            counters: point.counters,
            took: Micros::ZERO,
            partial: false,
            freed: None,
        });
        Step::Act(Action::Reclaim { bytes })
    }

    /// Notes what a step did, and sizes and paces the next by it.
    fn learn(&mut self, asked: &Asked, counters: &Counters, run: &mut Run, policy: &Policy, now: Instant) {
        let risen = counters.since(&asked.counters);
        let freed = asked.freed.unwrap_or_default();
        let stall = risen.stall_some;
        run.curve.add(ReclaimStep {
            asked: asked.bytes,
            freed,
            took: asked.took,
            stall,
            partial: asked.partial,
        });

        let stall_max = policy.stall.full_per_second.scaled(1, STEP_STALL_SHARE);
        if stall > stall_max {
            self.step = self.step.scaled(1, 2).max(STEP_MIN);
        } else if stall <= stall_max.scaled(1, 4) {
            self.step = self.step.scaled(2, 1).min(policy.reclaim_step);
        }
        let stuck = risen.reclaimed == Bytes::ZERO && freed == Bytes::ZERO;
        self.stuck_steps = if stuck { self.stuck_steps.saturating_add(1) } else { 0 };
        self.next_at = now.after(stall.scaled(4, 1).min(GAP_MAX));
    }
}
