//! `enforcer shrink`: lowers one cgroup's `memory.max`, if the gate lets it.

mod display;
mod observer;
mod options;
mod run;

pub(super) use options::Options;
pub(super) use run::run;
