//! `enforcer drift`: who changes limits, and what is not what it should be.

mod line;
mod run;
mod turns;

use crate::cli::options::Json;
use crate::drift::{Expected, parse_expected};
use crate::probe::LimitKind;
use std::path::PathBuf;

pub(super) use run::run;

/// Tells of every write to a limit file: who wrote, what it was and what it is now
///
/// Runs until Ctrl-C and prints a line for each write, by whomever, with what is behind it: enforcer itself, systemd
/// applying its unit, a restart, a runtime's rounding, a memory update that resets swap, or nothing known. With
/// --expect, a value that differs is called drift, once a value. Changes nothing without --mend. Files: memory.max, memory.high,
/// memory.low, memory.min, memory.swap.max, cpu.max, cpu.weight, cpuset.cpus, pids.max.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The cgroups, and all below them: absolute, or below the cgroup mount [default: every cgroup]
    #[arg(value_name = "CGROUP")]
    cgroups: Vec<PathBuf>,
    /// What a file of each CGROUP itself should hold; cpu.shares=N stands for the cpu.weight of so many shares, by
    /// either conversion that runtimes use
    #[arg(long, value_name = "FILE=VALUE", value_parser = parse_expected, requires = "cgroups")]
    expect: Vec<(LimitKind, Expected)>,
    /// Puts what drifts back and reads it: through systemd where a unit has it, through the file elsewhere. A limit of
    /// memory or swap is only raised: what lowers one safely is enforcer shrink
    #[arg(long, requires = "expect")]
    mend: bool,
    #[command(flatten)]
    json: Json,
}
