//! What enforcer does to a container by itself, and when (docs/policy.md). No I/O, no clock: `now` is a parameter.
//!
//! [`Defaults`] is what the node says, [`Rules`] what holds for one container after its pod had its say, and
//! [`Scheduler`] decides which container's limit goes down to what at which time.

mod budget;
mod decision;
mod defaults;
mod ended;
mod margin;
mod mode;
mod need;
mod rules;
mod said;
mod scheduler;
mod select;
mod target;
#[cfg(test)]
mod tests;
mod track;
mod why;

pub use decision::{Decision, Seen, Slot};
pub use defaults::{CHANGES_PER_HOUR_MAX, Defaults, INTERVAL_MIN, SPAN_MAX};
pub use ended::Ended;
pub use margin::{Margin, MarginError};
pub use mode::Mode;
pub use rules::Rules;
pub use said::{Fault, PREFIX, ValueError};
pub use scheduler::{Counters, Scheduler, TRACKED_MAX};
pub use select::{Labels, Namespaces};
pub use track::{LEARNED_FOR, OOM_KILL_INTERVALS};
pub use why::Why;
