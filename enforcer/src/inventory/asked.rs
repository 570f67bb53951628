//! Which containers the runtime was asked about lately. No I/O.

use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;

/// When each is to be asked about again.
#[derive(Debug)]
pub(super) struct Asked {
    every: Duration,
    next: BTreeMap<String, Instant>,
}

impl Asked {
    /// About each once in this time at least.
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
        // Each at a pace of its own, so that those of one start do not stay together.
        let part = u32::from(crc32fast::hash(id.as_bytes()).to_le_bytes()[0]) + 1;
        self.next.insert(id.into(), now + self.every / 2 + self.every / 512 * part);
    }

    /// Forgets all others.
    pub(super) fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.next.retain(|id, _| is_there(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_each_in_its_time_and_not_about_all_at_once() {
        let every = Duration::from_mins(2);
        let start = Instant::now();
        let mut asked = Asked::new(every);
        let ids: Vec<_> = (0..250).map(|id| id.to_string()).collect();
        let mut last = BTreeMap::new();
        let mut most = 0;
        for round in 0..40 {
            let now = start + Duration::from_secs(30) * round;
            let due: Vec<_> = ids.iter().filter(|id| asked.is_due(id, now)).collect();
            for id in &due {
                if let Some(before) = last.insert((*id).clone(), now) {
                    assert!(now - before <= every + Duration::from_secs(30), "{id}");
                }
            }
            most = if round < 10 { 0 } else { due.len().max(most) };
        }
        assert!(most < 125, "{most} of 250 at once");
        asked.retain(|id| id == "7");
        assert_eq!(asked.next.len(), 1);
    }

    #[test]
    fn no_time_is_always() {
        let mut asked = Asked::new(Duration::ZERO);
        let now = Instant::now();
        assert!(asked.is_due("a", now) && asked.is_due("a", now));
    }
}
