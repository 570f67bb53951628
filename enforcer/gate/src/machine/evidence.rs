//! Views of a shrink: how it stands, and the certificate of how it went.

use super::{flight::Flight, run::Run, stage::Stage};
use crate::{
    Action, Bytes, Certificate, Headroom, Instant, Limit, Micros, Peak, Policy, State, Verdict,
    certificate::StallAdded,
};
use serde::Serialize;

/// How a shrink stands, for a display.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// The state.
    pub state: State,
    /// When it was entered.
    pub since: Instant,
    /// When it is over at the latest.
    pub deadline: Instant,
    /// When the window of trial or watch ends.
    pub window_end: Option<Instant>,
    /// The limit asked for.
    pub target: Bytes,
    /// `memory.max` as found.
    pub previous_max: Option<Limit>,
    /// Usage at the last reading.
    pub usage: Bytes,
    /// The floor at the last reading.
    pub floor: Bytes,
    /// The highest floor so far.
    pub peak_floor: Bytes,
    /// The lowest limit that would be let in.
    pub safe_minimum: Option<Bytes>,
    /// The brake, where it is on.
    pub brake: Option<Limit>,
    /// PSI `some` that the shrink added.
    pub stall_some: Micros,
    /// PSI `full` that the shrink added.
    pub stall_full: Micros,
    /// Bytes that reclaim steps freed.
    pub reclaimed: Bytes,
    /// The command in flight.
    pub doing: Option<Action>,
}

pub(super) fn progress(run: &Run, flight: &Flight, policy: &Policy) -> Progress {
    let last = run.last();
    let stall = run.stall();
    let window_end = match &run.stage {
        Stage::Observing => Some(run.observing_until(policy)),
        Stage::Trial(_) | Stage::Watching(_) => run.window_end(policy),
        Stage::Reclaiming(_) | Stage::Committing(_) | Stage::Restoring(_) => None,
    };
    Progress {
        state: run.stage.state(),
        since: run.entered,
        deadline: run.deadline,
        window_end,
        target: run.target,
        previous_max: run.found.map(|found| found.max),
        usage: last.floor.usage,
        floor: last.floor.bytes,
        peak_floor: run.history.as_ref().map(|h| h.peak().floor.bytes).unwrap_or_default(),
        safe_minimum: run.safe_minimum(policy),
        brake: run.high_written,
        stall_some: stall.some_total,
        stall_full: stall.full_total,
        reclaimed: run.curve.steps.iter().map(|step| step.freed).sum(),
        doing: flight.flying(run.number).cloned(),
    }
}

pub(super) fn certificate(run: Run, verdict: Verdict, policy: &Policy) -> Certificate {
    let stall = run.stall();
    let safe_minimum = run.safe_minimum(policy);
    let history = run.history.as_ref();
    let growth_per_second =
        history.map(super::super::history::History::growth_per_second).unwrap_or_default();
    let freed: Bytes = run.curve.steps.iter().map(|step| step.freed).sum();
    let reclaim_stall: Micros = run.curve.steps.iter().map(|step| step.stall).sum();
    let deltas = run.risen();
    let (notes, notes_dropped) = run.notes.take();
    Certificate {
        safe_minimum_is_lower_bound: verdict.held_back(),
        verdict,
        ended_in: run.stage.state(),
        dry_run: run.request.dry_run,
        target: run.target,
        previous_max: run.found.map(|found| found.max),
        previous_high: run.found.map(|found| found.high),
        brake: run.high_written,
        populated: run.populated,
        overtaken: run.overtaken,
        taken: run.taken,
        windows_skipped: run.sight.is_empty_throughout(),
        floor: history.map(|h| h.last().floor),
        peak: history.map(|h| Peak {
            floor: h.peak().floor,
            before_end: h.last().at.since(h.peak().at),
            window: h.span(),
            samples: h.samples(),
        }),
        growth_per_second,
        headroom: history.map(|_| Headroom::at(run.target, growth_per_second, policy)),
        safe_minimum,
        deltas,
        stall: StallAdded { reclaim_stall_per_mib: per_mib(reclaim_stall, freed), ..stall },
        reclaim: run.curve.steps,
        reclaim_dropped: run.curve.dropped,
        states: run.states,
        policy: policy.clone(),
        notes,
        notes_dropped,
    }
}

/// Stall for each MiB freed; zero where nothing was.
pub(crate) fn per_mib(stall: Micros, freed: Bytes) -> Micros {
    if freed == Bytes::ZERO {
        return Micros::ZERO;
    }
    stall.scaled(Bytes::from_mib(1).get(), freed.get())
}
