//! Which containers the runtime was asked about lately. No I/O.

use crate::phase::phase;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tokio::time::Instant;

/// When each is to be asked about again.
#[derive(Debug)]
pub(super) struct Asked {
    every: Duration,
    next: BTreeMap<String, Instant>,
}

impl Asked {
    /// About each at the first listing after this time.
    pub(super) fn new(every: Duration) -> Self {
        Self { every, next: BTreeMap::new() }
    }

    /// Whether to ask about it; then it is taken as asked about.
    pub(super) fn is_due(&mut self, id: &str, now: Instant) -> bool {
        let is_due = self.next.get(id).is_none_or(|next| *next <= now);
        if is_due {
            self.asked(id, now);
        }
        is_due
    }

    /// It was asked about.
    pub(super) fn asked(&mut self, id: &str, now: Instant) {
        let span = match self.next.get(id) {
            Some(_) => self.every,
            // After the first time each has a phase of its own, so that those of one start do not stay together.
            None => phase(id.as_bytes(), self.every),
        };
        self.next.insert(id.into(), now + span);
    }

    /// These are all that there are, and a listing has just asked about those that are new.
    pub(super) fn listed<'a>(&mut self, ids: impl Iterator<Item = &'a str>, now: Instant) {
        let ids: BTreeSet<_> = ids.collect();
        self.next.retain(|id, _| ids.contains(id.as_str()));
        for id in ids {
            if !self.next.contains_key(id) {
                self.asked(id, now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_each_in_its_time_and_not_about_all_at_once() {
        let (every, relist) = (Duration::from_mins(2), Duration::from_secs(30));
        let start = Instant::now();
        let mut asked = Asked::new(every);
        let ids: Vec<_> = (0..250).map(|id| id.to_string()).collect();
        asked.listed(ids.iter().map(String::as_str), start);
        let mut last: BTreeMap<_, _> = ids.iter().map(|id| (id, start)).collect();
        for round in 1..100 {
            let now = start + relist * round;
            let due: Vec<_> = ids.iter().filter(|id| asked.is_due(id, now)).collect();
            for id in &due {
                let before = last.insert(*id, now).expect("is one of them");
                assert!(now - before <= every, "{id}");
            }
            assert!(due.len() < 125, "{} of 250 at once", due.len());
        }
        assert!(last.values().all(|at| *at > start + every * 20));
        asked.listed(["7", "new"].into_iter(), start);
        assert_eq!(asked.next.keys().collect::<Vec<_>>(), ["7", "new"]);
    }

    #[test]
    fn no_time_is_always() {
        let mut asked = Asked::new(Duration::ZERO);
        let now = Instant::now();
        assert!(asked.is_due("a", now) && asked.is_due("a", now));
    }
}
