//! The evidence of one shrink: everything that its verdict stands on.

use crate::{
    Bytes, Counters, Floor, Headroom, Limit, Micros, Policy, ReclaimStep, StallBudget, State, Verdict,
};
use alloc::{string::String, vec::Vec};
use serde::{Deserialize, Serialize};

const NOTES_MAX: usize = 16;
pub(crate) const NOTE_BYTES_MAX: usize = 400;

/// The certificate of one shrink. A reader can work the verdict out again from it: see
/// [`Certificate::check`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each tells of something else, and all are fields of the JSON"
)]
pub struct Certificate {
    /// What ended it.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The state that it ended in.
    pub ended_in: State,
    /// Nothing was to be changed.
    pub dry_run: bool,
    /// The limit asked for, in whole pages.
    pub target: Bytes,
    /// `memory.max` as found; `None` where nothing was read.
    pub previous_max: Option<Limit>,
    /// `memory.high` as found.
    pub previous_high: Option<Limit>,
    /// The brake, where one was written.
    pub brake: Option<Limit>,
    /// A process lived in the cgroup at the last reading.
    pub populated: bool,
    /// No process lived in it at any reading: there was nobody to watch, and windows were skipped.
    #[serde(default)]
    pub windows_skipped: bool,
    /// Another, of whom the request told, wrote the target before the gate did: there was no whole trial.
    #[serde(default)]
    pub overtaken: bool,
    /// Another, of whom the request told, wrote the target, before the gate did or after.
    #[serde(default)]
    pub taken: bool,
    /// The last floor.
    pub floor: Option<Floor>,
    /// The highest floor.
    pub peak: Option<Peak>,
    /// How fast the floor was seen to grow, in bytes a second.
    pub growth_per_second: Bytes,
    /// The headroom for the target.
    pub headroom: Option<Headroom>,
    /// The lowest limit that would be let in.
    pub safe_minimum: Option<Bytes>,
    /// The safe minimum is only a lower bound: the cgroup was held back while it wanted more.
    #[serde(default)]
    pub safe_minimum_is_lower_bound: bool,
    /// How far the counters rose from the first reading to the last.
    pub deltas: Counters,
    /// Stall that the shrink added, over what the workload had before.
    pub stall: StallAdded,
    /// The reclaim steps: the cgroup's reclaimability curve.
    pub reclaim: Vec<ReclaimStep>,
    /// Steps that did not fit in `reclaim`.
    pub reclaim_dropped: u64,
    /// Time in each state, in order.
    pub states: Vec<StateTime>,
    /// The thresholds in force.
    pub policy: Policy,
    /// What a reader should know besides.
    pub notes: Vec<String>,
    /// Notes that did not fit.
    pub notes_dropped: u64,
}

/// The highest floor and its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peak {
    /// The floor at its highest.
    pub floor: Floor,
    /// How long before the last reading that was.
    pub before_end: Micros,
    /// From the first reading to the last.
    pub window: Micros,
    /// Readings within it.
    pub samples: u64,
}

/// PSI that the shrink added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StallAdded {
    /// `some`, in all.
    pub some_total: Micros,
    /// `full`, in all.
    pub full_total: Micros,
    /// `some`, in the second before the last reading.
    pub some_in_second: Micros,
    /// `full`, in the second before the last reading.
    pub full_in_second: Micros,
    /// Time that allocations waited for direct reclaim, where PSI is off: counts as `some`.
    pub direct_reclaim: Micros,
    /// PSI `some` during reclaim steps, for each MiB that they freed.
    pub reclaim_stall_per_mib: Micros,
}

impl StallAdded {
    /// Whether it is over a budget.
    pub fn over(&self, budget: &StallBudget) -> bool {
        self.full_in_second > budget.full_per_second
            || self.full_total > budget.full_total
            || self.some_total.max(self.direct_reclaim) > budget.some_total
    }
}

/// How long one state lasted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateTime {
    /// The state.
    pub state: State,
    /// Its duration.
    pub took: Micros,
}

/// Notes on their way into a certificate: bounded, each once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notes {
    notes: Vec<String>,
    dropped: u64,
}

impl Notes {
    /// Adds a note, unless it is there already.
    pub(crate) fn add(&mut self, note: impl Into<String>) {
        let mut note: String = note.into();
        if self.notes.contains(&note) {
            return;
        }
        if self.notes.len() >= NOTES_MAX {
            self.dropped = self.dropped.saturating_add(1);
            return;
        }
        while note.len() > NOTE_BYTES_MAX {
            note.pop();
        }
        self.notes.push(note);
    }

    pub(crate) fn take(self) -> (Vec<String>, u64) {
        (self.notes, self.dropped)
    }
}
