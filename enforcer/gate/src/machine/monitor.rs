//! What ends a shrink while the brake is on, and how stall is measured.

use super::run::Run;
use crate::{
    Bytes, Instant, Margins, Micros, PAGE_SIZE, Policy, Reason, StallAdded,
    history::{Counters, Point},
};

/// `high` events must rise for this long without reclaim keeping up. With readings half a second apart
/// at most, the breaker acts within a second.
const LIVELOCK_AFTER: Micros = Micros::from_millis(400);
/// Refaults count when a second brings this share of the target back...
const REFAULT_SHARE: u64 = 16;
/// ...and where PSI can't tell what they cost, this share.
const REFAULT_SHARE_BLIND: u64 = 4;

/// Stall before the shrink: the rate that a workload has without us.
#[derive(Debug, Clone, Copy)]
pub(super) struct Baseline {
    pub(super) from: Point,
    some_per_second: Micros,
    full_per_second: Micros,
}

impl Baseline {
    /// Taken when observing ends, from what the observing window saw.
    pub(super) fn take(first: &Point, last: &Point, policy: &Policy) -> Self {
        let span = last.at.since(first.at);
        let risen = last.counters.since(&first.counters);
        // A workload that stalls all the time anyway must not get a budget without end.
        let rate = |stall: Micros| {
            let rate = if span == Micros::ZERO { Micros::ZERO } else { stall.scaled(1_000_000, span.get()) };
            rate.min(policy.stall.full_per_second)
        };
        Self { from: *last, some_per_second: rate(risen.stall_some), full_per_second: rate(risen.stall_full) }
    }
}

/// Stall that the shrink added, from the baseline to the last reading.
pub(super) fn stall_added(base: &Baseline, second_ago: &Point, last: &Point) -> StallAdded {
    let added = |from: &Point| {
        let from = if from.at < base.from.at { &base.from } else { from };
        let span = last.at.since(from.at);
        let risen = last.counters.since(&from.counters);
        let usual = |rate: Micros| rate.scaled(span.get(), 1_000_000);
        (
            risen.stall_some.saturating_sub(usual(base.some_per_second)),
            risen.stall_full.saturating_sub(usual(base.full_per_second)),
        )
    };
    let (some_total, full_total) = added(&base.from);
    let (some_in_second, full_in_second) = added(second_ago);
    StallAdded { some_total, full_total, some_in_second, full_in_second, ..StallAdded::default() }
}

/// The breaker: since when `high` events rise while nothing progresses.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Breaker {
    since: Option<(Instant, Counters, Bytes)>,
}

impl Breaker {
    /// Takes in a reading; whether the workload is livelocked on the brake.
    fn trips(&mut self, point: &Point, brake: Bytes, early: Bytes) -> bool {
        let usage = point.floor.usage;
        let Some((since, counters, usage_then)) = self.since else {
            self.since = Some((point.at, point.counters, usage));
            return false;
        };
        let risen = point.counters.since(&counters);
        // Reclaim that keeps up frees a batch for each `high` event; a livelock less than a page.
        let keeps_up = risen.reclaimed >= Bytes::new(risen.high.saturating_mul(PAGE_SIZE));
        let below = usage < brake.saturating_sub(early);
        let fell = usage.saturating_add(early) <= usage_then;
        if risen.high == 0 || keeps_up || below || fell {
            self.since = Some((point.at, point.counters, usage));
            return false;
        }
        point.at.since(since) >= LIVELOCK_AFTER
    }
}

/// Whether the last reading ends a shrink whose brake is on.
pub(super) fn alarm(run: &mut Run, policy: &Policy) -> Option<Reason> {
    let point = run.last();
    let early = Margins::at(run.target, policy).early;
    let brake = run.brake(policy);
    if !run.holds(policy) {
        return Some(Reason::Growth { floor: point.floor.bytes });
    }
    if run.breaker.trips(&point, brake, early) {
        return Some(Reason::BrakeLivelock);
    }
    let stall = run.stall();
    if refaults(run, &stall, policy) {
        return Some(Reason::Refaults);
    }
    stall.over(&policy.stall).then_some(Reason::StallBudget)
}

/// Whether what was reclaimed comes back faster than the workload can bear. Refaults alone say little:
/// a file larger than any limit, read round and round, refaults for ever and may not care.
fn refaults(run: &Run, stall: &StallAdded, policy: &Policy) -> bool {
    let from = run.second_ago_within_shrink();
    let risen = run.last().counters.since(&from.counters);
    let back = risen.refault_file.saturating_add(risen.refault_anon);
    if run.has_pressure {
        back > run.target.scaled(1, REFAULT_SHARE)
            && stall.some_in_second > policy.stall.full_per_second.scaled(1, 2)
    } else {
        back > run.target.scaled(1, REFAULT_SHARE_BLIND)
    }
}

#[cfg(test)]
mod tests {
    use super::{Breaker, LIVELOCK_AFTER};
    use crate::{Bytes, Counters, Floor, Instant, Micros, history::Point};

    const BRAKE: Bytes = Bytes::from_mib(100);
    const EARLY: Bytes = Bytes::from_mib(1);

    fn point(ms: u64, usage: Bytes, high: u64, reclaimed_pages: u64) -> Point {
        let floor = Floor { usage, ..Floor::default() };
        let reclaimed = Bytes::new(reclaimed_pages * 4096);
        let counters = Counters { reclaimed, high, ..Counters::default() };
        Point { at: Instant::ZERO.after(Micros::from_millis(ms)), floor, counters }
    }

    /// Whether the breaker trips over readings of (milliseconds, usage in MiB, high events, pages
    /// reclaimed); it must not before the last.
    fn trips(readings: &[(u64, u64, u64, u64)]) -> bool {
        let mut breaker = Breaker::default();
        let mut tripped = false;
        for (ms, mib, high, reclaimed) in readings {
            assert!(!tripped, "before {ms} ms");
            tripped = breaker.trips(&point(*ms, Bytes::from_mib(*mib), *high, *reclaimed), BRAKE, EARLY);
        }
        tripped
    }

    #[test]
    fn the_breaker_trips_when_nothing_progresses() {
        assert!(trips(&[(0, 100, 0, 0), (200, 101, 5, 0), (400, 101, 9, 0)]));
        assert!(trips(&[(0, 100, 0, 0), (450, 100, 1_000_000, 999_999)]));
        // One event and a long sleep in the penalty.
        assert!(trips(&[(0, 101, 0, 0), (300, 101, 1, 0), (500, 101, 1, 0)]));
        assert!(LIVELOCK_AFTER < Micros::from_millis(500), "with readings half a second apart");
    }

    #[test]
    fn the_breaker_holds_while_something_progresses() {
        // Reclaim keeps up.
        assert!(!trips(&[(0, 100, 0, 0), (450, 100, 1_000, 64_000), (900, 100, 2_000, 128_000)]));
        // The brake is not hit.
        assert!(!trips(&[(0, 100, 7, 0), (450, 100, 7, 0), (900, 100, 7, 0)]));
        // Usage is below, or falls.
        assert!(!trips(&[(0, 90, 0, 0), (450, 98, 9, 0)]));
        assert!(!trips(&[(0, 104, 0, 0), (450, 103, 9, 0), (900, 102, 18, 0)]));
        // Not for long enough: progress begins it anew.
        assert!(!trips(&[(0, 100, 0, 0), (300, 100, 5, 500), (600, 100, 9, 500)]));
    }
}
