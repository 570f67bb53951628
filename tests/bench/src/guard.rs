//! The guard: what gets past it while it looks, and what it costs those who are none of its business.

mod cost;
mod race;

use anyhow::Result;
use clap::Args;
use enforcer::guard::{Cover, Guard, GuardMode, GuardOptions};
use enforcer::probe::LimitKind;
use enforcer_gate::{Bytes, CgroupId};
use enforcer_vm_tests::scratch::Scratch;
use serde::Serialize;
use std::time::Duration;

/// What to run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Limit writes in each way.
    #[arg(long, default_value_t = 10_000)]
    writes: usize,
    /// The writes come in so many rounds, the ways in turn.
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// Of the random limits.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Pairs of the cost: without, with, without, with, ...
    #[arg(long, default_value_t = 7)]
    pairs: usize,
    /// Writes of an unrelated writer in one measurement.
    #[arg(long, default_value_t = 20_000)]
    unrelated: usize,
    /// The workload program.
    #[arg(long, default_value = "/bin/enforcer-workload")]
    workload: String,
}

#[derive(Debug, Serialize)]
struct Report {
    race: Vec<race::Outcome>,
    cost: Vec<cost::Outcome>,
}

/// An armed guard of one cgroup's `memory.max`, which need not be kept alive by a beat.
fn enforcing(cgroup: &Scratch, margin: Bytes) -> Result<Guard> {
    let mut guard = Guard::load(GuardOptions { stale: Duration::from_hours(1), ..GuardOptions::default() })?;
    let files = vec![LimitKind::MemoryMax];
    let cover = Cover { mode: GuardMode::Enforce, files, margin, own: true, below: false };
    guard.cover(CgroupId::new(cgroup.id()), &cover)?;
    guard.beat()?;
    Ok(guard)
}

pub(crate) async fn run(options: Options) -> Result<()> {
    let race = race::run(&options).await?;
    race::print(&race);
    let cost = cost::run(&options)?;
    cost::print(&cost);
    crate::write_json("guard", &Report { race, cost })
}
