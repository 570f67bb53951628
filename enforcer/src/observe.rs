//! Looks at a cgroup through the gate's eyes and changes nothing: a dry run by readings alone.

use crate::cgroup::{CgroupError, Sampler};
use enforcer_gate::{
    Action, Bytes, Certificate, Gate, Instant, Outcome, OutcomeKind, Policy, PolicyError, Request, Signal,
};
use std::time::{Duration, Instant as Clock};

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The cgroup can't be read.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// The thresholds contradict each other.
    #[error("the policy does not hold: {0}")]
    Policy(PolicyError),
    /// The gate has stopped without a certificate, which is a defect of enforcer.
    #[error("the gate stopped without a certificate; please report this as a bug")]
    NoCertificate,
}

/// Reads through the policy's observe window and says what the gate makes of `target`: feasible, or refused with
/// the safe minimum. Blocks for that long.
pub fn observe(sampler: &mut Sampler, target: Bytes, policy: Policy) -> Result<Certificate, ObserveError> {
    let begun = Clock::now();
    let now = || Instant::new(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
    let mut gate = Gate::new(policy).map_err(ObserveError::Policy)?;
    gate.handle_signal(
        &Signal::Request(Request { target, dry_run: true, pressure_killer: None, by_other: false }),
        now(),
    );
    loop {
        while let Some(command) = gate.poll_command() {
            let kind = match command.action {
                Action::Observe => OutcomeKind::Sampled(Box::new(sampler.sample()?)),
                Action::Reclaim { .. }
                | Action::SetBrake { .. }
                | Action::Commit { .. }
                | Action::Restore { .. } => {
                    OutcomeKind::Failed { what: "a dry run changes nothing".into(), errno: 0 }
                }
            };
            gate.handle_outcome(&Outcome { id: command.id, kind }, now());
        }
        if let Some(certificate) = gate.certificate() {
            return Ok(certificate.clone());
        }
        let due = gate.poll_timeout().ok_or(ObserveError::NoCertificate)?;
        std::thread::sleep(Duration::from_micros(due.since(now()).get()));
        gate.handle_timeout(now());
    }
}
