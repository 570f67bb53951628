//! Sees a shrink's gate at work: for the display and the trace.

use super::display::Display;
use crate::{
    shrink::Observer,
    trace::{Event, Writer},
};
use enforcer_gate::{Command, Instant, Outcome, Progress, Signal};
use std::io::Write as _;

/// Shows and records.
pub(super) struct Watcher {
    pub(super) display: Display,
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

    fn command(&mut self, now: Instant, command: &Command) {
        self.record(now, || Event::Command(command.clone()));
    }

    fn timeout(&mut self, now: Instant) {
        self.record(now, || Event::Timeout {});
    }

    fn progress(&mut self, now: Instant, progress: &Progress) {
        if let Some(text) = self.display.update(now, progress) {
            // A terminal that has gone is no reason to stop.
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
    }
}
