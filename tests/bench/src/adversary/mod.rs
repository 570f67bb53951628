//! Adversarial shrinks, many cgroups at once, against a bare write and against a stale comparison.
//!
//! Every class of workload has twins: one is shrunk by the gate, one by a bare write to `memory.max`, one
//! by "refuse if usage is at or above the target" with an old usage. A bisection of bare writes gives each
//! class's true minimum, so that refusing everything can't look safe.

mod class;
mod lane;
mod oracle;
mod tally;

use anyhow::{Result, bail};
use clap::Args;
use enforcer::actuate::StateDir;
use enforcer::probe::{Probe, ProbeOptions};
use enforcer::shrink::{Bus, WATCHES};
use enforcer_gate::{Bytes, Policy};
use lane::{LaneReport, Shared};
use serde::Serialize;
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use tally::{Shrink, Tally};
use tokio::time::Instant;

/// What to run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Shrinks to make by the gate; as many again are made in each of the two other ways.
    #[arg(long, default_value_t = 10_000)]
    shrinks: usize,
    /// Stop after this many seconds, with the number reached.
    #[arg(long, default_value_t = 3_000)]
    seconds: u64,
    /// Where page cache is made: a directory on a disk file system.
    #[arg(long, default_value = "/data")]
    dir: String,
    /// Where tmpfs files are made.
    #[arg(long, default_value = "/tmp")]
    tmpfs: String,
    /// The workload program.
    #[arg(long, default_value = "/bin/enforcer-workload")]
    workload: String,
    /// Seed of the targets.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Fail unless the gate meets every demand and neither of the two other ways does.
    #[arg(long)]
    judge: bool,
    /// Share of feasible shrinks that the gate must accept to be judged good. A guest that gets too little of its
    /// host misses deadlines, and the gate then refuses, rightly.
    #[arg(long, default_value_t = tally::ACCEPTED_AIM)]
    accept: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    seed: u64,
    asked: usize,
    seconds: f64,
    classes: Vec<LaneReport>,
    gate: Tally,
    bare: Tally,
    stale: Tally,
}

pub(crate) async fn run(options: Options) -> Result<()> {
    let began = Instant::now();
    let (bus, probe) = Bus::start(Probe::load(&ProbeOptions::only(WATCHES))?);
    let classes = class::all(&options.dir, &options.tmpfs);
    let until = began + Duration::from_secs(options.seconds);
    let shared = Shared {
        bus,
        state_dir: StateDir::open(Path::new("/run/enforcer-bench"))?,
        workload: options.workload.clone(),
        policy: policy(),
        left: Rc::new(Cell::new(options.shrinks)),
    };
    let mut random = fastrand::Rng::with_seed(options.seed);
    let lanes = classes.into_iter().enumerate().map(|(index, class)| {
        let lane = lane::run(shared.clone(), class, index, until, random.fork());
        tokio::task::spawn_local(lane)
    });
    let lanes: Vec<_> = lanes.collect();
    let mut reports = Vec::new();
    for lane in lanes {
        reports.push(lane.await??);
    }
    drop(shared);
    let probe = probe.await??;
    for (kind, dropped) in probe.drops()? {
        println!("ring drops {kind:?}: {dropped}");
    }
    let sum = |pick: fn(&LaneReport) -> &Tally| {
        let mut total = Tally::default();
        for report in &reports {
            total.merge(pick(report));
        }
        total
    };
    let report = Report {
        seed: options.seed,
        asked: options.shrinks,
        seconds: began.elapsed().as_secs_f64(),
        gate: sum(|report| &report.gate),
        bare: sum(|report| &report.bare),
        stale: sum(|report| &report.stale),
        classes: reports,
    };
    print(&report);
    crate::write_json("adversary", &report)?;
    if options.judge { judge(&report, options.accept) } else { Ok(()) }
}

/// Thresholds for workloads of some tens of mebibytes on an emulated machine; windows are set by class.
fn policy() -> Policy {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Policy {
        cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
        headroom_min: Bytes::from_mib(1),
        ..Policy::default()
    }
}

fn judge(report: &Report, accept: f64) -> Result<()> {
    let faults = report.gate.faults(accept);
    if !faults.is_empty() {
        bail!("the gate: {}", faults.join("; "));
    }
    for (name, tally) in [("a bare write", &report.bare), ("the stale check", &report.stale)] {
        if tally.faults(accept).is_empty() {
            bail!("{name} meets every demand as well, so this run proves nothing");
        }
    }
    // The same targets answered by one constant refusal.
    let mut refusing = Tally::default();
    (0..report.gate.feasible).for_each(|_| {
        refusing.add(&Shrink {
            over_true_minimum: tally::FEASIBLE,
            accepted: false,
            killed_in_window: false,
            killed_later: false,
            left_wrong: false,
            unseen: false,
            safe_over_true: None,
        });
    });
    if refusing.faults(accept).is_empty() {
        bail!("refusing everything would pass, so this run proves nothing");
    }
    Ok(())
}

fn print(report: &Report) {
    println!(
        "{} of {} shrinks in {:.0} s, seed {}",
        report.gate.shrinks, report.asked, report.seconds, report.seed
    );
    println!(
        "{:<18} {:>8} {:>7} {:>9} {:>9} {:>12} {:>12}",
        "class", "true min", "shrinks", "feasible", "accepted", "safe/true", "p95"
    );
    for lane in &report.classes {
        let spread = lane.gate.safe_over_true();
        let figure = |pick: fn(&crate::stats::Spread) -> f64| {
            spread.as_ref().map_or_else(|| "-".to_owned(), |spread| format!("{:.2}", pick(spread)))
        };
        println!(
            "{:<18} {:>5} MiB {:>7} {:>9} {:>9} {:>12} {:>12}",
            lane.class,
            lane.true_minimum.get() >> 20,
            lane.gate.shrinks,
            lane.gate.feasible,
            lane.gate.feasible_accepted,
            figure(|spread| spread.median),
            figure(|spread| spread.p95),
        );
        println!("    {:?}", lane.reasons);
    }
    println!(
        "{:<18} {:>8} {:>9} {:>14} {:>12} {:>14} {:>11}",
        "way", "shrinks", "accepted", "kills in window", "kills later", "false refusals", "left wrong"
    );
    for (name, tally) in
        [("gate", &report.gate), ("bare write", &report.bare), ("stale check", &report.stale)]
    {
        println!(
            "{name:<18} {:>8} {:>9} {:>14} {:>12} {:>14} {:>11}",
            tally.shrinks,
            tally.accepted,
            tally.kills_in_window,
            tally.kills_later,
            tally.false_refusals,
            tally.left_wrong
        );
    }
    if let Some(spread) = report.gate.safe_over_true() {
        println!(
            "safe minimum over true minimum: median {:.2}, p95 {:.2}, n {}",
            spread.median, spread.p95, spread.n
        );
    }
}
