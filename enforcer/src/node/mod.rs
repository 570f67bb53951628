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
