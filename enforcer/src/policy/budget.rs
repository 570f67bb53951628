//! How many changes the node may have in an hour.

use super::CHANGES_PER_HOUR_MAX;
use enforcer_gate::{Instant, Micros};
use std::collections::VecDeque;

const HOUR: Micros = Micros::from_secs(3600);
/// Changes are apart by an hour's even share divided by this, or more: a burst that the hour allows is not one moment.
const CROWDING: u64 = 4;

/// The starts of changes, the latest last. Holds no more than any budget allows in an hour.
#[derive(Debug)]
pub(super) struct Budget {
    per_hour: u32,
    starts: VecDeque<Instant>,
}

/// Why no change may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spent {
    /// Before this, at least.
    Until(Instant),
    /// The budget is none.
    Never,
}

impl Budget {
    pub(super) const fn new(per_hour: u32) -> Self {
        Self { per_hour, starts: VecDeque::new() }
    }

    /// Changes the budget; what was begun counts.
    pub(super) fn set(&mut self, per_hour: u32) {
        self.per_hour = per_hour;
    }

    /// Whether a change may begin.
    pub(super) fn check(&self, now: Instant) -> Result<(), Spent> {
        let per_hour = self.per_hour.min(CHANGES_PER_HOUR_MAX) as usize;
        if per_hour == 0 {
            return Err(Spent::Never);
        }
        let spacing = HOUR.scaled(1, CROWDING * per_hour as u64);
        let nth_last = self.starts.len().checked_sub(per_hour).and_then(|at| self.starts.get(at));
        let held = [(nth_last, HOUR), (self.starts.back(), spacing)];
        // Not by comparing with the end, which saturates.
        let held = held.into_iter().filter_map(|(start, span)| start.map(|start| (*start, span)));
        let until =
            held.filter(|(start, span)| now.since(*start) < *span).map(|(start, span)| start.after(span));
        until.max().map_or(Ok(()), |until| Err(Spent::Until(until)))
    }

    /// A change begins.
    pub(super) fn take(&mut self, now: Instant) {
        if self.starts.len() >= CHANGES_PER_HOUR_MAX as usize {
            self.starts.pop_front();
        }
        let last = self.starts.back().copied().unwrap_or_default();
        self.starts.push_back(now.max(last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn at(seconds: u64) -> Instant {
        Instant::new(seconds * 1_000_000)
    }

    #[test]
    fn a_sliding_hour_and_no_crowd() {
        let mut budget = Budget::new(2);
        assert_eq!(budget.check(at(0)), Ok(()));
        budget.take(at(0));
        assert_eq!(budget.check(at(449)), Err(Spent::Until(at(450))));
        assert_eq!(budget.check(at(450)), Ok(()));
        budget.take(at(450));
        assert_eq!(budget.check(at(3599)), Err(Spent::Until(at(3600))));
        assert_eq!(budget.check(at(3600)), Ok(()));
        budget.take(at(3600));
        assert_eq!(budget.check(at(3600)), Err(Spent::Until(at(4050))), "the one at 450 still counts");
        budget.set(1);
        assert_eq!(budget.check(at(7199)), Err(Spent::Until(at(7200))));
        budget.set(0);
        assert_eq!(budget.check(at(1_000_000)), Err(Spent::Never));
    }

    #[test]
    fn no_more_is_kept_than_any_budget_needs() {
        let mut budget = Budget::new(u32::MAX);
        for second in 0..2000 {
            budget.take(at(second));
        }
        assert_eq!(budget.starts.len(), CHANGES_PER_HOUR_MAX as usize);
        assert_eq!(budget.check(at(2000)), Err(Spent::Until(at(1000 + 3600))));
    }

    #[test]
    fn at_the_end_of_time() {
        let end = Instant::new(u64::MAX);
        let mut budget = Budget::new(1);
        budget.take(end);
        assert_eq!(budget.check(end), Err(Spent::Until(end)));
    }

    proptest! {
        #[test]
        fn no_hour_has_more_than_its_budget(
            per_hour in 1_u32..2000,
            steps in prop::collection::vec(prop_oneof![0_u64..10, 0_u64..4000, Just(3600)], 1..300),
        ) {
            let mut budget = Budget::new(per_hour);
            let mut now = at(5);
            let mut starts: Vec<Instant> = Vec::new();
            for step in steps {
                now = now.after(Micros::from_secs(step));
                match budget.check(now) {
                    Ok(()) => {
                        budget.take(now);
                        starts.push(now);
                    }
                    Err(Spent::Until(until)) => {
                        prop_assert!(until > now);
                        prop_assert_eq!(budget.check(until), Ok(()), "and no sooner than that");
                    }
                    Err(Spent::Never) => prop_assert!(false, "there is a budget"),
                }
            }
            for (i, from) in starts.iter().enumerate() {
                let within = starts[i..].iter().take_while(|start| start.since(*from) < HOUR).count();
                prop_assert!(within <= per_hour as usize);
            }
        }
    }
}
