//! The states with what each remembers, and what a state can ask for.

use super::{committing::Committing, reclaiming::Reclaiming, restoring::Restoring};
use crate::{Action, Instant, Reason, State, Verdict};

/// A state of a running shrink.
#[derive(Debug, Clone)]
pub(super) enum Stage {
    Observing,
    Reclaiming(Reclaiming),
    Trial(Window),
    Committing(Committing),
    Watching(Window),
    Restoring(Restoring),
}

impl Stage {
    pub(super) const fn state(&self) -> State {
        match self {
            Self::Observing => State::Observing,
            Self::Reclaiming(_) => State::Reclaiming,
            Self::Trial(_) => State::Trial,
            Self::Committing(_) => State::Committing,
            Self::Watching(_) => State::Watching,
            Self::Restoring(_) => State::Restoring,
        }
    }
}

/// A window of trial or watch; it opens when the brake is confirmed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Window {
    pub(super) opened: Option<Instant>,
}

/// What a state wants next.
#[derive(Debug)]
pub(super) enum Step {
    /// Read the cgroup at that time.
    Observe(Instant),
    /// Do this.
    Act(Action),
    /// Go to another state.
    Go(Stage),
    /// Give up: everything back as found.
    Stop(Reason),
    /// Over, with nothing left to put back.
    Finish(Verdict),
}
