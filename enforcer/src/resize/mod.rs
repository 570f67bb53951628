//! Changes a container's limits through its runtime, safely: memory goes down through the gate first, and what the
//! runtime writes besides is known before (docs/resize.md).
//!
//! [`ask`], [`look`], [`effects`], [`plan`](mod@plan) and `outcome` do no I/O; `read` looks, `tell` asks the runtime, [`Actor`]
//! carries out.

mod actor;
pub mod ask;
pub mod effects;
mod error;
#[cfg(test)]
pub(crate) mod fixture;
pub mod look;
mod outcome;
pub mod plan;
mod read;
mod tell;
mod way;

pub use actor::{Actor, Gate, Of, plan_cgroup, resize_cgroup};
pub use ask::{Ask, CpuLimit, CpuShare, MilliCpu, Via, parse_cpu_limit, parse_memory};
pub use effects::{Effect, Write, Writer};
pub use error::ResizeError;
pub use look::{Cpu, Engine, Level, Look, Oci};
pub use outcome::{Ended, Outcome};
pub use plan::{Plan, PlanError, Set, Step, Wanted, plan};
pub use read::look_at;
pub use tell::{NotAsked, Told, Unanswered};
pub use way::Way;
