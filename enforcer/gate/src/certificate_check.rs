//! Working a verdict out again from its certificate.

use crate::{
    Bytes, Certificate, Floor, Headroom, Limit, Reason, State, Verdict, admits, holds, safe_minimum,
    shown::AtLeast, text::escaped,
};
use alloc::{format, string::String, vec::Vec};

const LINE_BYTES_MAX: usize = 1024;
const TERMS_SHOWN: usize = 4;
/// Less would be shown as nothing.
const TERM_SHOWN_FROM: Bytes = Bytes::new(1024 * 1024 / 10 + 1);

impl Certificate {
    /// The safe minimum, from the peak of the floor, growth and policy in this certificate; `None` where
    /// nothing was read.
    pub fn recompute(&self) -> Option<Bytes> {
        let peak = self.peak?.floor.bytes;
        Some(safe_minimum(peak, self.growth_per_second, &self.policy))
    }

    /// What in this certificate contradicts itself; nothing, where the verdict follows from the figures.
    pub fn check(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut demand = |holds: bool, fault: &str| {
            if !holds {
                faults.push(String::from(fault));
            }
        };
        demand(self.safe_minimum == self.recompute(), "the safe minimum does not follow");
        demand(
            self.safe_minimum_is_lower_bound == self.verdict.held_back(),
            "whether the safe minimum is a lower bound does not follow",
        );
        let headroom = self.peak.map(|_| Headroom::at(self.target, self.growth_per_second, &self.policy));
        demand(self.headroom == headroom, "the headroom does not follow from target and policy");
        for floor in self.floor.iter().chain(self.peak.iter().map(|peak| &peak.floor)) {
            demand(floor.adds_up(), "the floor is not what its terms add up to");
        }
        if let (Some(last), Some(peak)) = (&self.floor, &self.peak) {
            demand(last.bytes <= peak.floor.bytes, "the last floor is over the peak");
        }
        demand(self.verdict_follows(), "the verdict does not follow from the figures");
        faults
    }

    /// Whether `memory.max` stays at the target although the gate was told to stop: another has written it, and watches over
    /// it or not.
    pub fn is_left(&self) -> bool {
        self.taken && self.verdict == Verdict::Refused(Reason::Cancelled)
    }

    fn verdict_follows(&self) -> bool {
        let peak = self.peak.map(|peak| peak.floor.bytes);
        let by = |rule: fn(Bytes, Bytes, Bytes, &crate::Policy) -> bool| {
            peak.is_some_and(|peak| rule(self.target, peak, self.growth_per_second, &self.policy))
        };
        let passed = |state| self.states.iter().any(|time| time.state == state);
        // A state ends no sooner than its window.
        let whole = |state, window| {
            let took = self.states.iter().filter(|time| time.state == state).map(|time| time.took).max();
            took.is_some_and(|took| took >= window)
        };
        let tried = || self.overtaken || whole(State::Trial, self.policy.trial_window);
        let watched =
            || self.windows_skipped || (tried() && whole(State::Watching, self.policy.watch_window));
        let below = |limit: Option<Limit>| limit.is_some_and(|l| Limit::Bytes(self.target) < l);
        match &self.verdict {
            Verdict::Committed => {
                by(holds) && below(self.previous_max) && passed(State::Watching) && watched() && !self.dry_run
            }
            Verdict::Feasible => by(admits) && below(self.previous_max) && self.dry_run,
            // While reclaiming, the drift is allowed for; what is refused then is not admitted either.
            Verdict::Refused(Reason::BelowSafeMinimum) => !by(admits),
            Verdict::Refused(Reason::NotAShrink { current }) => {
                self.previous_max == Some(*current) && !below(self.previous_max)
            }
            Verdict::RolledBack(Reason::Growth { floor }) => {
                !by(holds) && self.floor.is_some_and(|last| last.bytes == *floor)
            }
            Verdict::Refused(Reason::StallBudget) | Verdict::RolledBack(Reason::StallBudget) => {
                self.stall.over(&self.policy.stall)
            }
            Verdict::RolledBack(Reason::BrakeLivelock) => self.deltas.high > 0,
            Verdict::RolledBack(_) => passed(State::Trial) || self.overtaken,
            Verdict::Refused(_) => !passed(State::Trial) || self.is_left(),
            // Something from outside: the figures neither show nor contradict it.
            Verdict::Failed(_) => true,
        }
    }

    /// The verdict in one line for an event: printable ASCII, at most 1024 bytes.
    pub fn one_line(&self) -> String {
        let mut parts = alloc::vec![format!("shrink to {} {}", self.target, self.verdict)];
        if let Some(safe) = self.safe_minimum {
            let bound = if self.safe_minimum_is_lower_bound { "at least " } else { "" };
            parts.push(format!("safe minimum {bound}{}", AtLeast(safe)));
        }
        if let Some(peak) = &self.peak {
            let floor = &peak.floor;
            parts.push(format!("floor {}{}", floor.bytes, greatest_terms(floor)));
        }
        if let Some(limit) = self.previous_max {
            parts.push(format!("limit was {limit}"));
        }
        escaped(&parts.join("; "), LINE_BYTES_MAX)
    }
}

/// The terms that make up most of a floor, greatest first.
fn greatest_terms(floor: &Floor) -> String {
    let mut terms = floor.terms.list();
    terms.sort_by_key(|term| core::cmp::Reverse(term.bytes));
    let shown: Vec<String> = terms
        .iter()
        .take(TERMS_SHOWN)
        .filter(|term| term.bytes >= TERM_SHOWN_FROM)
        .map(|term| format!("{} {}", term.name, term.bytes))
        .collect();
    if shown.is_empty() { String::new() } else { format!(" ({})", shown.join(", ")) }
}
