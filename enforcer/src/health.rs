//! Whether the agent lives, and whether each part of it does its work. No I/O but the clock in [`Health`].

use crate::{
    admin::model::{Part, PartState},
    cgroup::printable,
    clock::nanos,
};
use enforcer_gate::{Instant, Micros};
use nix::time::ClockId;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
};

/// Without a beat for so long the loop hangs.
pub const BEAT_MAX: Micros = Micros::from_secs(10);

macro_rules! parts {
    ($($(#[$doc:meta])* $part:ident = $name:literal,)*) => {
        /// A part of the agent.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum PartName {
            $($(#[$doc])* $part,)*
        }

        impl PartName {
            /// All of them, in the order in which they are told.
            pub const ALL: &'static [Self] = &[$(Self::$part,)*];

            /// The name that output uses.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$part => $name,)*
                }
            }
        }
    };
}

parts! {
    /// Which pods and containers there are.
    Inventory = "inventory",
    /// The kernel programs.
    Kernel = "kernel",
    /// The OOM flight recorder.
    Recorder = "recorder",
    /// The drift sentinel.
    Drift = "drift",
    /// The guard.
    Guard = "guard",
    /// What carries out shrinks.
    Gate = "gate",
    /// What decides on shrinks.
    Policy = "policy",
    /// The Kubernetes API.
    Kubernetes = "kubernetes",
    /// The pages for Prometheus and for probes.
    Metrics = "metrics",
}

/// The state of every part and the last sign of life. A clone shares them.
#[derive(Debug, Clone)]
pub struct Health {
    latches: Arc<Mutex<Latches>>,
}

impl Default for Health {
    fn default() -> Self {
        Self::new()
    }
}

impl Health {
    /// Every part is starting, and now is the first beat.
    pub fn new() -> Self {
        Self { latches: Arc::new(Mutex::new(Latches::new(now()))) }
    }

    /// How a part is from now on, and why where that is not well.
    pub fn set(&self, part: PartName, state: PartState, why: &str) {
        self.with(|latches| latches.set(part, state, why));
    }

    /// The loop turns.
    pub fn beat(&self) {
        self.with(|latches| latches.beat(now()));
    }

    /// Every part, in the order of [`PartName::ALL`].
    pub fn parts(&self) -> Vec<Part> {
        self.with(|latches| latches.parts())
    }

    /// The states alone.
    pub fn states(&self) -> BTreeMap<PartName, PartState> {
        self.with(|latches| latches.parts.iter().map(|(part, (state, _))| (*part, *state)).collect())
    }

    /// Whether no part is still starting or failed.
    pub fn is_ready(&self) -> bool {
        self.with(|latches| latches.is_ready())
    }

    /// Whether the loop gave a sign of life within [`BEAT_MAX`].
    pub fn is_alive(&self) -> bool {
        self.with(|latches| latches.is_alive(now()))
    }

    /// How long ago the loop's last sign of life was.
    pub fn since_beat(&self) -> Micros {
        self.with(|latches| now().since(latches.beat))
    }

    /// One line a part: name, state, and why.
    pub fn lines(&self) -> String {
        self.with(|latches| latches.lines())
    }

    /// As if there had never been a beat since the machine started.
    #[cfg(test)]
    pub(crate) fn silence(&self) {
        self.with(|latches| latches.beat = Instant::new(0));
    }

    fn with<T>(&self, what: impl FnOnce(&mut Latches) -> T) -> T {
        what(&mut self.latches.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn now() -> Instant {
    Instant::new(nanos(ClockId::CLOCK_MONOTONIC) / 1000)
}

#[derive(Debug)]
struct Latches {
    parts: BTreeMap<PartName, (PartState, String)>,
    beat: Instant,
}

impl Latches {
    fn new(now: Instant) -> Self {
        let starting = |part: &PartName| (*part, (PartState::Starting, String::new()));
        Self { parts: PartName::ALL.iter().map(starting).collect(), beat: now }
    }

    fn set(&mut self, part: PartName, state: PartState, why: &str) {
        self.parts.insert(part, (state, printable(why)));
    }

    fn beat(&mut self, now: Instant) {
        self.beat = self.beat.max(now);
    }

    fn is_alive(&self, now: Instant) -> bool {
        now.since(self.beat) <= BEAT_MAX
    }

    fn is_ready(&self) -> bool {
        self.parts.values().all(|(state, _)| does_its_work(*state))
    }

    fn parts(&self) -> Vec<Part> {
        let part = |(part, (state, why)): (&PartName, &(PartState, String))| Part {
            name: part.name().to_owned(),
            state: *state,
            why: why.clone(),
        };
        self.parts.iter().map(part).collect()
    }

    fn lines(&self) -> String {
        let mut lines = String::new();
        for (part, (state, why)) in &self.parts {
            let colon = if why.is_empty() { "" } else { ": " };
            // Writing to a String can't fail.
            let _ = writeln!(lines, "{} {}{colon}{why}", part.name(), state.name());
        }
        lines
    }
}

/// What is switched off is no reason to wait, nor what works with something missing.
const fn does_its_work(state: PartState) -> bool {
    match state {
        PartState::Ready | PartState::Degraded | PartState::Off => true,
        PartState::Starting | PartState::Failed => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_is_when_every_part_is() {
        let mut latches = Latches::new(Instant::new(0));
        for part in PartName::ALL {
            assert!(!latches.is_ready(), "{part:?} is still starting");
            latches.set(*part, PartState::Ready, "");
        }
        assert!(latches.is_ready());
        for (state, ready) in [
            (PartState::Starting, false),
            (PartState::Degraded, true),
            (PartState::Failed, false),
            (PartState::Off, true),
            (PartState::Ready, true),
        ] {
            latches.set(PartName::Guard, state, "");
            assert_eq!(latches.is_ready(), ready, "{state:?}");
        }
    }

    #[test]
    fn the_lines_are_one_a_part_whatever_the_reason_says() {
        let mut latches = Latches::new(Instant::new(0));
        latches.set(PartName::Kernel, PartState::Degraded, "no hook\nguard ready\u{1b}[2J");
        let lines = latches.lines();
        assert_eq!(lines.lines().count(), PartName::ALL.len());
        assert!(lines.contains("kernel degraded: no hook\\nguard ready\\u{1b}[2J\n"), "{lines}");
        assert!(lines.contains("inventory starting\n"), "{lines}");
        assert_eq!(latches.parts()[1].why, "no hook\\nguard ready\\u{1b}[2J");
    }

    #[test]
    fn it_lives_until_the_last_beat_is_too_old() {
        let at = |seconds| Instant::new(0).after(Micros::from_secs(seconds));
        let mut latches = Latches::new(at(5));
        assert!(latches.is_alive(at(15)));
        assert!(!latches.is_alive(at(16)));
        latches.beat(at(16));
        assert!(latches.is_alive(at(26)));
        latches.beat(at(7));
        assert!(latches.is_alive(at(26)), "a beat that comes late takes nothing back");
    }

    #[test]
    fn a_clone_shares_what_is_set() {
        let health = Health::new();
        assert!(health.is_alive());
        health.clone().set(PartName::Gate, PartState::Failed, "no journal");
        assert_eq!(health.states()[&PartName::Gate], PartState::Failed);
        assert!(!health.is_ready());
    }
}
