//! What the kernel programs cost: time an event by program, and a workload with and without them.

use crate::clock::{milliseconds, now_ns};
use crate::stats::Spread;
use anyhow::{Context, Result};
use clap::Args;
use enforcer::probe::{Probe, ProbeOptions};
use enforcer_gate::CgroupId;
use enforcer_vm_tests::scratch::Scratch;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

/// What to run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Pairs: without, with, without, with, ...
    #[arg(long, default_value_t = 7)]
    pairs: usize,
    /// Rounds of the workload in one measurement.
    #[arg(long, default_value_t = 4)]
    rounds: usize,
    /// A directory on a disk file system.
    #[arg(long, default_value = "/data")]
    dir: PathBuf,
}

#[derive(Debug, Serialize)]
struct Report {
    /// Time without, with and the ratio of each pair, by workload.
    paired: BTreeMap<&'static str, Paired>,
    programs: Vec<Program>,
}

#[derive(Debug, Serialize)]
struct Paired {
    without_ms: Spread,
    with_ms: Spread,
    with_over_without: Spread,
}

#[derive(Debug, Serialize)]
struct Program {
    name: &'static str,
    events: u64,
    ns_per_event: f64,
}

const MIB: usize = 1 << 20;
/// Memory that is mapped, touched and given back in a round.
const HEAP: usize = 32 * MIB;
/// A file that is larger than the limit under which it is read; what the loader itself needs fits beside it.
const FILE: usize = 96 * MIB;

pub(crate) fn run(options: &Options) -> Result<()> {
    let cgroup = Scratch::new("cost");
    cgroup.write("memory.max", "160M");
    cgroup.write("cgroup.procs", &std::process::id().to_string());
    let file = options.dir.join("cost");
    std::fs::write(&file, vec![1_u8; FILE])?;
    let mut times: BTreeMap<&'static str, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    let mut costs = Vec::new();
    for _ in 0..options.pairs {
        for with in [false, true] {
            let probe = with.then(|| Probe::load(&ProbeOptions::default())).transpose()?;
            let mut probe = probe;
            if let Some(probe) = &mut probe {
                probe.watch(CgroupId::new(cgroup.id()))?;
            }
            for (name, limit, work) in workloads() {
                cgroup.write("memory.max", limit);
                let began = now_ns();
                for _ in 0..options.rounds {
                    work(&file)?;
                }
                let took = milliseconds(began, now_ns());
                let entry = times.entry(name).or_default();
                if with {
                    entry.1.push(took);
                } else {
                    entry.0.push(took);
                }
                if let Some(probe) = &mut probe {
                    probe.drain(|_| {})?;
                }
            }
            if let Some(probe) = probe {
                costs = probe.costs()?;
            }
        }
    }
    std::fs::write("/sys/fs/cgroup/cgroup.procs", std::process::id().to_string())?;
    std::fs::remove_file(&file)?;
    report(&times, &costs)
}

type Work = fn(&PathBuf) -> Result<()>;

/// Name, limit, one round.
fn workloads() -> [(&'static str, &'static str, Work); 2] {
    [("allocate, touch, free 32 MiB", "160M", allocate), ("read 96 MiB under a limit of 64 MiB", "64M", read)]
}

#[expect(clippy::unnecessary_wraps, reason = "the type that all workloads share")]
fn allocate(_file: &PathBuf) -> Result<()> {
    let mut heap = vec![0_u8; HEAP];
    for page in heap.chunks_mut(4096) {
        page[0] = 1;
    }
    std::hint::black_box(&heap);
    Ok(())
}

fn read(path: &PathBuf) -> Result<()> {
    let mut file = std::fs::File::open(path)?;
    let mut buffer = vec![0_u8; MIB];
    while file.read(&mut buffer)? > 0 {}
    Ok(())
}

fn report(
    times: &BTreeMap<&'static str, (Vec<f64>, Vec<f64>)>,
    costs: &[enforcer::probe::ProgramCost],
) -> Result<()> {
    let mut paired = BTreeMap::new();
    println!(
        "{:<36} {:>12} {:>12} {:>10} {:>17}",
        "workload", "without ms", "with ms", "ratio", "ratio min..max"
    );
    for (name, (without, with)) in times {
        let ratios: Vec<f64> = without.iter().zip(with).map(|(without, with)| with / without).collect();
        let spread = |values: &[f64]| Spread::of(values).context("no pair");
        let figures = Paired {
            without_ms: spread(without)?,
            with_ms: spread(with)?,
            with_over_without: spread(&ratios)?,
        };
        let ratio = figures.with_over_without;
        println!(
            "{name:<36} {:>12.1} {:>12.1} {:>10.3} {:>8.3}..{:<8.3}",
            figures.without_ms.median, figures.with_ms.median, ratio.median, ratio.min, ratio.max
        );
        paired.insert(*name, figures);
    }
    println!("{:<36} {:>12} {:>14}", "program", "events", "ns per event");
    let mut programs = Vec::new();
    for cost in costs.iter().filter(|cost| cost.count > 0) {
        #[expect(clippy::cast_precision_loss, reason = "nanoseconds of one run are far below 2^52")]
        let ns_per_event = cost.total_ns as f64 / cost.count as f64;
        println!("{:<36} {:>12} {ns_per_event:>14.0}", cost.program.name(), cost.count);
        programs.push(Program { name: cost.program.name(), events: cost.count, ns_per_event });
    }
    crate::write_json("cost", &Report { paired, programs })
}
