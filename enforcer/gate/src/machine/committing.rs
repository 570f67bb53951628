//! Committing: `memory.max` is lowered, once usage is seen to fit with room to spare.

use super::{run::Run, stage::Step};
use crate::{Action, Bytes, Instant, Margins, PAGE_SIZE, Policy, Reason};

/// So often is the commit tried again after usage was too high right before the write.
pub(super) const RETRIES_MAX: u32 = 5;

/// What this state remembers.
#[derive(Debug, Clone, Default)]
pub(super) struct Committing {
    too_high: u32,
}

impl Committing {
    /// Asks for the write. The reading that led here raised no alarm, so floor and headroom fit.
    pub(super) fn commit(run: &Run, policy: &Policy) -> Step {
        debug_assert!(run.holds(policy), "committing under floor and headroom");
        let max = run.target;
        Step::Act(Action::Commit { max, usage_at_most: usage_at_most(max, policy) })
    }

    /// Nothing was written, for usage was too high: reclaim the excess, then try again.
    pub(super) fn too_high(&mut self, run: &mut Run, usage: Bytes, policy: &Policy) -> Step {
        run.max_written = false;
        self.too_high = self.too_high.saturating_add(1);
        if self.too_high > RETRIES_MAX {
            return Step::Stop(Reason::ReclaimStuck { usage });
        }
        let margins = Margins::at(run.target, policy);
        let goal = usage_at_most(run.target, policy).saturating_sub(margins.early);
        let bytes = usage.saturating_sub(goal).min(policy.reclaim_step);
        Step::Act(Action::Reclaim { bytes: bytes.max(Bytes::new(PAGE_SIZE)).page_ceil() })
    }

    /// The write of [`Self::too_high`] returned.
    pub(super) fn reclaimed(now: Instant) -> Step {
        Step::Observe(now)
    }
}

fn usage_at_most(target: Bytes, policy: &Policy) -> Bytes {
    target.saturating_sub(Margins::at(target, policy).commit)
}
