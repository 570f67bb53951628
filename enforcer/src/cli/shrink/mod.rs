//! `enforcer shrink`: lowers one cgroup's or container's `memory.max`, if the gate lets it.

mod display;
mod guided;
mod observer;
mod options;
mod run;

pub(super) use guided::{Guided, Recorded, cut_short};
pub(super) use options::{Options, Thresholds, Way};
pub(super) use run::{NEEDS, explain, run};
