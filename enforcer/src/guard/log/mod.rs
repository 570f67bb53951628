//! What the guard said, kept: one [`VerdictRecord`] for each verdict that it told, and when it stood.
//!
//! `tell` makes a record of a verdict, [`Stored`] is what the store holds (docs/guard.md), [`Log`] appends to it beside
//! a guard that must never wait for a disk.

#[cfg(test)]
pub(crate) mod fixture;
mod keep;
mod record;
mod stored;
mod tell;
#[cfg(test)]
mod tests;

pub use keep::{Log, News};
pub use record::{Began, Ended, Lost, Standing, VerdictRecord, WriterName};
pub use stored::{KIND_BEGAN, KIND_ENDED, KIND_LOST, KIND_VERDICT, Stored};
pub use tell::{cgroup_name, tell};

/// Where the verdicts are, where no other folder is named.
pub const STORE_DEFAULT: &str = "/var/lib/enforcer/guard";
