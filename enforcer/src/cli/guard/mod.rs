//! `enforcer guard`: the kernel refuses unsafe limits, whoever writes them.

mod held;
mod line;
mod log;
mod options;
mod posts;
mod report;
mod run;
mod status;
mod watch;

pub(super) use options::Options;
pub(super) use run::run;
