//! The highest of a value over the last while, in bounded room. No clock.

use enforcer_gate::{Bytes, Instant, Micros};
use std::collections::VecDeque;

/// Parts of the span; the oldest leaves whole, so up to one part more than the span counts.
const PARTS: u64 = 20;

/// A peak over a span.
#[derive(Debug, Clone)]
pub(super) struct Peaks {
    part: Micros,
    /// Number of the part, counted from time zero, and its peak; oldest first.
    parts: VecDeque<(u64, Bytes)>,
}

impl Peaks {
    pub(super) fn over(span: Micros) -> Self {
        Self { part: Micros::new((span.get() / PARTS).max(1)), parts: VecDeque::new() }
    }

    /// Forgets what is older than the span.
    pub(super) fn age(&mut self, now: Instant) {
        let number = now.get() / self.part.get();
        while self.parts.front().is_some_and(|(first, _)| first.saturating_add(PARTS) < number) {
            self.parts.pop_front();
        }
    }

    pub(super) fn add(&mut self, now: Instant, value: Bytes) {
        self.age(now);
        let number = now.get() / self.part.get();
        match self.parts.back_mut() {
            Some((last, peak)) if *last == number => *peak = value.max(*peak),
            Some(_) | None => self.parts.push_back((number, value)),
        }
    }

    /// `None` before the first, and once all is older than the span.
    pub(super) fn peak(&self) -> Option<Bytes> {
        self.parts.iter().map(|(_, peak)| *peak).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_counts_until_its_time_is_over() {
        let at = |seconds: u64| Instant::new(seconds * 1_000_000);
        let mut peaks = Peaks::over(Micros::from_secs(100));
        assert_eq!(peaks.peak(), None);
        peaks.add(at(0), Bytes::from_mib(9));
        for second in 1..100 {
            peaks.add(at(second), Bytes::from_mib(2));
        }
        assert_eq!(peaks.peak(), Some(Bytes::from_mib(9)));
        for second in 100..200 {
            peaks.add(at(second), Bytes::from_mib(3));
        }
        assert_eq!(peaks.peak(), Some(Bytes::from_mib(3)));
        assert!(peaks.parts.len() <= 22, "{}", peaks.parts.len());
    }

    #[test]
    fn a_long_silence_leaves_nothing_old() {
        let mut peaks = Peaks::over(Micros::from_secs(1));
        peaks.add(Instant::new(0), Bytes::from_mib(9));
        peaks.add(Instant::new(u64::MAX), Bytes::from_mib(1));
        assert_eq!(peaks.peak(), Some(Bytes::from_mib(1)));
    }
}
