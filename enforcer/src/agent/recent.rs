//! What happened lately, for people who ask.

use crate::{
    admin::model::{Happening, HappeningKind},
    cgroup::printable,
};
use std::collections::VecDeque;

/// Happenings that are kept; the oldest go first.
const KEPT_MAX: usize = 512;
/// Those that a status shows.
const SHOWN: usize = 20;

/// The last happenings.
#[derive(Debug, Default)]
pub(super) struct Recent {
    kept: VecDeque<Happening>,
}

impl Recent {
    /// Keeps one, and answers it.
    pub(super) fn tell(&mut self, at_us: u64, target: &str, kind: HappeningKind, text: &str) -> &Happening {
        if self.kept.len() >= KEPT_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(Happening { at_us, target: printable(target), kind, text: printable(text) });
        &self.kept[self.kept.len() - 1]
    }

    /// The last ones, the latest last.
    pub(super) fn last(&self) -> Vec<Happening> {
        self.kept.iter().skip(self.kept.len().saturating_sub(SHOWN)).cloned().collect()
    }

    /// Those of some targets, the latest last.
    pub(super) fn of(&self, is_meant: impl Fn(&str) -> bool) -> Vec<Happening> {
        self.kept.iter().filter(|happening| is_meant(&happening.target)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_first_and_text_is_fit_to_print() {
        let mut recent = Recent::default();
        for at in 0..KEPT_MAX as u64 + 5 {
            recent.tell(at, if at % 2 == 0 { "a" } else { "\u{1b}b" }, HappeningKind::Oom, "x\u{1b}[2J\n");
        }
        assert_eq!((recent.kept.len(), recent.kept[0].at_us), (KEPT_MAX, 5));
        assert_eq!(recent.last().len(), SHOWN);
        assert!(recent.of(|target| target == "a").iter().all(|one| one.at_us % 2 == 0));
        let raw = |one: &Happening| one.text.contains('\u{1b}') || one.target.contains('\u{1b}');
        assert!(!recent.last().iter().any(raw));
    }
}
