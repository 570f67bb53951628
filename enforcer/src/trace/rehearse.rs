//! A dry run over recorded readings: what would the gate have said? No I/O.

use super::format::{Entry, Event};
use enforcer_gate::{
    Action, Bytes, Certificate, Gate, Instant, Micros, Outcome, OutcomeKind, Policy, PolicyError, Request,
    Sample, Signal,
};

/// Why a trace can't be rehearsed.
#[derive(Debug, thiserror::Error)]
pub enum RehearseError<E> {
    /// The trace can't be read.
    #[error(transparent)]
    Read(E),
    /// The thresholds contradict each other.
    #[error("the policy does not hold: {0}")]
    Policy(PolicyError),
    /// The trace has not one reading.
    #[error("the trace holds no reading")]
    Empty,
    /// The trace ends before the gate's window.
    #[error(
        "the trace is too short: it covers {covers} with {samples} readings, and the verdict takes {window} with 3"
    )]
    TooShort {
        /// Readings that the gate was given.
        samples: u64,
        /// From the first reading to the last.
        covers: Micros,
        /// What the gate wants to see.
        window: Micros,
    },
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rehearsal {
    /// Readings that the gate was given.
    pub samples: u64,
    /// From the first of them to the last.
    pub covers: Micros,
    /// How long after the first the cgroup had other limits than then, if ever: its need may have been cut short.
    pub limits_changed_after: Option<Micros>,
    /// What the gate can prove.
    pub certificate: Certificate,
}

/// Asks a gate for a dry run of `target` and answers its questions with the trace's readings, at their times.
/// The readings of a shrink serve as well as those of a recording: whatever limits came later, the gate sees the first
/// ones, because the question is what it would have made of the need.
pub fn rehearse<E>(
    entries: impl Iterator<Item = Result<(u64, Entry), E>>,
    target: Bytes,
    policy: Policy,
) -> Result<Rehearsal, RehearseError<E>> {
    let window = policy.observe_window;
    let mut gate = Gate::new(policy).map_err(RehearseError::Policy)?;
    let mut times: Option<(Instant, Instant)> = None;
    let mut limits = None;
    let mut limits_changed_after = None;
    let mut samples = 0;
    for item in entries {
        let (_, Entry { at_us, event }) = item.map_err(RehearseError::Read)?;
        let Some(mut sample) = reading(event) else { continue };
        let first = times.map_or(at_us, |(first, _)| first);
        if times.is_none() {
            let request = Request { target, dry_run: true, pressure_killer: None, by_other: false };
            gate.handle_signal(&Signal::Request(request), at_us);
        }
        times = Some((first, at_us));
        samples += 1;
        let (max, high) = *limits.get_or_insert((sample.max, sample.high));
        if limits_changed_after.is_none() && (sample.max, sample.high) != (max, high) {
            limits_changed_after = Some(at_us.since(first));
        }
        (sample.max, sample.high) = (max, high);
        answer(&mut gate, &sample, at_us);
        if let Some(certificate) = gate.certificate().cloned() {
            return Ok(Rehearsal { samples, covers: at_us.since(first), limits_changed_after, certificate });
        }
    }
    let (first, last) = times.ok_or(RehearseError::Empty)?;
    Err(RehearseError::TooShort { samples, covers: last.since(first), window })
}

/// The reading in an entry, of a recording or of a shrink.
pub(super) fn reading(event: Event) -> Option<Box<Sample>> {
    match event {
        Event::Sample(sample) | Event::Outcome(Outcome { kind: OutcomeKind::Sampled(sample), .. }) => {
            Some(sample)
        }
        Event::Outcome(_)
        | Event::Signal(_)
        | Event::Timeout {}
        | Event::Note(_)
        | Event::Command(_)
        | Event::End { .. } => None,
    }
}

/// Gives the reading as answer to the question that the gate has at its time or within half an interval: a
/// recorder's readings come a little before or after the gate's own.
fn answer(gate: &mut Gate, sample: &Sample, now: Instant) {
    let slack = gate.policy().sample_interval.scaled(1, 2);
    if let Some(due) = gate.poll_timeout()
        && due <= now.after(slack)
    {
        gate.handle_timeout(due.max(now));
    }
    while let Some(command) = gate.poll_command() {
        let kind = match command.action {
            Action::Observe => OutcomeKind::Sampled(Box::new(sample.clone())),
            Action::Reclaim { .. }
            | Action::SetBrake { .. }
            | Action::Commit { .. }
            | Action::Restore { .. } => {
                OutcomeKind::Failed { what: "a rehearsal changes nothing".into(), errno: 0 }
            }
        };
        gate.handle_outcome(&Outcome { id: command.id, kind }, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::fixture;
    use enforcer_gate::{Reason, Verdict};
    use std::convert::Infallible;

    fn run(seconds: u64, anon: u64) -> Result<Rehearsal, RehearseError<Infallible>> {
        let entries = (0..seconds * 10).map(|tick| {
            // As uneven as a real recorder.
            let at_us = Instant::new(tick * 100_000 + tick % 3 * 700);
            let event = Event::Sample(Box::new(fixture::sample(Bytes::from_mib(anon))));
            Ok((tick + 2, Entry { at_us, event }))
        });
        rehearse(entries, Bytes::from_mib(64), Policy::default())
    }

    #[test]
    fn what_fits_is_feasible_and_every_reading_counts() {
        let rehearsal = run(5, 20).expect("long enough");
        assert_eq!(rehearsal.certificate.verdict, Verdict::Feasible);
        let window = Policy::default().observe_window;
        assert!(rehearsal.samples >= window.get() / 100_000, "{}", rehearsal.samples);
        assert_eq!(rehearsal.certificate.peak.expect("seen").samples, rehearsal.samples);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let rehearsal = run(5, 63).expect("long enough");
        assert_eq!(rehearsal.certificate.verdict, Verdict::Refused(Reason::BelowSafeMinimum));
        assert!(rehearsal.certificate.safe_minimum > Some(Bytes::from_mib(64)));
    }

    #[test]
    fn a_shrink_is_judged_to_its_end() {
        let entries: Vec<_> = (2..).zip(fixture::shrink()).map(Ok::<_, Infallible>).collect();
        let policy = Policy { observe_window: Micros::from_secs(15), ..Policy::default() };
        let rehearsal = rehearse(entries.into_iter(), Bytes::from_mib(64), policy).expect("long enough");
        assert_eq!(rehearsal.certificate.verdict, Verdict::Feasible);
        assert_eq!(
            rehearsal.certificate.previous_max,
            Some(enforcer_gate::Limit::Bytes(Bytes::from_mib(128)))
        );
        let changed = rehearsal.limits_changed_after.expect("a brake");
        assert!((Policy::default().observe_window..rehearsal.covers).contains(&changed), "{changed}");
    }

    #[test]
    fn a_short_trace_says_how_short() {
        let error = run(1, 20).expect_err("too short").to_string();
        assert!(error.starts_with("the trace is too short: it covers 90"), "{error}");
        assert!(matches!(run(0, 20), Err(RehearseError::Empty)));
    }
}
