//! The shrink gate: *may this cgroup's memory limit go down to T now, and if not, how far may it go?*
//!
//! A pure state machine. It is told what happened ([`Signal`], [`Outcome`]), says what to do next
//! ([`Command`]), and time is a parameter. It opens no file, reads no clock and spawns no task: the
//! same trace gives the same commands, always. The live command, `--dry-run`, `enforcer replay` and
//! the property tests drive the one surface of [`Gate`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod command;
mod policy;
mod sample;
mod signal;
mod units;
mod verdict;

pub use command::{Action, Command, CommandId};
pub use policy::{Policy, PolicyError, StallBudget};
pub use sample::{AncestorLimit, MemoryEvents, MemoryStat, Pressure, Protection, Sample, SwapRoom};
pub use signal::{LimitFile, Outcome, OutcomeKind, PressureKiller, Request, Signal};
pub use units::{Bytes, CgroupId, Instant, Limit, Micros, PAGE_SIZE, Pages};
pub use verdict::{Reason, State, Verdict};
