//! Benchmarks on a real kernel. Run inside the VM by `cargo xtask bench`.

mod adversary;
mod agent;
mod clock;
mod cold;
mod cost;
mod guard;
mod instance;
mod oom;
mod restore;
mod stats;

use anyhow::{Context, Result};
use clap::Parser;
use serde::Serialize;

/// One benchmark.
#[derive(Debug, Parser)]
enum Bench {
    /// Adversarial shrinks against a bare write and a stale comparison.
    Adversary(adversary::Options),
    /// Taking cold memory, against a reclaimer with a fixed step.
    Cold(cold::Options),
    /// From a stall in the kernel to the limit raised, against polling.
    Restore(restore::Options),
    /// From an OOM kill to a record, against inotify and the kernel log; and none lost.
    Oom(oom::Options),
    /// What the kernel programs cost.
    Cost(cost::Options),
    /// What the node agent takes, idle and under load; how soon it acts; how much it bears.
    Agent(agent::Options),
    /// Writes limits at a rate, for another benchmark.
    #[command(name = "write-limits", hide = true)]
    Writer(agent::writer::Options),
    /// What gets past the guard while it looks, and what it and the drift sentinel cost.
    Guard(guard::Options),
}

/// Writes a result for `cargo xtask bench` to collect: one line on standard output.
pub(crate) fn write_json(name: &str, report: &impl Serialize) -> Result<()> {
    println!("RESULT {name} {}", serde_json::to_string(report).context("encode the result")?);
    Ok(())
}

fn main() -> Result<()> {
    // The restorer of a shrink is this program again.
    enforcer::actuate::run_restorer_if_asked();
    let bench = Bench::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, async {
        match bench {
            Bench::Adversary(options) => adversary::run(options).await,
            Bench::Cold(options) => cold::run(options).await,
            Bench::Restore(options) => restore::run(options).await,
            Bench::Oom(options) => oom::run(&options),
            Bench::Cost(options) => cost::run(&options),
            Bench::Agent(options) => agent::run(options).await,
            Bench::Writer(options) => agent::writer::run(&options),
            Bench::Guard(options) => guard::run(options).await,
        }
    })
}
