//! What the gate refuses at the first reading: that takes no kernel program, no journal and no restorer.

use super::{Observer, ShrinkError, now};
use crate::cgroup::Sampler;
use enforcer_gate::{Certificate, Gate, Outcome, OutcomeKind, Policy, Request, Signal, Verdict};

/// The refusal, where one reading is enough for it. Only then the observer is told.
pub fn refused_at_once(
    request: &Request,
    policy: &Policy,
    sampler: &mut Sampler,
    observer: &mut dyn Observer,
) -> Result<Option<Certificate>, ShrinkError> {
    let mut gate = Gate::new(policy.clone()).map_err(ShrinkError::Policy)?;
    let (asked, signal) = (now(), Signal::Request(request.clone()));
    gate.handle_signal(&signal, asked);
    let Some(command) = gate.poll_command() else { return Ok(None) };
    let outcome = Outcome { id: command.id, kind: OutcomeKind::Sampled(Box::new(sampler.sample()?)) };
    let read = now();
    gate.handle_outcome(&outcome, read);
    let refused = gate.certificate().filter(|certificate| matches!(certificate.verdict, Verdict::Refused(_)));
    if refused.is_some() {
        observer.signal(asked, &signal);
        observer.command(asked, &command);
        observer.outcome(read, &outcome);
    }
    Ok(refused.cloned())
}
