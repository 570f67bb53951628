//! What a container was seen to need: the greatest safe minimum of a sliding window.

use enforcer_gate::{Bytes, Instant, Micros};

/// A window is remembered in so many pieces, and the one that it begins in.
const PIECES: usize = 8;
/// A window that nobody looked into for one part in so many was not seen.
const GAP_SHARE: u64 = 4;
/// A gap is at least this: a short window is not seen by every reading.
const GAP_MIN: Micros = Micros::from_secs(60);

/// Safe minima, as they were seen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Need {
    window: Micros,
    /// Since when it was looked at without a gap.
    since: Instant,
    last: Instant,
    /// The number of the latest piece, from the clock's origin.
    piece: u64,
    peaks: [Bytes; PIECES + 1],
}

impl Need {
    /// The first sighting.
    pub(super) fn new(now: Instant, safe_minimum: Bytes, window: Micros) -> Self {
        let peaks = [Bytes::ZERO; PIECES + 1];
        let mut need = Self { window, since: now, last: now, piece: 0, peaks };
        need.see(now, safe_minimum);
        need
    }

    /// Whether a sighting at `now` with that window goes on from these.
    pub(super) fn goes_on(&self, now: Instant, window: Micros) -> bool {
        window == self.window && now.since(self.last) <= window.scaled(1, GAP_SHARE).max(GAP_MIN)
    }

    /// Another sighting.
    pub(super) fn see(&mut self, now: Instant, safe_minimum: Bytes) {
        let length = self.window.scaled(1, PIECES as u64).get().max(1);
        let piece = (now.get() / length).max(self.piece);
        let passed = piece - self.piece;
        for old in 1..=passed.min(self.peaks.len() as u64) {
            *self.slot(self.piece.saturating_add(old)) = Bytes::ZERO;
        }
        self.piece = piece;
        let peak = self.slot(piece);
        *peak = safe_minimum.max(*peak);
        self.last = now.max(self.last);
    }

    /// The greatest safe minimum of the window, and of a piece before it at most.
    pub(super) fn peak(&self) -> Bytes {
        self.peaks.iter().copied().max().unwrap_or_default()
    }

    /// Since when it was looked at without a gap.
    pub(super) const fn since(&self) -> Instant {
        self.since
    }

    fn slot(&mut self, piece: u64) -> &mut Bytes {
        let at = usize::try_from(piece % self.peaks.len() as u64).unwrap_or(0);
        &mut self.peaks[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn at(seconds: u64) -> Instant {
        Instant::new(seconds * 1_000_000)
    }

    const WINDOW: Micros = Micros::from_secs(800);

    #[test]
    fn a_peak_is_remembered_for_a_window() {
        let mib = Bytes::from_mib;
        let mut need = Need::new(at(1000), mib(1), WINDOW);
        need.see(at(1100), mib(9));
        for seconds in (1200..=1900).step_by(50) {
            assert!(need.goes_on(at(seconds), WINDOW));
            need.see(at(seconds), mib(2));
            assert_eq!(need.peak(), mib(9), "{seconds}");
        }
        need.see(at(2000), mib(2));
        assert_eq!(need.peak(), mib(2));
        assert_eq!(need.since(), at(1000));
    }

    #[test]
    fn a_gap_ends_what_was_seen_without_one() {
        let need = Need::new(at(1000), Bytes::ZERO, WINDOW);
        assert!(need.goes_on(at(1200), WINDOW));
        assert!(!need.goes_on(at(1201), WINDOW));
        assert!(!need.goes_on(at(1001), WINDOW.scaled(2, 1)), "another window");
        let short = Micros::from_secs(2);
        let need = Need::new(at(1000), Bytes::ZERO, short);
        assert!(need.goes_on(at(1060), short));
        assert!(!need.goes_on(at(1061), short));
    }

    proptest! {
        #[test]
        fn the_peak_is_that_of_the_window_and_a_piece_at_most(
            window in 8_u64..100_000,
            start in any::<u32>(),
            seen in prop::collection::vec((0_u64..20_000, 0_u64..1000), 1..100),
        ) {
            let window = Micros::new(window);
            let mut now = Instant::new(u64::from(start));
            let mut all = vec![(now, Bytes::new(5))];
            let mut need = Need::new(now, Bytes::new(5), window);
            for (step, bytes) in seen {
                now = now.after(Micros::new(step));
                need.see(now, Bytes::new(bytes));
                all.push((now, Bytes::new(bytes)));
                let within = |span: Micros| {
                    all.iter().filter(|(when, _)| now.since(*when) <= span).map(|(_, bytes)| *bytes).max()
                };
                // A piece is cut down to whole microseconds.
                let whole = Micros::new(window.get() / 8 * 8);
                prop_assert!(Some(need.peak()) >= within(whole));
                prop_assert!(Some(need.peak()) <= within(Micros::new(window.get() / 8 * 9)));
            }
        }

        #[test]
        fn no_times_panic(window in any::<u64>(), times in prop::collection::vec(any::<u64>(), 1..20)) {
            let mut need = Need::new(Instant::new(times[0]), Bytes::new(1), Micros::new(window));
            for time in times {
                let _ = need.goes_on(Instant::new(time), Micros::new(window));
                need.see(Instant::new(time), Bytes::new(1));
                prop_assert_eq!(need.peak(), Bytes::new(1));
            }
        }
    }
}
