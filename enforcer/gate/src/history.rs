//! What was seen since a shrink was asked for: the peak of the floor, growth, stalls, refaults, events.

use crate::{Bytes, Floor, Instant, Micros, PAGE_SIZE, Policy, Pressure, Sample};
use alloc::collections::VecDeque;
use serde::{Deserialize, Serialize};

/// Points kept for rates: a second's worth, and some.
const POINTS_MAX: usize = 256;
/// The newest point gives way to the next while the one before it is closer than this, so points are half
/// of this apart at least.
const POINT_GAP: Micros = Micros::from_millis(8);
const SECOND: Micros = Micros::from_secs(1);

/// The counters of one reading that only ever rise, and their differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// PSI `some`.
    pub stall_some: Micros,
    /// PSI `full`.
    pub stall_full: Micros,
    /// File memory read back after it was reclaimed.
    pub refault_file: Bytes,
    /// Anonymous memory read back after it was swapped.
    pub refault_anon: Bytes,
    /// Memory that reclaim freed.
    pub reclaimed: Bytes,
    /// Throttled for going over `memory.high` (`memory.events.local`).
    pub high: u64,
    /// About to go over `memory.max` (`memory.events.local`).
    pub max: u64,
    /// `memory.max` was hit and allocation was about to fail (`memory.events.local`).
    pub oom: u64,
    /// Processes killed in this cgroup or below, whatever the limit (`memory.events`).
    pub oom_kill: u64,
}

impl Counters {
    /// The counters of one reading.
    pub fn of(sample: &Sample) -> Self {
        let pages = |n: u64| Bytes::new(n.saturating_mul(PAGE_SIZE));
        let Pressure { some_total, full_total } = sample.pressure.unwrap_or_default();
        Self {
            stall_some: some_total,
            stall_full: full_total,
            refault_file: pages(sample.stat.workingset_refault_file),
            refault_anon: pages(sample.stat.workingset_refault_anon),
            reclaimed: pages(sample.stat.pgsteal),
            high: sample.events_local.high,
            max: sample.events_local.max,
            oom: sample.events_local.oom,
            oom_kill: sample.events.oom_kill,
        }
    }

    /// How far each rose since `earlier`; zero where it did not.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            stall_some: self.stall_some.saturating_sub(earlier.stall_some),
            stall_full: self.stall_full.saturating_sub(earlier.stall_full),
            refault_file: self.refault_file.saturating_sub(earlier.refault_file),
            refault_anon: self.refault_anon.saturating_sub(earlier.refault_anon),
            reclaimed: self.reclaimed.saturating_sub(earlier.reclaimed),
            high: self.high.saturating_sub(earlier.high),
            max: self.max.saturating_sub(earlier.max),
            oom: self.oom.saturating_sub(earlier.oom),
            oom_kill: self.oom_kill.saturating_sub(earlier.oom_kill),
        }
    }
}

/// One reading, reduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Point {
    pub(crate) at: Instant,
    pub(crate) floor: Floor,
    pub(crate) counters: Counters,
}

/// The readings of one shrink, reduced to a bounded size.
#[derive(Debug, Clone)]
pub(crate) struct History {
    first: Point,
    last: Point,
    peak: Point,
    growth_per_second: Bytes,
    samples: u64,
    /// Oldest first; within the last second or so.
    points: VecDeque<Point>,
}

impl History {
    /// Begins with a first reading.
    pub(crate) fn begin(sample: &Sample, policy: &Policy, at: Instant) -> Self {
        let point = Point { at, floor: Floor::of(sample, policy), counters: Counters::of(sample) };
        let mut points = VecDeque::with_capacity(POINTS_MAX);
        points.push_back(point);
        Self { first: point, last: point, peak: point, growth_per_second: Bytes::ZERO, samples: 1, points }
    }

    /// Takes in a later reading.
    pub(crate) fn add(&mut self, sample: &Sample, policy: &Policy, at: Instant) {
        let counters = Counters::of(sample);
        let refaulted = counters.since(&self.first.counters).refault_file;
        let point = Point { at, floor: Floor::with_refaults(sample, policy, refaulted), counters };
        self.samples = self.samples.saturating_add(1);
        self.last = point;
        if point.floor.bytes >= self.peak.floor.bytes {
            self.peak = point;
        }
        self.growth_per_second = self.growth_per_second.max(self.growth_to(&point, policy.reaction_time));
        self.keep(point);
    }

    fn keep(&mut self, point: Point) {
        let newest = self.points.len().checked_sub(1);
        let before_newest = newest.and_then(|n| n.checked_sub(1)).and_then(|n| self.points.get(n));
        if before_newest.is_some_and(|kept| point.at.since(kept.at) < POINT_GAP) {
            self.points.pop_back();
        } else if self.points.len() >= POINTS_MAX {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    /// The fastest growth of the floor up to `point`, over spans of a reaction's time to a second.
    /// Shorter spans would turn one page fault into a rate.
    fn growth_to(&self, point: &Point, span_min: Micros) -> Bytes {
        let newest = self.points.back().map(|kept| kept.at);
        let rate = |kept: &Point| {
            let span = point.at.since(kept.at);
            // With readings far apart, the last one counts however old it is.
            let counts = span >= span_min && (span <= SECOND || Some(kept.at) == newest);
            let grown = point.floor.bytes.saturating_sub(kept.floor.bytes);
            if counts { grown.scaled(SECOND.get(), span.get()) } else { Bytes::ZERO }
        };
        self.points.iter().map(rate).max().unwrap_or_default()
    }

    /// The reading that the last second began with; the one before the last, where that is longer ago.
    pub(crate) fn second_ago(&self) -> &Point {
        let earlier = self.points.len().saturating_sub(1);
        let recent = |kept: &&Point| self.last.at.since(kept.at) <= SECOND;
        let before_last = || earlier.checked_sub(1).and_then(|n| self.points.get(n));
        self.points.iter().take(earlier).find(recent).or_else(before_last).unwrap_or(&self.last)
    }

    pub(crate) fn first(&self) -> &Point {
        &self.first
    }

    pub(crate) fn last(&self) -> &Point {
        &self.last
    }

    /// The reading with the highest floor.
    pub(crate) fn peak(&self) -> &Point {
        &self.peak
    }

    pub(crate) fn growth_per_second(&self) -> Bytes {
        self.growth_per_second
    }

    pub(crate) fn samples(&self) -> u64 {
        self.samples
    }

    /// Time from the first reading to the last.
    pub(crate) fn span(&self) -> Micros {
        self.last.at.since(self.first.at)
    }
}

#[cfg(test)]
mod tests {
    use super::{History, POINTS_MAX, SECOND};
    use crate::{Floor, Instant, Micros, Policy, Sample};

    fn sample(anon: u64, stall: u64) -> Sample {
        serde_json::from_value(serde_json::json!({
            "current": anon, "max": "max", "high": "max", "stat": {"anon": anon}, "events_local": {},
            "events": {}, "pressure": {"some_total": stall, "full_total": stall}, "protection": {},
            "swap": {}, "hugetlb": 0, "populated": true, "frozen": false, "ancestors": [],
        }))
        .expect("a sample")
    }

    /// However close the readings are, a second of them is kept, in bounded space.
    #[test]
    fn a_second_is_kept_whatever_the_interval() {
        for interval_us in [500, 1_000, 2_000, 4_000, 5_000, 8_000, 50_000, 400_000] {
            let policy = Policy::default();
            let mut now = Instant::ZERO;
            let mut history = History::begin(&sample(0, 0), &policy, now);
            for n in 1..=(3_000_000 / interval_us) {
                now = now.after(Micros::new(interval_us));
                // Stalled for half of the time.
                history.add(&sample(0, n * interval_us / 2), &policy, now);
                assert!(history.points.len() <= POINTS_MAX);
            }
            let span = now.since(history.second_ago().at);
            let missing = SECOND.saturating_sub(span);
            assert!(
                span <= SECOND && missing <= Micros::new(interval_us.max(8_000)),
                "{interval_us}: {span:?}"
            );
        }
    }

    #[test]
    fn growth_is_over_a_reactions_time_at_least() {
        let policy = Policy { reaction_time: Micros::from_millis(50), ..Policy::default() };
        let mib = |n: u64| n << 20;
        let grown = |steps: &[(u64, u64)]| {
            let mut history = History::begin(&sample(mib(10), 0), &policy, Instant::ZERO);
            for (ms, anon) in steps {
                history.add(&sample(mib(*anon), 0), &policy, Instant::ZERO.after(Micros::from_millis(*ms)));
            }
            history.growth_per_second().get()
        };
        assert_eq!(grown(&[(100, 10), (200, 10)]), 0);
        assert_eq!(grown(&[(100, 20)]), mib(100));
        // A fall is no growth, and does not take back what was seen.
        assert_eq!(grown(&[(100, 20), (200, 5)]), mib(100));
        // Ten MiB at once are no rate; within a reaction's time they are.
        assert_eq!(grown(&[(1, 20)]), 0);
        assert_eq!(grown(&[(1, 20), (50, 20)]), mib(200));
        // Far apart, the last reading counts.
        assert_eq!(grown(&[(5_000, 20)]), mib(2));
    }

    #[test]
    fn the_highest_floor_is_kept() {
        let policy = Policy::default();
        let mut history = History::begin(&sample(10, 0), &policy, Instant::ZERO);
        for (at, anon) in [(1, 30), (2, 20)] {
            history.add(&sample(anon, 0), &policy, Instant::new(at));
        }
        assert_eq!(history.peak().at, Instant::new(1));
        assert_eq!(history.peak().floor, Floor::of(&sample(30, 0), &policy));
        assert_eq!(history.last().floor, Floor::of(&sample(20, 0), &policy));
        assert_eq!(history.samples(), 3);
    }
}
