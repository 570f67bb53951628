//! How far the readings of a trace reach. No I/O.

use super::{format::Entry, rehearse::reading};
use enforcer_gate::{Instant, Micros};

/// The readings that a rehearsal can judge by: from the first in which a process lives, or all where none does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// When the first was taken.
    pub first: Instant,
    /// When the last was taken.
    pub last: Instant,
    /// The longest time between two.
    pub gap: Micros,
    populated: bool,
}

impl Stretch {
    /// Reads a trace to its end; `None` where it holds no reading.
    pub fn of<E>(entries: impl Iterator<Item = Result<(u64, Entry), E>>) -> Result<Option<Self>, E> {
        let mut stretch: Option<Self> = None;
        for item in entries {
            let (_, Entry { at_us, event }) = item?;
            let Some(sample) = reading(event) else { continue };
            let begins = Self { first: at_us, last: at_us, gap: Micros::ZERO, populated: sample.populated };
            stretch = Some(match stretch {
                Some(so_far) if so_far.populated || !sample.populated => {
                    Self { last: at_us, gap: so_far.gap.max(at_us.since(so_far.last)), ..so_far }
                }
                Some(_) | None => begins,
            });
        }
        Ok(stretch)
    }

    /// From the first reading to the last.
    pub fn covers(&self) -> Micros {
        self.last.since(self.first)
    }

    /// The window to judge by: all of it, unless less is asked for. A recorder's first and last reading come a little
    /// late and a little early, so what it was told to record counts as covered.
    pub fn window(&self, asked: Option<Micros>) -> Micros {
        let covers = self.covers();
        let as_good = covers.saturating_add(self.gap.scaled(2, 1));
        asked.filter(|asked| *asked < covers || *asked > as_good).unwrap_or(covers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Event, fixture};
    use enforcer_gate::Bytes;
    use std::convert::Infallible;

    fn of(readings: &[(u64, bool)]) -> Option<Stretch> {
        let entries = readings.iter().map(|(millis, populated)| {
            let mut sample = fixture::sample(Bytes::from_mib(20));
            sample.populated = *populated;
            let at_us = Instant::new(millis * 1_000);
            Ok::<_, Infallible>((2, Entry { at_us, event: Event::Sample(Box::new(sample)) }))
        });
        Stretch::of(entries).expect("readable")
    }

    #[test]
    fn it_begins_with_the_first_process() {
        let covers = |readings: &[(u64, bool)]| of(readings).expect("readings").covers();
        assert_eq!(of(&[]), None);
        assert_eq!(covers(&[(0, true), (100, true), (300, true)]), Micros::from_millis(300));
        assert_eq!(covers(&[(0, false), (100, true), (300, false)]), Micros::from_millis(200));
        assert_eq!(covers(&[(0, false), (100, false)]), Micros::from_millis(100));
    }

    #[test]
    fn what_was_recorded_is_covered_and_no_more() {
        let stretch = of(&[(100, true), (200, true), (15_900, true)]).expect("readings");
        let ms = Micros::from_millis;
        assert_eq!(stretch.gap, ms(15_700));
        let stretch = Stretch { gap: ms(100), ..stretch };
        let whole = ms(15_800);
        assert_eq!(stretch.window(None), whole);
        assert_eq!(stretch.window(Some(ms(16_000))), whole);
        assert_eq!(stretch.window(Some(ms(16_001))), ms(16_001));
        assert_eq!(stretch.window(Some(ms(2_500))), ms(2_500));
    }
}
