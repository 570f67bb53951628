//! The thresholds that a verdict stands on.

use crate::{Bytes, Micros, PAGE_SIZE};
use alloc::{format, string::String, vec::Vec};
use core::fmt;
use serde::{Deserialize, Serialize};

/// Everything that can be set about a shrink. Each value in force is part of the certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// How long to watch before the first verdict.
    pub observe_window: Micros,
    /// How long the brake is on while `memory.max` stays: covers the workload's longest known period.
    pub trial_window: Micros,
    /// How long the brake stays after the commit.
    pub watch_window: Micros,
    /// Time between two readings while nothing happens.
    pub sample_interval: Micros,
    /// Reclaim must fit under the target by then.
    pub reclaim_deadline: Micros,
    /// The commit's write must return by then.
    pub commit_deadline: Micros,
    /// A restore must be confirmed by then.
    pub restore_deadline: Micros,
    /// Most bytes asked of `memory.reclaim` in one step.
    pub reclaim_step: Bytes,
    /// What the shrink may cost the workload.
    pub stall: StallBudget,
    /// Headroom is at least this.
    pub headroom_min: Bytes,
    /// Headroom is at least this share of the target, in thousandths.
    pub headroom_permille: u32,
    /// Growth is extrapolated this far ahead: from a signal to a limit restored.
    pub reaction_time: Micros,
    /// CPUs of the node, each of which may hold an uncharged batch.
    pub cpus: u32,
    /// Pages in one CPU's charge batch (`MEMCG_CHARGE_BATCH` in mm/memcontrol.c).
    pub charge_batch_pages: u32,
    /// Share of reclaimable slab that counts as reclaimable, in thousandths.
    pub slab_permille: u32,
    /// The same target is not tried again before this, unless the floor falls.
    pub back_off: Micros,
    /// Allow a trial although something on an ancestor kills on memory pressure.
    pub allow_pressure_killer: bool,
}

/// What a shrink may cost the workload, in PSI time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StallBudget {
    /// PSI `full` in any one second.
    pub full_per_second: Micros,
    /// PSI `full` in the whole shrink.
    pub full_total: Micros,
    /// PSI `some` in the whole shrink.
    pub some_total: Micros,
}

/// Every fault of a policy, at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyError(pub Vec<String>);

impl Default for Policy {
    fn default() -> Self {
        Self {
            observe_window: Micros::from_millis(2_500),
            trial_window: Micros::from_secs(10),
            watch_window: Micros::from_secs(5),
            sample_interval: Micros::from_millis(100),
            reclaim_deadline: Micros::from_secs(30),
            commit_deadline: Micros::from_secs(2),
            restore_deadline: Micros::from_secs(2),
            reclaim_step: Bytes::from_mib(16),
            stall: StallBudget {
                full_per_second: Micros::from_millis(200),
                full_total: Micros::from_millis(1_000),
                some_total: Micros::from_millis(2_000),
            },
            headroom_min: Bytes::from_mib(2),
            headroom_permille: 80,
            reaction_time: Micros::from_millis(50),
            cpus: 1,
            charge_batch_pages: 64,
            slab_permille: 500,
            back_off: Micros::from_secs(60),
            allow_pressure_killer: false,
        }
    }
}

impl Policy {
    /// Readings further apart than this can't keep a stall within a second's budget.
    pub const SAMPLE_INTERVAL_MAX: Micros = Micros::from_millis(500);

    /// No window or deadline is longer.
    pub const SPAN_MAX: Micros = Micros::from_secs(7 * 24 * 3600);

    /// [`Self::headroom_min`] and [`Self::reclaim_step`] are no more than this.
    pub const HEADROOM_MIN_MAX: Bytes = Bytes::from_mib(1 << 20);

    /// Checks every value.
    ///
    /// # Errors
    /// All faults at once, each naming its field.
    pub fn validate(&self) -> Result<(), PolicyError> {
        let mut faults = Vec::new();
        let mut span = |name: &str, value: Micros, min: Micros, max: Micros| {
            if value < min || value > max {
                faults.push(format!("{name} is {value}: it must be from {min} to {max}"));
            }
        };
        let ms = Micros::from_millis;
        span("sample_interval", self.sample_interval, ms(1), Self::SAMPLE_INTERVAL_MAX);
        let interval = self.sample_interval;
        span("observe_window", self.observe_window, interval, Self::SPAN_MAX);
        span("trial_window", self.trial_window, interval, Self::SPAN_MAX);
        span("watch_window", self.watch_window, interval, Self::SPAN_MAX);
        span("reclaim_deadline", self.reclaim_deadline, ms(10), Self::SPAN_MAX);
        span("commit_deadline", self.commit_deadline, ms(10), Self::SPAN_MAX);
        span("restore_deadline", self.restore_deadline, ms(10), Self::SPAN_MAX);
        span("reaction_time", self.reaction_time, ms(1), Micros::from_secs(10));
        span("back_off", self.back_off, Micros::ZERO, Self::SPAN_MAX);
        span("stall.full_per_second", self.stall.full_per_second, ms(1), Micros::from_secs(1));
        span("stall.full_total", self.stall.full_total, ms(1), Self::SPAN_MAX);
        span("stall.some_total", self.stall.some_total, ms(1), Self::SPAN_MAX);

        let mut count = |name: &str, value: u64, min: u64, max: u64| {
            if value < min || value > max {
                faults.push(format!("{name} is {value}: it must be from {min} to {max}"));
            }
        };
        count("headroom_permille", self.headroom_permille.into(), 0, 500);
        count("slab_permille", self.slab_permille.into(), 0, 1000);
        count("cpus", self.cpus.into(), 1, 8192);
        count("charge_batch_pages", self.charge_batch_pages.into(), 1, 4096);
        let mut amount = |name: &str, value: Bytes, min: Bytes| {
            let max = Self::HEADROOM_MIN_MAX;
            if value < min || value > max {
                faults.push(format!("{name} is {value}: it must be from {min} to {max}"));
            }
        };
        amount("reclaim_step", self.reclaim_step, Bytes::new(64 * PAGE_SIZE));
        amount("headroom_min", self.headroom_min, Bytes::new(PAGE_SIZE));
        if faults.is_empty() { Ok(()) } else { Err(PolicyError(faults)) }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            write!(f, "{separator}{fault}")?;
        }
        Ok(())
    }
}

impl core::error::Error for PolicyError {}
