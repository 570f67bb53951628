//! Which limit is lowered, to what, and when.

use super::{
    Decision, Ended, Fault, Mode, Rules, Seen, Slot, Why,
    budget::{Budget, Spent},
    track::Track,
};
use enforcer_gate::{Bytes, Instant, Limit};
use std::collections::BTreeMap;

/// Containers that are kept in mind. Those over it are left alone, and counted.
pub const TRACKED_MAX: usize = 8192;

/// What was done and what was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Changes that were begun.
    pub begun: u64,
    /// Looks at containers that were left alone because [`TRACKED_MAX`] others are kept in mind.
    pub untracked: u64,
    /// Changes whose end nobody told.
    pub lost: u64,
}

/// The schedule of a node.
#[derive(Debug)]
pub struct Scheduler {
    tracks: BTreeMap<Slot, Track>,
    budget: Budget,
    counters: Counters,
}

impl Scheduler {
    /// A schedule with so many changes in any hour.
    pub const fn new(changes_per_hour: u32) -> Self {
        let counters = Counters { begun: 0, untracked: 0, lost: 0 };
        Self { tracks: BTreeMap::new(), budget: Budget::new(changes_per_hour), counters }
    }

    /// Sets how many changes there may be in any hour. What was begun counts.
    pub fn set_changes_per_hour(&mut self, changes_per_hour: u32) {
        self.budget.set(changes_per_hour);
    }

    /// Takes in how a container is, and says what is to be done with it. To be asked at every reading.
    pub fn consider(&mut self, now: Instant, slot: &Slot, rules: &Rules, seen: &Seen) -> Decision {
        let refused = match rules.mode {
            _ if matches!(rules.fault, Some(Fault::LeftOut(_))) => Some(Why::LeftOut),
            _ if rules.fault.is_some() => Some(Why::Fault),
            Mode::Observe => Some(Why::Observe),
            Mode::Guard => Some(Why::Guard),
            Mode::AutoShrink => None,
        };
        if let Some(why) = refused {
            return Decision::Blocked { why };
        }
        let pod_busy = seen.pod_busy || self.is_pod_busy(slot);
        let Some(track) = self.track(now, slot, rules, seen) else {
            self.counters.untracked = self.counters.untracked.saturating_add(1);
            return Decision::Blocked { why: Why::TooMany };
        };
        let lost = track.see(now, rules, seen);
        let blocked = blocked(track, rules, seen, pod_busy);
        self.counters.lost = self.counters.lost.saturating_add(u64::from(lost));
        match blocked {
            Some(why) => Decision::Blocked { why },
            None => self.decide(now, slot),
        }
    }

    fn decide(&mut self, now: Instant, slot: &Slot) -> Decision {
        let Some(track) = self.tracks.get_mut(slot) else {
            return Decision::Blocked { why: Why::TooMany };
        };
        if now < track.due() {
            return Decision::Wait { until: track.due(), why: track.why(now) };
        }
        let target = match track.target(now) {
            Ok(target) => target,
            Err(why @ (Why::NoLimit | Why::CeilingTooLow | Why::Unread)) => return Decision::Blocked { why },
            Err(why) => {
                track.pass(now, why);
                return Decision::Wait { until: track.due(), why };
            }
        };
        match self.budget.check(now) {
            Err(Spent::Until(until)) => Decision::Wait { until, why: Why::Budget },
            Err(Spent::Never) => Decision::Blocked { why: Why::NoBudget },
            Ok(()) => {
                self.budget.take(now);
                self.counters.begun = self.counters.begun.saturating_add(1);
                track.start(now, target);
                Decision::Shrink { target, why: Why::Gain }
            }
        }
    }

    /// An attempt to change that container ended. Attempts that others made are told as well.
    pub fn ended(&mut self, now: Instant, slot: &Slot, ended: Ended) {
        if let Some(track) = self.tracks.get_mut(slot) {
            track.ended(now, ended);
        }
    }

    /// A process of that container was killed for want of memory.
    pub fn oom_killed(&mut self, now: Instant, slot: &Slot) {
        if let Some(track) = self.tracks.get_mut(slot) {
            track.oom_killed(now);
        }
    }

    /// The slot is gone, not just the container in it.
    pub fn gone(&mut self, slot: &Slot) {
        self.tracks.remove(slot);
    }

    /// The pod of that UID is gone.
    pub fn pod_gone(&mut self, pod: &str) {
        let gone: Vec<Slot> = self.of_pod(pod).map(|(slot, _)| slot.clone()).collect();
        for slot in gone {
            self.tracks.remove(&slot);
        }
    }

    /// When a turn comes next, later than now; `None` where none does. What is due already waits for something else
    /// than time, or for being asked.
    pub fn next_due(&self, now: Instant) -> Option<Instant> {
        let budget = match self.budget.check(now) {
            Ok(()) => now,
            Err(Spent::Until(until)) => until,
            Err(Spent::Never) => return None,
        };
        let dues = self.tracks.values().filter(|track| !track.is_in_flight()).map(Track::due);
        dues.map(|due| due.max(budget)).filter(|due| *due > now).min()
    }

    /// Containers that are kept in mind.
    pub fn tracked(&self) -> usize {
        self.tracks.len()
    }

    /// What was done and what was lost.
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    fn track(&mut self, now: Instant, slot: &Slot, rules: &Rules, seen: &Seen) -> Option<&mut Track> {
        if !self.tracks.contains_key(slot) {
            if self.tracks.len() >= TRACKED_MAX {
                return None;
            }
            self.tracks.insert(slot.clone(), Track::new(now, phase(slot), rules, seen));
        }
        self.tracks.get_mut(slot)
    }

    fn is_pod_busy(&self, slot: &Slot) -> bool {
        self.of_pod(&slot.pod).any(|(other, track)| other != slot && track.is_in_flight())
    }

    fn of_pod(&self, pod: &str) -> impl Iterator<Item = (&Slot, &Track)> {
        let first = Slot { pod: pod.to_owned(), container: String::new() };
        self.tracks.range(first..).take_while(move |(slot, _)| slot.pod == pod)
    }
}

fn blocked(track: &Track, rules: &Rules, seen: &Seen, pod_busy: bool) -> Option<Why> {
    if seen.paused {
        Some(Why::Paused)
    } else if seen.in_flight || track.is_in_flight() {
        Some(Why::InFlight)
    } else if pod_busy {
        Some(Why::PodBusy)
    } else if seen.limit == Limit::Max && rules.ceiling == Limit::Max {
        Some(Why::NoLimit)
    } else if seen.safe_minimum.is_none() {
        Some(Why::Unread)
    } else if seen.usage == Bytes::ZERO {
        Some(Why::Empty)
    } else {
        None
    }
}

/// Where in an interval a slot's turn is, as a share of 2^32: always the same, and spread.
fn phase(slot: &Slot) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(slot.pod.as_bytes());
    crc.update(&[0]);
    crc.update(slot.container.as_bytes());
    crc.finalize()
}
