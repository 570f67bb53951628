//! Back-off: a target that failed is not tried again at once.

use crate::{Bytes, Instant, Policy, Reason};
use alloc::vec::Vec;

const ENTRIES_MAX: usize = 16;
/// The back-off doubles with each failure in a row, so often.
const DOUBLINGS_MAX: u32 = 6;
/// A trial's failure is forgotten early when the floor falls by one part in so many.
const FALL_SHARE: u64 = 16;

/// How a target failed, which decides what ends its back-off early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It was under the safe minimum. Any fall of the floor may change that, and asking harms nobody.
    Floor,
    /// It was tried and taken back. The floor must fall clearly under what it was when it was let in.
    Tried,
    /// A process was killed: a fall of the floor is what a kill leaves, so it ends nothing.
    Killed,
}

/// One target that failed.
#[derive(Debug, Clone, Copy)]
struct Entry {
    target: Bytes,
    kind: Kind,
    until: Instant,
    need: Need,
    failures: u32,
}

/// What a cgroup was seen to need.
#[derive(Debug, Clone, Copy)]
pub(super) struct Need {
    /// The floor's peak, when the decision was made.
    pub(super) peak: Bytes,
    /// The safe minimum that followed from it.
    pub(super) safe_minimum: Bytes,
}

/// The targets of one cgroup that failed lately.
#[derive(Debug, Default)]
pub(super) struct BackOffs {
    entries: Vec<Entry>,
}

impl BackOffs {
    /// Until when `target` is not tried, given what the cgroup needs now; `None`: it may be.
    pub(super) fn blocks(&self, target: Bytes, need: Need, now: Instant) -> Option<Instant> {
        let blocks = |entry: &&Entry| {
            let before = entry.need;
            let lifted = match entry.kind {
                Kind::Floor => need.safe_minimum < before.safe_minimum,
                Kind::Tried => {
                    let clearly = before.peak.saturating_sub(before.peak.scaled(1, FALL_SHARE));
                    need.peak < before.peak && need.peak <= clearly
                }
                Kind::Killed => false,
            };
            // What failed at one target fails at every lower one.
            target <= entry.target && now < entry.until && !lifted
        };
        self.entries.iter().filter(blocks).map(|entry| entry.until).max()
    }

    /// Notes a failure.
    pub(super) fn failed(&mut self, target: Bytes, kind: Kind, need: Need, policy: &Policy, now: Instant) {
        let before = self.entries.iter().filter(|e| target <= e.target).map(|e| e.failures).max();
        let failures = before.unwrap_or(0).saturating_add(1);
        let doublings = match kind {
            Kind::Floor => 0,
            Kind::Tried => (failures - 1).min(DOUBLINGS_MAX),
            Kind::Killed => DOUBLINGS_MAX,
        };
        let until = now.after(policy.back_off.scaled(1 << doublings, 1));
        // A longer memory of the same target is kept.
        let worse = |e: &Entry| e.target == target && e.kind == Kind::Killed && e.until > until;
        if self.entries.iter().any(worse) {
            return;
        }
        self.entries.retain(|entry| entry.target != target);
        if self.entries.len() >= ENTRIES_MAX
            && let Some((first, _)) = self.entries.iter().enumerate().min_by_key(|(_, entry)| entry.until)
        {
            self.entries.swap_remove(first);
        }
        self.entries.push(Entry { target, kind, until, need, failures });
    }

    /// A target went through: it and all above it are good.
    pub(super) fn succeeded(&mut self, target: Bytes) {
        self.entries.retain(|entry| entry.target < target);
    }
}

/// Whether `reason` counts against the target; `tried`: files were lowered.
pub(super) fn kind_of(reason: &Reason, tried: bool) -> Option<Kind> {
    match reason {
        Reason::BelowSafeMinimum => Some(Kind::Floor),
        Reason::OomKill { .. } if tried => Some(Kind::Killed),
        Reason::ReclaimStuck { .. }
        | Reason::StallBudget
        | Reason::BrakeLivelock
        | Reason::Growth { .. }
        | Reason::Refaults => Some(Kind::Tried),
        Reason::ProbeFailed
        | Reason::Deadline { .. }
        | Reason::Unseen { .. }
        | Reason::Io { .. }
        | Reason::OomKill { .. } => tried.then_some(Kind::Tried),
        Reason::NotAShrink { .. }
        | Reason::Frozen
        | Reason::FrozenBelow { .. }
        | Reason::PressureKiller(_)
        | Reason::BackOff { .. }
        | Reason::LimitWritten { .. }
        | Reason::Gone
        | Reason::Cancelled
        | Reason::RestorerGone => None,
    }
}
