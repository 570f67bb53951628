//! The same gate over a recorded shrink: the same commands must come out. No I/O.

use super::format::{Entry, Event, Header, Kind};
use enforcer_gate::{Certificate, Command, Gate, Instant, PolicyError};
use serde::Serialize;

/// Most divergences that are kept; the rest is counted.
pub const DIVERGENCES_MAX: usize = 20;

/// Why a trace can't be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError<E> {
    /// The trace can't be read.
    #[error(transparent)]
    Read(E),
    /// The header's thresholds contradict each other.
    #[error("line 1: the policy does not hold: {0}")]
    Policy(PolicyError),
    /// The trace holds readings and no shrink.
    #[error("line 1: it holds readings, not a shrink; say the limit to try with --to")]
    NotAShrink,
    /// Entries of the other kind of trace.
    #[error("line {0}: a reading without a gate, in the trace of a shrink")]
    Misplaced(u64),
}

/// A place where the gate asks for something else than it did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Divergence {
    /// The trace's line: of the recorded command, or of the entry after which one is missing.
    pub line: u64,
    /// When, on the recorder's clock.
    pub at_us: Instant,
    /// What the trace says; `None`: nothing was asked for there.
    pub recorded: Option<Command>,
    /// What the gate asks for now; `None`: nothing.
    pub replayed: Option<Command>,
}

/// What came of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// Inputs given to the gate.
    pub inputs: u64,
    /// Commands that are the same.
    pub commands: u64,
    /// The first places where they are not.
    pub divergences: Vec<Divergence>,
    /// All places where they are not.
    pub diverged: u64,
    /// Entries that the recorder lost: with any, divergences may be due to that.
    pub dropped: u64,
    /// What the gate can prove; `None` where it did not come to an end.
    pub certificate: Option<Certificate>,
}

/// Feeds a gate what it was told then, at the times of then.
pub fn replay<E>(
    header: &Header,
    entries: impl Iterator<Item = Result<(u64, Entry), E>>,
) -> Result<Replayed, ReplayError<E>> {
    if header.kind != Kind::Shrink {
        return Err(ReplayError::NotAShrink);
    }
    let mut gate = Gate::new(header.policy.clone()).map_err(ReplayError::Policy)?;
    let mut result = Replayed {
        inputs: 0,
        commands: 0,
        divergences: Vec::new(),
        diverged: 0,
        dropped: 0,
        certificate: None,
    };
    for item in entries {
        let (line, Entry { at_us, event }) = item.map_err(ReplayError::Read)?;
        match event {
            Event::Command(recorded) => {
                let replayed = gate.poll_command();
                if replayed.as_ref() == Some(&recorded) {
                    result.commands += 1;
                } else {
                    result.diverge(Divergence { line, at_us, recorded: Some(recorded), replayed });
                }
                continue;
            }
            Event::End { dropped } => {
                result.unasked(&mut gate, line, at_us);
                result.dropped = dropped;
                continue;
            }
            // It changes no command.
            Event::Note(text) => {
                gate.note(&text);
                continue;
            }
            Event::Sample(_) => return Err(ReplayError::Misplaced(line)),
            Event::Signal(_) | Event::Outcome(_) | Event::Timeout {} => {}
        }
        result.unasked(&mut gate, line, at_us);
        result.inputs += 1;
        match event {
            Event::Signal(signal) => gate.handle_signal(&signal, at_us),
            Event::Outcome(outcome) => gate.handle_outcome(&outcome, at_us),
            Event::Timeout {} => gate.handle_timeout(at_us),
            Event::Note(_) | Event::Command(_) | Event::Sample(_) | Event::End { .. } => {}
        }
    }
    result.certificate = gate.certificate().cloned();
    Ok(result)
}

impl Replayed {
    fn diverge(&mut self, divergence: Divergence) {
        self.diverged += 1;
        if self.divergences.len() < DIVERGENCES_MAX {
            self.divergences.push(divergence);
        }
    }

    /// Commands that the trace does not have before its next input.
    fn unasked(&mut self, gate: &mut Gate, line: u64, at_us: Instant) {
        while let Some(command) = gate.poll_command() {
            self.diverge(Divergence { line, at_us, recorded: None, replayed: Some(command) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::fixture;
    use enforcer_gate::{Action, Bytes, Limit, Verdict};
    use std::convert::Infallible;

    fn run(entries: Vec<Entry>) -> Result<Replayed, ReplayError<Infallible>> {
        replay(&fixture::header(Kind::Shrink), (2..).zip(entries).map(Ok))
    }

    #[test]
    fn a_shrink_comes_out_the_same() {
        let entries = fixture::shrink();
        let commands = entries.iter().filter(|entry| matches!(entry.event, Event::Command(_))).count();
        let replayed = run(entries).expect("replays");
        assert_eq!((replayed.diverged, replayed.divergences), (0, vec![]));
        assert_eq!(replayed.commands, commands as u64);
        assert_eq!(replayed.certificate.expect("an end").verdict, Verdict::Committed);
    }

    #[test]
    fn notes_come_out_the_same() {
        let mut entries = fixture::shrink();
        let at_us = entries[0].at_us;
        entries.insert(1, Entry { at_us, event: Event::Note("memory is not locked".into()) });
        let replayed = run(entries).expect("replays");
        assert_eq!(replayed.diverged, 0);
        assert_eq!(replayed.certificate.expect("an end").notes, ["memory is not locked"]);
    }

    #[test]
    fn a_changed_command_is_found_on_its_line() {
        let mut entries = fixture::shrink();
        let place = |entry: &Entry| matches!(&entry.event, Event::Command(command) if matches!(command.action, Action::Commit { .. }));
        let index = entries.iter().position(place).expect("a commit");
        if let Event::Command(command) = &mut entries[index].event {
            command.action = Action::SetBrake { high: Limit::Bytes(Bytes::from_mib(1)) };
        }
        let replayed = run(entries).expect("replays");
        assert_eq!((replayed.diverged, replayed.divergences[0].line), (1, index as u64 + 2));
    }

    #[test]
    fn missing_and_added_commands_are_found() {
        let mut entries = fixture::shrink();
        let index = entries.iter().rposition(|entry| matches!(entry.event, Event::Command(_))).expect("some");
        let last = entries.remove(index);
        let replayed = run(entries.clone()).expect("replays");
        let found = &replayed.divergences[0];
        assert_eq!(
            (found.line, found.recorded.is_none(), found.replayed.is_some()),
            (index as u64 + 2, true, true)
        );
        entries.insert(index, last.clone());
        entries.insert(index, last);
        assert_eq!(run(entries).expect("replays").diverged, 1);
    }

    #[test]
    fn divergences_are_bounded_and_counted() {
        let mut entries = fixture::shrink();
        let command =
            entries.iter().find(|entry| matches!(entry.event, Event::Command(_))).expect("some").clone();
        entries.splice(0..0, vec![command; DIVERGENCES_MAX + 5]);
        let replayed = run(entries).expect("replays");
        assert_eq!(
            (replayed.diverged, replayed.divergences.len()),
            (DIVERGENCES_MAX as u64 + 5, DIVERGENCES_MAX)
        );
    }

    #[test]
    fn readings_are_no_shrink() {
        let header = fixture::header(Kind::Samples);
        let none = std::iter::empty::<Result<(u64, Entry), Infallible>>();
        assert!(matches!(replay(&header, none), Err(ReplayError::NotAShrink)));
    }
}
