//! How a shrink ends, and what is remembered of it.

use super::{
    Gate,
    back_off::kind_of,
    evidence,
    restoring::Restoring,
    run::Run,
    stage::{Stage, Step},
};
use crate::{Instant, Reason, Verdict};

impl Gate {
    /// How a shrink ends that can't go on; `None` where it is on its way back already.
    pub(super) fn way_back(run: &Run, reason: Reason) -> Option<Step> {
        if reason == Reason::Gone {
            return Some(Step::Finish(Verdict::Failed(reason)));
        }
        match &run.stage {
            Stage::Restoring(restoring) if restoring.is_roll_back() => return None,
            Stage::Observing | Stage::Reclaiming(_) if !run.max_written => {
                return Some(Step::Finish(Verdict::Refused(reason)));
            }
            Stage::Observing
            | Stage::Reclaiming(_)
            | Stage::Trial(_)
            | Stage::Committing(_)
            | Stage::Watching(_)
            | Stage::Restoring(_) => {}
        }
        let high = run.high_written.and(run.found).map(|found| found.high);
        // Whoever stops the gate does not undo what another has done by its own will.
        let is_left = run.taken && reason == Reason::Cancelled;
        let found = run.found.filter(|_| run.max_written && !is_left);
        let max = found.map(|found| found.max);
        let verdict = if is_left { Verdict::Refused(reason) } else { Verdict::RolledBack(reason) };
        Some(if high.is_some() || max.is_some() {
            Step::Go(Stage::Restoring(Restoring::new(verdict, high, max)))
        } else {
            Step::Finish(verdict)
        })
    }

    /// What was committed has been put back after the end.
    pub(super) fn undone(&mut self) {
        let ended = self.certificate.as_mut().filter(|_| self.run.is_none());
        if let Some(certificate) = ended.filter(|ended| ended.verdict == Verdict::Committed) {
            certificate.verdict = Verdict::RolledBack(Reason::RestorerGone);
        }
    }

    /// Over: keeps the evidence, and what failed as back-off.
    pub(super) fn finish(&mut self, verdict: Verdict, now: Instant) {
        let Some(mut run) = self.run.take() else { return };
        self.flight.clear_waiting();
        run.close_state(now);
        let need = run.accepted.or(run.need(&self.policy));
        match &verdict {
            Verdict::Committed => self.back_offs.succeeded(run.target),
            Verdict::Refused(reason) | Verdict::RolledBack(reason) if !run.request.dry_run => {
                let tried = matches!(verdict, Verdict::RolledBack(_));
                if let (Some(kind), Some(need)) = (kind_of(reason, tried), need) {
                    self.back_offs.failed(run.target, kind, need, &self.policy, now);
                }
            }
            Verdict::Feasible | Verdict::Refused(_) | Verdict::RolledBack(_) | Verdict::Failed(_) => {}
        }
        self.certificate = Some(evidence::certificate(run, verdict, &self.policy));
    }
}
