//! Taking the cold half of a workload's memory, against a reclaimer with a fixed step.

use crate::instance::{Class, Instance};
use anyhow::{Context, Result, ensure};
use clap::Args;
use enforcer::actuate::{SessionOptions, StateDir};
use enforcer::cgroup::Cgroup;
use enforcer::probe::{Probe, ProbeOptions};
use enforcer::shrink::{self, Bus, NoObserver, Plan, WATCHES};
use enforcer_gate::{Bytes, Micros, Policy, Request, Verdict};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

/// What to run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Paired rounds: gate, fixed step, gate, fixed step, ...
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Where page cache is made: a directory on a disk file system.
    #[arg(long, default_value = "/data")]
    dir: String,
    /// The workload program.
    #[arg(long, default_value = "/bin/enforcer-workload")]
    workload: String,
    /// Time between two steps of the fixed-step reclaimer.
    #[arg(long, default_value_t = 6)]
    step_seconds: u64,
    /// The fixed-step reclaimer gives up after this.
    #[arg(long, default_value_t = 900)]
    give_up_seconds: u64,
}

#[derive(Debug, Serialize)]
struct Round {
    way: &'static str,
    seconds: f64,
    taken_mib: u64,
    some_stall_ms: f64,
    /// PSI `some` over the time taken, in percent.
    some_percent: f64,
}

const MIB: u64 = 1024 * 1024;
const HOT: u64 = 48;

fn class(dir: &str) -> Class {
    let hot = format!("threads --n 1 --size {HOT}Mi --period 50ms");
    let cold = format!("cache --file {dir}/cold --size {HOT}Mi");
    Class {
        name: format!("{HOT} MiB hot, {HOT} MiB cold"),
        commands: [hot, cold]
            .iter()
            .map(|line| line.split_whitespace().map(str::to_owned).collect())
            .collect(),
        limit: Bytes::from_mib(HOT * 3),
        period: Duration::from_millis(50),
        once: true,
    }
}

pub(crate) async fn run(options: Options) -> Result<()> {
    let (bus, probe) = Bus::start(Probe::load(&ProbeOptions::only(WATCHES))?);
    let class = class(&options.dir);
    let mut instance = Instance::start(&class, &options.workload, "cold").await?;
    let mut rounds = Vec::new();
    for _ in 0..options.rounds {
        rounds.push(by_gate(&mut instance, &bus).await?);
        rounds.push(by_fixed_step(&mut instance, &options).await?);
    }
    instance.stop().await?;
    drop(bus);
    drop(probe.await??);
    println!("{}: taking the cold half", class.name);
    println!(
        "{:<12} {:>9} {:>10} {:>15} {:>12}",
        "way", "seconds", "taken MiB", "some stall ms", "some stall %"
    );
    for round in &rounds {
        println!(
            "{:<12} {:>9.1} {:>10} {:>15.1} {:>12.3}",
            round.way, round.seconds, round.taken_mib, round.some_stall_ms, round.some_percent
        );
    }
    crate::write_json("cold", &rounds)
}

/// The limit under which the hot half and a sixth more fit.
fn target() -> Bytes {
    Bytes::from_mib(HOT + HOT / 4)
}

async fn by_gate(instance: &mut Instance, bus: &Bus) -> Result<Round> {
    instance.reset().await?;
    let measure = Measure::begin(instance)?;
    let plan = Plan {
        cgroup: Cgroup::open(instance.cgroup.path())?,
        request: Request { target: target(), dry_run: false, pressure_killer: None, by_other: false },
        policy: Policy {
            observe_window: Micros::from_millis(500),
            trial_window: Micros::from_secs(2),
            watch_window: Micros::from_secs(1),
            ..Policy::default()
        },
        state_dir: Some(StateDir::open(Path::new("/run/enforcer-bench"))?),
        session: SessionOptions::default(),
        cancel: None,
    };
    let certificate = shrink::run(plan, bus, &mut NoObserver).await?;
    ensure!(certificate.verdict == Verdict::Committed, "the gate ended with {:?}", certificate.verdict);
    measure.end("gate", instance)
}

async fn by_fixed_step(instance: &mut Instance, options: &Options) -> Result<Round> {
    instance.reset().await?;
    let measure = Measure::begin(instance)?;
    let mut ticks = tokio::time::interval(Duration::from_secs(options.step_seconds));
    while instance.usage()? > target().get() && measure.began.elapsed().as_secs() < options.give_up_seconds {
        ticks.tick().await;
        let step = instance.usage()? / 100;
        let file = instance.cgroup.path().join("memory.reclaim");
        // EAGAIN means that less was reclaimed; the next step goes on.
        drop(tokio::task::spawn_blocking(move || std::fs::write(file, step.to_string())).await?);
    }
    measure.end("fixed step", instance)
}

struct Measure {
    began: Instant,
    usage: u64,
    some: u64,
}

impl Measure {
    fn begin(instance: &Instance) -> Result<Self> {
        Ok(Self { began: Instant::now(), usage: instance.usage()?, some: some_total(instance)? })
    }

    #[expect(clippy::cast_precision_loss, reason = "microseconds of one run are far below 2^52")]
    fn end(&self, way: &'static str, instance: &Instance) -> Result<Round> {
        let seconds = self.began.elapsed().as_secs_f64();
        let some = (some_total(instance)? - self.some) as f64;
        Ok(Round {
            way,
            seconds,
            taken_mib: self.usage.saturating_sub(instance.usage()?) / MIB,
            some_stall_ms: some / 1e3,
            some_percent: some / 1e4 / seconds,
        })
    }
}

fn some_total(instance: &Instance) -> Result<u64> {
    let text = instance.cgroup.read("memory.pressure");
    let line =
        text.lines().find(|line| line.starts_with("some")).context("memory.pressure has no some line")?;
    line.rsplit('=').next().context("no total")?.parse().context("total is no number")
}
