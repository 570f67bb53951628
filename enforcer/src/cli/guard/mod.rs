//! `enforcer guard`: the kernel refuses unsafe limits, whoever writes them.

mod line;
mod options;
mod run;
mod status;

pub(super) use options::Options;
pub(super) use run::run;
