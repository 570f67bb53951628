//! What this node has, and what enforcer wants of it.
//!
//! [`Facts`] are gathered by reading; [`judge`] says what they mean and does no I/O.

mod facts;
mod judge;
mod killers;

pub(crate) use facts::security_modules;
pub use facts::{Capabilities, Facts, MemoryController, PeakFile, Psi, Release};
pub(crate) use judge::WRITABLE;
pub use judge::{Finding, Need, State, judge};
pub use killers::pressure_killer;

use enforcer_gate::Policy;

/// The gate's thresholds on this node: the defaults for as many CPUs as it has.
pub fn node_policy() -> Policy {
    let cpus = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN).ok().flatten();
    let cpus = cpus.and_then(|cpus| u32::try_from(cpus).ok()).unwrap_or(1).max(1);
    Policy { cpus, ..Policy::default() }
}
