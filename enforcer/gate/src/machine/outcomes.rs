//! What the outcome of a command leads to.

use super::{
    Gate,
    committing::Committing,
    flight::Slot,
    stage::{Stage, Step, Window},
};
use crate::{Action, Instant, LimitFile, OutcomeKind, Reason, Sample, Verdict, text::escaped};
use alloc::format;

const WHAT_BYTES_MAX: usize = 200;

impl Gate {
    /// What follows from an outcome of this shrink's command; `None` where only time has to pass.
    pub(super) fn answered(&mut self, slot: &Slot, kind: &OutcomeKind, now: Instant) -> Option<Step> {
        let run = self.run.as_mut()?;
        Some(match kind {
            OutcomeKind::Sampled(sample) => self.sampled(slot, sample, now),
            OutcomeKind::Reclaimed { took, partial } => match &mut run.stage {
                Stage::Reclaiming(reclaiming) => reclaiming.reclaimed(*took, *partial, now),
                Stage::Committing(_) => Committing::reclaimed(now),
                Stage::Observing | Stage::Trial(_) | Stage::Watching(_) | Stage::Restoring(_) => {
                    unexpected(slot)
                }
            },
            OutcomeKind::Done => self.done(slot, now),
            OutcomeKind::UsageTooHigh { usage } => {
                match core::mem::replace(&mut run.stage, Stage::Observing) {
                    Stage::Committing(mut committing) => {
                        let step = committing.too_high(run, *usage, &self.policy);
                        run.stage = Stage::Committing(committing);
                        step
                    }
                    other @ (Stage::Observing
                    | Stage::Reclaiming(_)
                    | Stage::Trial(_)
                    | Stage::Watching(_)
                    | Stage::Restoring(_)) => {
                        run.stage = other;
                        unexpected(slot)
                    }
                }
            }
            OutcomeKind::Superseded { file, found } => match &run.stage {
                Stage::Restoring(restoring) => {
                    let as_found = match file {
                        LimitFile::High => run.found.map(|f| f.high),
                        LimitFile::Max => run.found.map(|f| f.max),
                    };
                    if as_found != Some(*found) {
                        let name = file.name();
                        run.notes.add(format!("{name} held {found}, not ours: it was left"));
                    }
                    Step::Finish(restoring.goal.clone())
                }
                Stage::Observing
                | Stage::Reclaiming(_)
                | Stage::Trial(_)
                | Stage::Committing(_)
                | Stage::Watching(_) => Step::Stop(Reason::LimitWritten { file: *file, found: *found }),
            },
            OutcomeKind::Failed { what, errno } => match &mut run.stage {
                Stage::Restoring(restoring) => {
                    let again = restoring.failed(what, *errno, &self.policy, now);
                    run.wake = Some(again);
                    return None;
                }
                Stage::Observing
                | Stage::Reclaiming(_)
                | Stage::Trial(_)
                | Stage::Committing(_)
                | Stage::Watching(_) => {
                    Step::Stop(Reason::Io { what: escaped(what, WHAT_BYTES_MAX), errno: *errno })
                }
            },
            OutcomeKind::Gone => Step::Stop(Reason::Gone),
        })
    }

    fn sampled(&mut self, slot: &Slot, sample: &Sample, now: Instant) -> Step {
        let Some(run) = &mut self.run else { return unexpected(slot) };
        match slot.command.action {
            Action::Observe => {}
            Action::Reclaim { .. }
            | Action::SetBrake { .. }
            | Action::Commit { .. }
            | Action::Restore { .. } => return unexpected(slot),
        }
        run.reading_took = now.since(slot.since);
        let step = run.sampled(sample, &self.policy, now);
        match self.backed_off(&step, now) {
            Some(until) => Step::Stop(Reason::BackOff { until }),
            None => step,
        }
    }

    /// Until when the target is not tried, where back-off changes what observing would do next.
    fn backed_off(&self, step: &Step, now: Instant) -> Option<Instant> {
        let run = self.run.as_ref()?;
        let asks = match step {
            Step::Observe(_) | Step::Go(_) => true,
            Step::Stop(reason) => *reason == Reason::BelowSafeMinimum,
            Step::Finish(verdict) => *verdict == Verdict::Feasible,
            Step::Act(_) => false,
        };
        let observing = matches!(run.stage, Stage::Observing);
        let need = run.need(&self.policy)?;
        if asks && observing { self.back_offs.blocks(run.target, need, now) } else { None }
    }

    fn done(&mut self, slot: &Slot, now: Instant) -> Step {
        let Some(run) = &mut self.run else { return unexpected(slot) };
        match (&slot.command.action, &run.stage) {
            // Once more where another took it off: the window begins anew.
            (Action::SetBrake { .. }, Stage::Trial(_) | Stage::Watching(_)) => run.open_window(now),
            (Action::SetBrake { .. }, Stage::Committing(_)) => Step::Observe(now),
            (Action::Commit { .. }, Stage::Committing(_)) => Step::Go(Stage::Watching(Window::default())),
            (Action::Restore { .. }, Stage::Restoring(restoring)) => Step::Finish(restoring.goal.clone()),
            (
                Action::Observe
                | Action::Reclaim { .. }
                | Action::SetBrake { .. }
                | Action::Commit { .. }
                | Action::Restore { .. },
                _,
            ) => unexpected(slot),
        }
    }
}

/// An outcome that does not answer the command it names.
fn unexpected(slot: &Slot) -> Step {
    let what = format!("the outcome does not answer {:?}", slot.command.action);
    Step::Stop(Reason::Io { what: escaped(&what, WHAT_BYTES_MAX), errno: 0 })
}
