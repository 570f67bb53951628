//! Traces for tests.

use super::format::{Entry, Event, Header, Kind, TRACE_VERSION};
use enforcer_gate::{
    Action, Bytes, CgroupId, Gate, Instant, Limit, MemoryEvents, MemoryStat, Outcome, OutcomeKind, Policy,
    Pressure, Protection, Request, Sample, Signal, SwapRoom,
};

/// A header whose cgroup has a hostile name.
pub(crate) fn header(kind: Kind) -> Header {
    Header {
        trace_version: TRACE_VERSION,
        kind,
        enforcer: "0".into(),
        kernel: "6.12".into(),
        cgroup: "a\u{1b}\"\n".into(),
        cgroup_id: CgroupId::new(1),
        policy: Policy::default(),
    }
}

/// A cgroup with a limit of 128 MiB and nothing but so much anonymous memory.
pub(crate) fn sample(anon: Bytes) -> Sample {
    Sample {
        current: anon,
        max: Limit::Bytes(Bytes::from_mib(128)),
        high: Limit::Max,
        stat: MemoryStat { anon, inactive_anon: anon, ..MemoryStat::default() },
        events_local: MemoryEvents::default(),
        events: MemoryEvents::default(),
        pressure: Some(Pressure::default()),
        protection: Protection::default(),
        swap: SwapRoom::default(),
        hugetlb: Bytes::ZERO,
        populated: true,
        frozen: false,
        frozen_below: None,
        ancestors: Vec::new(),
    }
}

/// The trace of a shrink that is committed.
pub(crate) fn shrink() -> Vec<Entry> {
    let mut gate = Gate::new(Policy::default()).expect("the defaults hold");
    let mut entries = Vec::new();
    let mut now = Instant::new(1_000_000);
    let mut reading = sample(Bytes::from_mib(20));
    let request =
        Request { target: Bytes::from_mib(64), dry_run: false, pressure_killer: None, by_other: false };
    let mut next = Event::Signal(Signal::Request(request));
    loop {
        match &next {
            Event::Signal(signal) => gate.handle_signal(signal, now),
            Event::Outcome(outcome) => gate.handle_outcome(outcome, now),
            Event::Timeout {} => gate.handle_timeout(now),
            Event::Note(_) | Event::Command(_) | Event::Sample(_) | Event::End { .. } => {}
        }
        entries.push(Entry { at_us: now, event: next });
        if gate.certificate().is_some() {
            entries.push(Entry { at_us: now, event: Event::End { dropped: 0 } });
            return entries;
        }
        if let Some(command) = gate.poll_command() {
            let kind = match &command.action {
                Action::Observe => OutcomeKind::Sampled(Box::new(reading.clone())),
                Action::Reclaim { .. } => {
                    OutcomeKind::Reclaimed { took: enforcer_gate::Micros::from_millis(1), partial: false }
                }
                Action::SetBrake { high } => {
                    reading.high = *high;
                    OutcomeKind::Done
                }
                Action::Commit { max, .. } => {
                    reading.max = Limit::Bytes(*max);
                    OutcomeKind::Done
                }
                Action::Restore { high, max } => {
                    reading.high = high.unwrap_or(reading.high);
                    reading.max = max.unwrap_or(reading.max);
                    OutcomeKind::Done
                }
            };
            next = Event::Outcome(Outcome { id: command.id, kind });
            entries.push(Entry { at_us: now, event: Event::Command(command) });
            now = now.after(enforcer_gate::Micros::from_millis(1));
        } else {
            now = gate.poll_timeout().expect("every state has a deadline").max(now);
            next = Event::Timeout {};
        }
    }
}
