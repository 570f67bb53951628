//! Memory and CPU while nothing happens.

use super::process::{Memory, by_thread, cpu, reads};
use super::{Crowd, Options, all_are_read};
use crate::stats::Spread;
use anyhow::{Context, Result};
use enforcer_vm_tests::agent_rig::Agent;
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// The agent reads each container once in this time where it is not told otherwise.
const INTERVAL: f64 = 15.0;
/// What is not looked at: the start, and the listings that follow it.
const SETTLE: Duration = Duration::from_secs(20);

/// What one program took.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Outcome {
    pub(super) program: String,
    pub(super) containers: usize,
    /// Of one CPU.
    pub(super) cpu_percent: Spread,
    pub(super) rss_mib: Spread,
    pub(super) pss_mib: Spread,
    pub(super) read_calls_per_second: Spread,
    /// Of one CPU, by thread, over all measurements.
    pub(super) cpu_percent_by_thread: BTreeMap<String, f64>,
}

/// Measures a process that idles.
pub(super) async fn of(program: &str, pid: u32, containers: usize, options: &Options) -> Result<Outcome> {
    tokio::time::sleep(SETTLE).await;
    let mut figures = Figures::default();
    let (began, before) = (Instant::now(), by_thread(pid));
    for _ in 0..options.windows {
        figures.window(pid, Duration::from_secs(options.seconds)).await?;
    }
    let took = began.elapsed().as_secs_f64();
    let threads = by_thread(pid).into_iter().map(|(name, ran)| {
        let before = before.get(&name).copied().unwrap_or_default();
        (name, ran.saturating_sub(before).as_secs_f64() / took * 100.0)
    });
    let outcome = figures.outcome(program, containers, threads.filter(|(_, part)| *part > 0.0).collect())?;
    outcome.print();
    Ok(outcome)
}

#[derive(Default)]
struct Figures {
    cpu: Vec<f64>,
    rss: Vec<f64>,
    pss: Vec<f64>,
    reads: Vec<f64>,
}

impl Figures {
    #[expect(clippy::cast_precision_loss, reason = "KiB and calls of one run are far below 2^52")]
    async fn window(&mut self, pid: u32, span: Duration) -> Result<()> {
        let (began, cpu_before, reads_before) = (Instant::now(), cpu(pid)?, reads(pid)?);
        tokio::time::sleep(span).await;
        let took = began.elapsed().as_secs_f64();
        self.cpu.push(cpu(pid)?.saturating_sub(cpu_before).as_secs_f64() / took * 100.0);
        self.reads.push((reads(pid)? - reads_before) as f64 / took);
        let memory = Memory::of(pid)?;
        self.rss.push(memory.rss_kib as f64 / 1024.0);
        self.pss.push(memory.pss_kib as f64 / 1024.0);
        Ok(())
    }

    fn outcome(
        &self,
        program: &str,
        containers: usize,
        cpu_percent_by_thread: BTreeMap<String, f64>,
    ) -> Result<Outcome> {
        let spread = |values: &[f64]| Spread::of(values).context("nothing was measured");
        Ok(Outcome {
            program: program.into(),
            containers,
            cpu_percent: spread(&self.cpu)?,
            rss_mib: spread(&self.rss)?,
            pss_mib: spread(&self.pss)?,
            read_calls_per_second: spread(&self.reads)?,
            cpu_percent_by_thread,
        })
    }
}

pub(super) fn head() {
    println!(
        "{:<16} {:>10} {:>9} {:>17} {:>9} {:>9} {:>8}  % by thread",
        "program", "containers", "CPU %", "least..most", "RSS MiB", "PSS MiB", "reads/s"
    );
}

impl Outcome {
    pub(super) fn print(&self) {
        let threads = self.cpu_percent_by_thread.iter().map(|(name, part)| format!("{name} {part:.3}"));
        println!(
            "{:<16} {:>10} {:>9.3} {:>8.3}..{:<7.3} {:>9.1} {:>9.1} {:>8.0}  {}",
            self.program,
            self.containers,
            self.cpu_percent.median,
            self.cpu_percent.min,
            self.cpu_percent.max,
            self.rss_mib.median,
            self.pss_mib.median,
            self.read_calls_per_second.median,
            threads.collect::<Vec<_>>().join(", ")
        );
    }
}

pub(super) async fn of_agent(crowd: &Crowd, options: &Options) -> Result<Outcome> {
    let agent = Agent::ready(&[&crowd.socket(), "http.listen="]);
    let count = crowd.containers.len();
    all_are_read(&agent, count).await?;
    let outcome = of("enforcer run", agent.pid(), count, options).await?;
    agent.end();
    Ok(outcome)
}

/// CPU time of reading `memory.current` and `memory.stat` of a container once, in microseconds.
pub(super) fn bare_reading(crowd: &Crowd) -> Result<Spread> {
    let folders: Vec<_> = crowd.containers.iter().map(|id| crowd.node.cgroup(id)).collect();
    let mut rounds = Vec::new();
    for _ in 0..5 {
        let before = thread_cpu()?;
        for folder in &folders {
            for file in ["memory.current", "memory.stat"] {
                std::hint::black_box(fs::read(folder.join(file)).context("read a cgroup's file")?);
            }
        }
        let took = thread_cpu()?.saturating_sub(before);
        rounds.push(took.as_secs_f64() * 1e6 / f64::from(u32::try_from(folders.len())?));
    }
    Spread::of(&rounds).context("no container")
}

fn thread_cpu() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}

/// What a reading of a container costs the agent, all that it does for the container included, over the bare cost.
pub(super) fn ratio(outcomes: &[Outcome], bare_us: &Spread) {
    let of =
        |count: usize| outcomes.iter().find(|one| one.program == "enforcer run" && one.containers == count);
    let most = outcomes.iter().map(|one| one.containers).max().unwrap_or(0);
    let (Some(none), Some(all)) = (of(0), of(most).filter(|_| most > 0)) else { return };
    let readings = f64::from(u32::try_from(most).unwrap_or(u32::MAX)) / INTERVAL;
    let us = (all.cpu_percent.median - none.cpu_percent.median) * 10_000.0 / readings;
    println!(
        "CPU for each reading of a container, all else for it included: {us:.0} us; memory.current and memory.stat \
         alone: {:.0} us; ratio {:.1}",
        bare_us.median,
        us / bare_us.median
    );
}
