//! Sees a shrink's gate at work: for the display and the trace.

use super::display::Display;
use crate::{
    cli::screen::{Screen, width},
    shrink::Observer,
    trace::{Event, Writer},
};
use enforcer_gate::{Command, Instant, Outcome, Progress, Signal};

/// Shows and records.
pub(super) struct Watcher {
    pub(super) display: Display,
    pub(super) screen: Screen,
    pub(super) trace: Option<Writer>,
}

impl Watcher {
    fn record(&mut self, now: Instant, event: impl FnOnce() -> Event) {
        if let Some(trace) = &mut self.trace {
            trace.add(now, event());
        }
    }
}

impl Observer for Watcher {
    fn signal(&mut self, now: Instant, signal: &Signal) {
        self.record(now, || Event::Signal(signal.clone()));
    }

    fn outcome(&mut self, now: Instant, outcome: &Outcome) {
        self.record(now, || Event::Outcome(outcome.clone()));
    }

    fn note(&mut self, now: Instant, text: &str) {
        self.record(now, || Event::Note(text.into()));
    }

    fn afterwards(&mut self, text: &str) {
        if let Some(text) = self.display.note(text) {
            self.screen.show(text);
        }
    }

    fn command(&mut self, now: Instant, command: &Command) {
        self.record(now, || Event::Command(command.clone()));
    }

    fn timeout(&mut self, now: Instant) {
        self.record(now, || Event::Timeout {});
    }

    fn progress(&mut self, now: Instant, progress: &Progress) {
        if let Some(text) = self.display.update(now, progress, width()) {
            self.screen.show(text);
        }
    }
}
