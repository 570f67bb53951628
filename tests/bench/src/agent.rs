//! What the node agent takes of a node, idle and under load; how soon what it decides is in force; how many events it
//! bears; and what a user would have instead.

mod drops;
mod idle;
mod latency;
mod load;
mod others;
mod process;
pub(crate) mod writer;

use anyhow::{Context, Result, ensure};
use clap::Args;
use enforcer::cri::message::LinuxContainerResources;
use enforcer_vm_tests::agent_rig::{Agent, LONG};
use enforcer_vm_tests::node::{Node, Program};
use serde::Serialize;
use std::time::{Duration, Instant};

/// What to run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Numbers of containers, rising.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 50, 250])]
    containers: Vec<usize>,
    /// Measurements of each figure.
    #[arg(long, default_value_t = 5)]
    windows: usize,
    /// How long each takes.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Shrinks and raises whose latency is measured.
    #[arg(long, default_value_t = 20)]
    changes: usize,
    /// Writes a second to limits under which the agent is measured.
    #[arg(long, default_value_t = 100)]
    load: u32,
    /// Rates of writes to limits, rising, of which the last that loses nothing is looked for.
    #[arg(long, value_delimiter = ',', default_values_t = [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000])]
    rates: Vec<u32>,
    /// Only this much: the agent itself.
    #[arg(long)]
    alone: bool,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    kernel: String,
    idle: Vec<idle::Outcome>,
    /// `memory.current` and `memory.stat` of one cgroup, opened, read and closed.
    bare_reading_us: Option<crate::stats::Spread>,
    load: Vec<load::Outcome>,
    drops: Vec<drops::Outcome>,
    latency: Vec<latency::Outcome>,
}

/// Containers of a pod's.
const OF_A_POD: usize = 3;

/// The node and what runs on it.
struct Crowd {
    node: Node,
    /// The pod that has room, and how many are in it.
    open: Option<(String, usize)>,
    containers: Vec<String>,
}

impl Crowd {
    fn start() -> Self {
        Self { node: Node::start(), open: None, containers: Vec::new() }
    }

    fn grow(&mut self, count: usize) {
        while self.containers.len() < count {
            let (pod, within) = match self.open.take() {
                Some((pod, within)) if within < OF_A_POD => (pod, within),
                Some(_) | None => (self.node.run_pod(&format!("pod-{}", self.containers.len()), &[]), 0),
            };
            let name = format!("c-{}", self.containers.len());
            self.containers.push(self.node.run(&pod, &name, &limits(64), Program::Sleeps));
            self.open = Some((pod, within + 1));
        }
    }

    fn socket(&self) -> String {
        format!("cri.socket={}", self.node.socket().display())
    }
}

/// A memory limit in MiB, no swap, and what a small container has of the CPU.
fn limits(mib: i64) -> LinuxContainerResources {
    LinuxContainerResources {
        memory_limit_in_bytes: mib << 20,
        memory_swap_limit_in_bytes: mib << 20,
        cpu_shares: 102,
        cpu_quota: 50_000,
        cpu_period: 100_000,
        ..LinuxContainerResources::default()
    }
}

/// Until the agent knows as many, and has read each of them.
async fn all_are_read(agent: &Agent, count: usize) -> Result<()> {
    let began = Instant::now();
    loop {
        let containers = agent.client().containers().await?;
        let read = containers.iter().filter(|view| view.usage.is_some()).count();
        if containers.len() == count && read == count {
            return Ok(());
        }
        ensure!(began.elapsed() < LONG, "of {count} {} are known, {read} read", containers.len());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

pub(crate) async fn run(options: Options) -> Result<()> {
    let mut crowd = Crowd::start();
    let mut report = Report { kernel: enforcer_vm_tests::case::release(), ..Report::default() };
    idle::head();
    for count in options.containers.clone() {
        crowd.grow(count);
        report.idle.push(idle::of_agent(&crowd, &options).await?);
        if !options.alone {
            report.idle.extend(others::idle(&crowd, &options).await?);
        }
    }
    if let Some(id) = crowd.containers.last() {
        println!("a container's verbose status: {} bytes", crowd.node.info_bytes(id));
        report.bare_reading_us = Some(idle::bare_reading(&crowd)?);
        idle::ratio(&report.idle, report.bare_reading_us.as_ref().context("was measured")?);
        report.load = load::run(&mut crowd, &options).await?;
        report.drops = drops::run(&crowd, &options).await?;
        report.latency = latency::run(&mut crowd, &options).await?;
    }
    crate::write_json("agent", &report)
}
