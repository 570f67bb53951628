//! When a limit is put back: at once, and again no sooner than after a pause. No I/O and no clock.

use crate::drift::Expected;
use crate::probe::LimitKind;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Who disagrees with somebody is no help to anybody by doing so a thousand times a second.
const PAUSE_NS: u64 = 10_000_000_000;

/// One file of one cgroup.
pub(super) type Place = (PathBuf, LimitKind);

/// What was put back when, and what waits for its turn.
#[derive(Debug, Default)]
pub(super) struct Turns {
    last: BTreeMap<Place, u64>,
    waiting: BTreeMap<Place, Expected>,
}

impl Turns {
    /// Whether it may be put back now; else it waits, and [`Self::due`] gives it.
    pub(super) fn ask(&mut self, place: &Place, expected: &Expected, now_ns: u64) -> bool {
        let now = self.last.get(place).is_none_or(|last| last.saturating_add(PAUSE_NS) <= now_ns);
        if now {
            self.waiting.remove(place);
        } else {
            self.waiting.insert(place.clone(), *expected);
        }
        now
    }

    /// It was written.
    pub(super) fn written(&mut self, place: Place, now_ns: u64) {
        self.last.insert(place, now_ns);
    }

    /// When the next turn comes.
    pub(super) fn due_ns(&self) -> Option<u64> {
        let last = self.waiting.keys().filter_map(|place| self.last.get(place));
        last.min().map(|last| last.saturating_add(PAUSE_NS))
    }

    /// Those whose turn has come.
    pub(super) fn due(&mut self, now_ns: u64) -> Vec<(Place, Expected)> {
        let Self { last, waiting } = self;
        let is_due = |place: &Place, _: &mut Expected| {
            last.get(place).is_none_or(|last| last.saturating_add(PAUSE_NS) <= now_ns)
        };
        waiting.extract_if(.., is_due).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drift::parse_expected;

    #[test]
    fn what_comes_too_soon_has_its_turn_later() {
        let place: Place = ("/c".into(), LimitKind::PidsMax);
        let expected = parse_expected("pids.max=100").expect("is right").1;
        let mut turns = Turns::default();
        assert!(turns.ask(&place, &expected, 5));
        assert_eq!(turns.due_ns(), None, "nothing waits");
        turns.written(place.clone(), 5);
        assert!(!turns.ask(&place, &expected, 2_000_000_005));
        assert!(!turns.ask(&place, &expected, 3_000_000_005));
        assert_eq!(turns.due_ns(), Some(10_000_000_005));
        assert_eq!(turns.due(10_000_000_004), []);
        assert_eq!(turns.due(10_000_000_005), [(place.clone(), expected)], "once");
        assert_eq!((turns.due(u64::MAX), turns.due_ns()), (Vec::new(), None));
        assert!(turns.ask(&place, &expected, 10_000_000_005));
    }

    #[test]
    fn what_was_not_written_need_not_wait() {
        let place: Place = ("/c".into(), LimitKind::MemoryMax);
        let expected = parse_expected("memory.max=64Mi").expect("is right").1;
        let mut turns = Turns::default();
        assert!(turns.ask(&place, &expected, 5) && turns.ask(&place, &expected, 6));
    }
}
