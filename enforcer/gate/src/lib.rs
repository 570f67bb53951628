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

mod certificate;
mod certificate_check;
mod command;
mod explain;
mod floor;
mod headroom;
mod history;
mod machine;
mod policy;
mod sample;
mod shown;
mod signal;
mod text;
mod units;
mod verdict;

pub use certificate::{Certificate, Peak, StallAdded, StateTime};
pub use command::{Action, Command, CommandId};
pub use floor::{Floor, Term, Terms, ZSWAP_PERMILLE_UNKNOWN};
pub use headroom::{Headroom, Margins, admits, brake_for, holds, safe_minimum};
pub use history::Counters;
pub use machine::{Gate, Progress, ReclaimStep};
pub use policy::{Policy, PolicyError, StallBudget};
pub use sample::{AncestorLimit, MemoryEvents, MemoryStat, Pressure, Protection, Sample, SwapRoom};
pub use shown::BINARY_SUFFIXES;
pub use signal::{LimitFile, Outcome, OutcomeKind, PressureKiller, Request, Signal};
pub use units::{Bytes, CgroupId, Instant, Limit, Micros, PAGE_SIZE, Pages};
pub use verdict::{Reason, State, Verdict};
