//! Counting what became of each shrink, and judging a gate by it.

use crate::stats::Spread;
use serde::Serialize;

/// A shrink counts as feasible from this multiple of the true minimum.
pub(crate) const FEASIBLE: f64 = 1.25;
/// Share of feasible shrinks that a useful gate accepts.
pub(crate) const ACCEPTED_AIM: f64 = 0.95;

/// One shrink and what became of it.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "facts that may hold in any combination")]
pub(crate) struct Shrink {
    /// Limit asked for over the true minimum.
    pub(crate) over_true_minimum: f64,
    /// The new limit was put in force for good.
    pub(crate) accepted: bool,
    /// Somebody died before the answer was given.
    pub(crate) killed_in_window: bool,
    /// Somebody died afterwards, while the new limit was in force.
    pub(crate) killed_later: bool,
    /// The files did not hold what the answer says.
    pub(crate) left_wrong: bool,
    /// Refused or taken back because this machine did not get to look in time: it says nothing about the judgement.
    pub(crate) unseen: bool,
    /// Safe minimum that was named, over the true minimum.
    pub(crate) safe_over_true: Option<f64>,
}

/// What became of many shrinks done in one way.
#[derive(Debug, Default, Clone, Serialize)]
pub(crate) struct Tally {
    pub(crate) shrinks: usize,
    pub(crate) feasible: usize,
    pub(crate) feasible_accepted: usize,
    pub(crate) feasible_unseen: usize,
    pub(crate) accepted: usize,
    /// Refused although the true minimum fits.
    pub(crate) false_refusals: usize,
    pub(crate) kills_in_window: usize,
    pub(crate) kills_later: usize,
    pub(crate) left_wrong: usize,
    #[serde(skip)]
    safe_over_true: Vec<f64>,
}

impl Tally {
    pub(crate) fn add(&mut self, shrink: &Shrink) {
        let feasible = shrink.over_true_minimum >= FEASIBLE;
        self.shrinks += 1;
        self.feasible += usize::from(feasible);
        self.feasible_accepted += usize::from(feasible && shrink.accepted);
        self.feasible_unseen += usize::from(feasible && shrink.unseen);
        self.accepted += usize::from(shrink.accepted);
        self.false_refusals += usize::from(!shrink.accepted && shrink.over_true_minimum >= 1.0);
        self.kills_in_window += usize::from(shrink.killed_in_window);
        self.kills_later += usize::from(shrink.killed_later);
        self.left_wrong += usize::from(shrink.left_wrong);
        self.safe_over_true.extend(shrink.safe_over_true);
    }

    /// Joins another tally to this one.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.shrinks += other.shrinks;
        self.feasible += other.feasible;
        self.feasible_accepted += other.feasible_accepted;
        self.feasible_unseen += other.feasible_unseen;
        self.accepted += other.accepted;
        self.false_refusals += other.false_refusals;
        self.kills_in_window += other.kills_in_window;
        self.kills_later += other.kills_later;
        self.left_wrong += other.left_wrong;
        self.safe_over_true.extend(&other.safe_over_true);
    }

    /// Feasible shrinks but for those that the machine was too slow for.
    fn feasible_seen(&self) -> usize {
        self.feasible - self.feasible_unseen
    }

    pub(crate) fn safe_over_true(&self) -> Option<Spread> {
        Spread::of(&self.safe_over_true)
    }

    /// Every demand that this way of shrinking does not meet. Refusing everything fails, and so does
    /// allowing everything.
    ///
    /// `accepted_aim` is the share that must be accepted of the feasible shrinks that the machine let the gate look at.
    pub(crate) fn faults(&self, accepted_aim: f64) -> Vec<String> {
        let mut faults = Vec::new();
        if self.shrinks == 0 {
            faults.push("no shrink was made".into());
        }
        if self.kills_in_window > 0 {
            faults.push(format!("{} kills inside the window", self.kills_in_window));
        }
        if self.left_wrong > 0 {
            faults.push(format!("{} limits left wrong", self.left_wrong));
        }
        #[expect(clippy::cast_precision_loss, reason = "counts of shrinks are far below 2^52")]
        let share = self.feasible_accepted as f64 / self.feasible_seen().max(1) as f64;
        if self.feasible_seen() == 0 {
            faults.push(format!("no feasible shrink was judged in time ({} were not)", self.feasible_unseen));
        } else if share < accepted_aim {
            faults.push(format!(
                "{} of {} feasible shrinks accepted, aim {:.0} %",
                self.feasible_accepted,
                self.feasible_seen(),
                accepted_aim * 100.0
            ));
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A population in which half of the targets can be met.
    fn answered_by(gate: impl Fn(f64) -> bool) -> Tally {
        let mut tally = Tally::default();
        for percent in 50..200_u32 {
            let over = f64::from(percent) / 100.0;
            let accepted = gate(over);
            tally.add(&Shrink {
                over_true_minimum: over,
                accepted,
                killed_in_window: accepted && over < 1.0,
                killed_later: false,
                left_wrong: false,
                unseen: false,
                safe_over_true: None,
            });
        }
        tally
    }

    #[test]
    fn what_the_machine_was_too_slow_for_is_no_refusal_and_no_excuse() {
        let of = |unseen, accepted| {
            let mut tally = Tally::default();
            for (unseen, accepted) in [(unseen, false), (false, accepted)] {
                tally.add(&Shrink {
                    over_true_minimum: 2.0,
                    accepted,
                    killed_in_window: false,
                    killed_later: false,
                    left_wrong: false,
                    unseen,
                    safe_over_true: None,
                });
            }
            tally.faults(ACCEPTED_AIM)
        };
        assert_eq!(of(true, true), Vec::<String>::new());
        assert_eq!(of(true, false).len(), 1, "a refusal beside it");
        assert_eq!(of(false, true).len(), 1, "one of two refused");
        let mut all = Tally::default();
        (all.shrinks, all.feasible, all.feasible_unseen) = (3, 3, 3);
        assert_eq!(all.faults(ACCEPTED_AIM).len(), 1, "nothing was judged");
    }

    #[test]
    fn constant_answers_fail_and_a_good_gate_passes() {
        assert!(!answered_by(|_| false).faults(ACCEPTED_AIM).is_empty(), "refusing everything must fail");
        assert!(!answered_by(|_| true).faults(ACCEPTED_AIM).is_empty(), "allowing everything must fail");
        assert_eq!(answered_by(|over| over >= 1.1).faults(ACCEPTED_AIM), Vec::<String>::new());
    }

    #[test]
    fn nothing_done_is_a_fault() {
        assert_eq!(Tally::default().faults(ACCEPTED_AIM).len(), 2);
    }
}
