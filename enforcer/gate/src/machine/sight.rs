//! What a window can vouch for: since when readings have shown the cgroup's processes, without a break.

use super::run::OBSERVE_DEADLINE;
use crate::{Instant, Micros, Policy};

/// Intervals between readings that may be missed on top of the longest that one reading takes.
const INTERVALS_MISSED_MAX: u64 = 2;

/// The unbroken stretch of readings with processes in the cgroup, up to the last reading.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sight {
    last: Option<Instant>,
    since: Option<Instant>,
    readings: u64,
    ever_populated: bool,
}

/// What a reading changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// The first reading of all, and no process.
    Empty,
    /// The first process, after readings without any.
    Populated,
    /// No process any more.
    Emptied,
    /// Nobody read for so long that what happened meanwhile is not known.
    Missed,
}

impl Sight {
    /// Takes in a reading; further than `gap_max` from the last, it begins a new stretch.
    pub(super) fn add(&mut self, populated: bool, gap_max: Option<Micros>, now: Instant) -> Option<Change> {
        let first = self.last.is_none();
        let gap = self.last.map(|last| now.since(last));
        let missed = gap_max.zip(gap).is_some_and(|(max, gap)| gap > max);
        self.last = Some(now);
        if !populated {
            self.readings = 0;
            let emptied = self.since.take().is_some();
            return if first { Some(Change::Empty) } else { emptied.then_some(Change::Emptied) };
        }
        let came = !self.ever_populated && !first;
        self.ever_populated = true;
        let broken = missed && self.since.is_some();
        if self.since.is_none() || broken {
            self.since = Some(now);
            self.readings = 0;
        }
        self.readings = self.readings.saturating_add(1);
        if came { Some(Change::Populated) } else { broken.then_some(Change::Missed) }
    }

    /// No reading has shown a process: there is nobody whom a window could show.
    pub(super) fn is_empty_throughout(&self) -> bool {
        self.last.is_some() && !self.ever_populated
    }

    /// When the stretch began; `None` while the cgroup is empty.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since
    }

    /// Readings of the stretch.
    pub(super) fn readings(&self) -> u64 {
        self.readings
    }
}

/// With the brake on, readings further apart leave a hole in what is seen: one takes no longer, or is given up.
pub(super) fn gap_max(policy: &Policy) -> Micros {
    OBSERVE_DEADLINE.saturating_add(policy.sample_interval.scaled(INTERVALS_MISSED_MAX, 1))
}
