//! How a shrink is shown while it goes on. No I/O: what to print is returned.

use crate::cli::output::LOADING;
use crate::{cgroup::shown, quantity::exact};
use enforcer_gate::{Instant, Micros, Progress, State};
use std::fmt::Write as _;

/// Where the display goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// A terminal: one line that changes, and one that stays for each state.
    Terminal,
    /// A file or a pipe: a line for each state, and one a second.
    Lines,
    /// Nothing.
    Off,
}

impl Mode {
    const fn every(self) -> Micros {
        match self {
            Self::Terminal => Micros::from_millis(100),
            Self::Lines | Self::Off => Micros::from_secs(1),
        }
    }
}

/// Decides what is worth printing.
#[derive(Debug)]
pub(super) struct Display {
    mode: Mode,
    begun: Option<Instant>,
    shown: Option<(State, Instant)>,
}

impl Display {
    pub(super) fn new(mode: Mode) -> Self {
        Self { mode, begun: None, shown: None }
    }

    /// What to say before the kernel programs are loaded, which takes its time on a slow node.
    pub(super) fn loading(&self) -> Option<String> {
        (self.mode != Mode::Off).then(|| LOADING.into())
    }

    /// What to print now, if anything; no line of a terminal is longer than its `width`.
    pub(super) fn update(&mut self, now: Instant, progress: &Progress, width: usize) -> Option<String> {
        let begun = *self.begun.get_or_insert(now);
        // Before the first reading there is nothing to show.
        progress.previous_max?;
        let changed = self.shown.is_none_or(|(state, _)| state != progress.state);
        let due = self.shown.is_none_or(|(_, at)| now.since(at) >= self.mode.every());
        if self.mode == Mode::Off || !(changed || due) {
            return None;
        }
        let first = self.shown.is_none();
        self.shown = Some((progress.state, now));
        let width = if self.mode == Mode::Terminal { width } else { usize::MAX };
        let line = line(now.since(begun), now, progress, width);
        Some(match self.mode {
            Mode::Terminal if changed && !first => format!("\n{line}"),
            Mode::Terminal if first => line,
            Mode::Terminal => format!("\r\u{1b}[K{line}"),
            Mode::Lines | Mode::Off => line + "\n",
        })
    }

    /// What to print of something that happened beside.
    pub(super) fn note(&self, text: &str) -> Option<String> {
        (self.mode != Mode::Off).then(|| format!("{}note: {}\n", self.end(), shown(text)))
    }

    /// What to print when it is over.
    pub(super) fn end(&self) -> &'static str {
        if self.mode == Mode::Terminal && self.shown.is_some() { "\n" } else { "" }
    }
}

/// `[  3.2s] trial      usage 96.1Mi, floor 12.3Mi -> 100Mi, 6.8s left, brake 93.7Mi`: as much as `width` columns
/// have room for, what counts most first.
fn line(elapsed: Micros, now: Instant, progress: &Progress, width: usize) -> String {
    let tenths = elapsed.get() / 100_000;
    let Progress { usage, floor, target, stall_some, stall_full, reclaimed, .. } = progress;
    let mut text = format!(
        "[{:>3}.{}s] {:<10} usage {usage}, floor {floor} -> {}",
        tenths / 10,
        tenths % 10,
        progress.state.to_string(),
        exact(*target),
    );
    let parts = [
        progress.window_end.map(|end| format!("{} left", end.since(now))),
        progress.brake.map(|brake| format!("brake {brake}")),
        Some(format!("stall some {stall_some} full {stall_full}")),
        (reclaimed.get() > 0).then(|| format!("reclaimed {reclaimed}")),
    ];
    for part in parts.into_iter().flatten() {
        if text.len() + 2 + part.len() > width {
            break;
        }
        // Writing to a String can't fail.
        let _ = write!(text, ", {part}");
    }
    // All of it is ASCII.
    text.truncate(width);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use enforcer_gate::{Bytes, Limit};

    fn progress(state: State) -> Progress {
        Progress {
            state,
            since: Instant::ZERO,
            deadline: Instant::ZERO,
            window_end: Some(Instant::new(10_000_000)),
            target: Bytes::from_mib(100),
            previous_max: Some(Limit::Max),
            usage: Bytes::from_mib(96),
            floor: Bytes::new(12_897_485),
            peak_floor: Bytes::ZERO,
            safe_minimum: None,
            brake: Some(Limit::Bytes(Bytes::from_mib(94))),
            stall_some: Micros::new(1_200),
            stall_full: Micros::ZERO,
            reclaimed: Bytes::from_mib(30),
            doing: None,
        }
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO.after(Micros::from_millis(millis))
    }

    #[test]
    fn a_line_says_how_it_stands() {
        assert_eq!(
            line(Micros::from_millis(3_200), at(3_200), &progress(State::Trial), usize::MAX),
            "[  3.2s] trial      usage 96Mi, floor 12.3Mi -> 100Mi, 6.8s left, brake 94Mi, \
             stall some 1.2ms full 0us, reclaimed 30Mi"
        );
    }

    #[test]
    fn a_terminals_line_is_no_longer_than_the_terminal_is_wide() {
        let update = |mode, width| {
            let text = Display::new(mode).update(at(0), &progress(State::Trial), width);
            text.expect("the first").trim_end().to_owned()
        };
        for width in 0..200 {
            let line = update(Mode::Terminal, width);
            assert!(line.len() <= width, "{width}: {line}");
        }
        assert_eq!(
            update(Mode::Terminal, 79),
            "[  0.0s] trial      usage 96Mi, floor 12.3Mi -> 100Mi, 10s left, brake 94Mi"
        );
        assert!(update(Mode::Lines, 20).ends_with("reclaimed 30Mi"), "a file has no width");
    }

    #[test]
    fn lines_come_with_states_and_once_a_second() {
        let mut display = Display::new(Mode::Lines);
        let mut shown = |millis, state| display.update(at(millis), &progress(state), 80).is_some();
        assert!(shown(0, State::Observing));
        assert!(!shown(999, State::Observing));
        assert!(shown(1_000, State::Observing));
        assert!(shown(1_001, State::Reclaiming));
        assert!(!shown(1_500, State::Reclaiming));
        assert_eq!(display.end(), "");
        assert_eq!(display.note("a\u{1b}").as_deref(), Some("note: a\\u{1b}\n"));
    }

    #[test]
    fn a_terminal_keeps_one_line_a_state() {
        let mut display = Display::new(Mode::Terminal);
        let mut shown = |millis, state| display.update(at(millis), &progress(state), 80).unwrap_or_default();
        assert!(shown(0, State::Observing).starts_with('['));
        assert_eq!(shown(50, State::Observing), "");
        assert!(shown(100, State::Observing).starts_with("\r\u{1b}[K["));
        assert!(shown(110, State::Trial).starts_with("\n["));
        assert_eq!(display.end(), "\n");
    }

    #[test]
    fn nothing_is_shown_before_the_first_reading() {
        let mut display = Display::new(Mode::Lines);
        let blind = Progress { previous_max: None, ..progress(State::Observing) };
        assert_eq!(display.update(at(0), &blind, 80), None);
        assert!(
            display
                .update(at(100), &progress(State::Observing), 80)
                .expect("the first")
                .starts_with("[  0.1s]")
        );
    }

    #[test]
    fn off_is_silent() {
        let mut display = Display::new(Mode::Off);
        assert_eq!(display.update(at(0), &progress(State::Trial), 80), None);
        assert_eq!(display.note("a"), None);
    }
}
