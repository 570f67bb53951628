//! The headroom over the floor, and the safe minimum that follows.
//!
//! The brake is `memory.high` a margin below the target. What it does to an allocating task grows with
//! the square of the overage (`calculate_high_delay` in mm/memcontrol.c): with `f` = overage / high,
//! about `64 * f^2` seconds for each 256 KiB charged, nothing under 10 ms, at most 2 s. So it does
//! nothing before 1.25 % and holds a task to about 1 MiB/s at one sixteenth: a margin of a sixteenth of
//! the target is what it takes for the brake to hold before `memory.max` is hit.

use crate::{Bytes, Pages, Policy, Term};
use serde::{Deserialize, Serialize};

/// The brake lies one part in so many below the target.
const BRAKE_SHARE: u64 = 16;
/// Take-back comes one part in so many of the brake's margin before the brake.
const EARLY_SHARE: u64 = 8;
/// A shrink that was let in is not taken back for less than one part in so many of its headroom.
const DRIFT_SHARE: u64 = 8;
/// [`safe_minimum`] comes closer by three eighths at least with every step: 64 bits take fewer steps.
const FIXPOINT_STEPS_MAX: usize = 128;

/// The distances from a target at which things happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Margins {
    /// `memory.high` is the target less this while the brake is on.
    pub brake: Bytes,
    /// The floor stays this far under the brake, and reclaim aims this far under it.
    pub early: Bytes,
    /// Usage must be at most the target less this, read immediately before the limit is written. Less
    /// than `brake`, because page cache hovers at the brake and a little above.
    pub commit: Bytes,
}

impl Margins {
    /// The margins for one target.
    pub fn at(target: Bytes, policy: &Policy) -> Self {
        // Not rounded: rounding each would make the safe minimum of one target higher than the next's.
        let batch = batch(policy);
        let brake = target.scaled(1, BRAKE_SHARE).max(batch);
        Self { brake, early: brake.scaled(1, EARLY_SHARE), commit: brake.scaled(1, 2).max(batch) }
    }
}

/// The value of `memory.high` that brakes below `target`; under `target` by a page at least.
pub fn brake_for(target: Bytes, policy: &Policy) -> Bytes {
    target.saturating_sub(Margins::at(target, policy).brake).page_ceil()
}

/// Memory that may be charged and not used, or used and not yet counted, on all CPUs together.
pub(crate) fn batch(policy: &Policy) -> Bytes {
    Bytes::from(Pages::new(u64::from(policy.charge_batch_pages))).scaled(u64::from(policy.cpus), 1)
}

/// The headroom for one target, by term: the greatest, and some drift on top.
///
/// To be let in, a shrink needs all of it; to go on, all but the drift. Without that, a target just at
/// the safe minimum would be taken back for one page more of page tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Headroom {
    /// The headroom to be let in: the greatest of the terms, and `drift`.
    pub bytes: Bytes,
    /// The part that the floor may use up before the shrink is taken back.
    pub drift: Bytes,
    /// The policy's absolute minimum.
    pub minimum: Bytes,
    /// The policy's share of the target.
    pub share: Bytes,
    /// Growth that was seen, for as long as a reaction takes.
    pub growth: Bytes,
    /// Charge batches of all CPUs.
    pub batch: Bytes,
    /// The brake's margin, and the one before it.
    pub brake: Bytes,
}

impl Headroom {
    /// The headroom for `target`, where the floor was seen to grow by `growth_per_second`.
    pub fn at(target: Bytes, growth_per_second: Bytes, policy: &Policy) -> Self {
        let margins = Margins::at(target, policy);
        let minimum = policy.headroom_min;
        let share = target.scaled(u64::from(policy.headroom_permille), 1000);
        let growth = growth_per_second.scaled(policy.reaction_time.get(), 1_000_000);
        let batch = batch(policy);
        let brake = margins.brake.saturating_add(margins.early);
        let greatest = minimum.max(share).max(growth).max(batch).max(brake);
        let drift = greatest.scaled(1, DRIFT_SHARE);
        let bytes = greatest.saturating_add(drift);
        Self { bytes, drift, minimum, share, growth, batch, brake }
    }

    /// The headroom to go on: the greatest of the terms.
    pub const fn to_hold(&self) -> Bytes {
        self.bytes.saturating_sub(self.drift)
    }

    /// The terms that the greatest counts of, and the drift, in the order of a table.
    pub const fn list(&self) -> [Term; 6] {
        const fn term(name: &'static str, bytes: Bytes, meaning: &'static str) -> Term {
            Term { name, bytes, meaning }
        }
        [
            term("minimum", self.minimum, "the policy's absolute minimum"),
            term("share", self.share, "the policy's share of the target"),
            term("growth", self.growth, "growth seen, for as long as a reaction takes"),
            term("batch", self.batch, "charge batches of all CPUs"),
            term("brake", self.brake, "room for memory.high to bite in"),
            term("drift", self.drift, "on top of the greatest: an eighth, to drift within"),
        ]
    }
}

/// Whether a shrink to `target` is let in: `peak` and all of the headroom fit.
pub fn admits(target: Bytes, peak: Bytes, growth_per_second: Bytes, policy: &Policy) -> bool {
    peak.saturating_add(Headroom::at(target, growth_per_second, policy).bytes) <= target
}

/// Whether a shrink to `target` may go on: `peak` and the headroom without its drift fit.
pub fn holds(target: Bytes, peak: Bytes, growth_per_second: Bytes, policy: &Policy) -> bool {
    peak.saturating_add(Headroom::at(target, growth_per_second, policy).to_hold()) <= target
}

/// The lowest target, in whole pages, that is let in; the highest whole page where none is.
pub fn safe_minimum(peak: Bytes, growth_per_second: Bytes, policy: &Policy) -> Bytes {
    // Headroom grows with the target, more slowly than the target: from below, this meets the lowest.
    let mut target = peak.page_ceil();
    for _ in 0..FIXPOINT_STEPS_MAX {
        let headroom = Headroom::at(target, growth_per_second, policy).bytes;
        let next = peak.saturating_add(headroom).page_ceil();
        if next == target {
            break;
        }
        target = next;
    }
    target
}
