//! From an OOM kill to somebody knowing of it: the kernel programs, inotify on `memory.events`, the kernel log.

mod recorder;
mod watchers;

use crate::stats::Spread;
use anyhow::{Context, Result, ensure};
use clap::Args;
use enforcer_vm_tests::scratch::Scratch;
use enforcer_vm_tests::workload::Workload;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use watchers::{Seen, Way};

/// What to run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Kills one after another, whose latency is taken.
    #[arg(long, default_value_t = 300)]
    latency: usize,
    /// Kills as fast as they come, which are counted.
    #[arg(long, default_value_t = 10_000)]
    count: usize,
    /// Processes that are killed side by side while counting.
    #[arg(long, default_value_t = 4)]
    parallel: usize,
    /// Bytes of the ring buffer while counting.
    #[arg(long, default_value_t = 4 << 20)]
    ring: u32,
    /// Do not read the ring buffer until all kills are done, so that it overflows where it is too small.
    #[arg(long)]
    late: bool,
    /// A directory on a disk file system, for the recorder's store.
    #[arg(long, default_value = "/data")]
    dir: PathBuf,
    /// The workload program.
    #[arg(long, default_value = "/bin/enforcer-workload")]
    workload: String,
}

#[derive(Debug, Serialize)]
struct Report {
    /// Microseconds from the mark in the kernel, by way of hearing.
    latency_us: BTreeMap<&'static str, Spread>,
    /// Kills of the latency run that a way never told apart from others.
    coalesced: BTreeMap<&'static str, usize>,
    counted: Counted,
    /// The same through the recorder and its store.
    recorded: Counted,
}

#[derive(Debug, Serialize)]
struct Counted {
    /// By the wait status of each process.
    died: u64,
    /// By `memory.events.local`.
    oom_kill: u64,
    /// Records that arrived.
    records: u64,
    /// Records that the ring had no room for.
    dropped: u64,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let latency = latency(options)?;
    let counted = count(options)?;
    let recorded = recorder::count(options)?;
    println!(
        "{:<14} {:>6} {:>10} {:>10} {:>10} {:>10}",
        "way", "kills", "median us", "p95 us", "max us", "coalesced"
    );
    for (way, spread) in &latency.0 {
        let coalesced = latency.1.get(way).copied().unwrap_or(0);
        println!(
            "{way:<14} {:>6} {:>10.0} {:>10.0} {:>10.0} {coalesced:>10}",
            spread.n, spread.median, spread.p95, spread.max
        );
    }
    for (what, Counted { died, oom_kill, records, dropped }) in
        [("by the ring", &counted), ("by the recorder's store", &recorded)]
    {
        println!(
            "{what}: {died} processes died of SIGKILL, memory.events.local says {oom_kill}, {records} records, \
             {dropped} dropped and counted",
        );
        ensure!(records + dropped == *oom_kill, "records and drops don't add up to the kills");
    }
    let report = Report { latency_us: latency.0, coalesced: latency.1, counted, recorded };
    crate::write_json("oom", &report)
}

type Latency = (BTreeMap<&'static str, Spread>, BTreeMap<&'static str, usize>);

/// One kill at a time; the mark's time in the kernel is the beginning for all three ways.
fn latency(options: &Options) -> Result<Latency> {
    let cgroup = Scratch::new("oom-latency");
    cgroup.write("memory.max", "4M");
    cgroup.write("memory.swap.max", "0");
    let stop = Arc::new(AtomicBool::new(false));
    let heard = watchers::start(&cgroup, &stop)?;
    let mut workload = Workload::launch(
        &options.workload,
        &cgroup,
        &format!("kill-loop --n {} --parallel 1 --size 64Mi", options.latency),
    );
    ensure!(workload.finish().success() || cgroup.kills() > 0, "the workload failed");
    let kills = usize::try_from(cgroup.kills())?;
    stop.store(true, Ordering::Release);
    let seen: BTreeMap<Way, Vec<Seen>> = heard
        .into_iter()
        .map(|(way, thread)| Ok((way, thread.join().map_err(|_| anyhow::anyhow!("a watcher panicked"))??)))
        .collect::<Result<_>>()?;
    let marks: BTreeMap<u32, u64> =
        seen[&Way::Ring].iter().filter_map(|seen| Some((seen.pid?, seen.marked_ns?))).collect();
    let mut spreads = BTreeMap::new();
    let mut coalesced = BTreeMap::new();
    for (way, seen) in &seen {
        let latencies: Vec<f64> = seen.iter().filter_map(|seen| seen.latency_us(&marks)).collect();
        spreads.insert(way.name(), Spread::of(&latencies).with_context(|| format!("{way:?} heard nothing"))?);
        coalesced.insert(way.name(), kills.saturating_sub(seen.len()));
    }
    Ok((spreads, coalesced))
}

/// Many kills at once, against two independent truths.
fn count(options: &Options) -> Result<Counted> {
    use enforcer::probe::{Event, Need, Probe, ProbeOptions};
    let cgroup = Scratch::new("oom-count");
    cgroup.write("memory.max", "16M");
    cgroup.write("memory.swap.max", "0");
    let id = enforcer_gate::CgroupId::new(cgroup.id());
    let mut probe =
        Probe::load(&ProbeOptions { ring_bytes: options.ring, ..ProbeOptions::only([Need::OomKill]) })?;
    let mut workload = Workload::launch(
        &options.workload,
        &cgroup,
        &format!("kill-loop --n {} --parallel {} --size 64Mi", options.count, options.parallel),
    );
    let mut records = 0;
    let mut died = String::new();
    let mut hear = |probe: &mut Probe| {
        probe.drain(|event| {
            if let Event::OomKill(kill) = event {
                records += u64::from(kill.victim.cgroup == Some(id) && !kill.exiting);
            }
        })
    };
    while workload.alive() {
        if !options.late {
            hear(&mut probe)?;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    loop {
        let line = workload.line();
        if line.is_empty() {
            break;
        }
        died = line;
    }
    hear(&mut probe)?;
    let oom_kill = cgroup.kills();
    let died = died.strip_prefix("kill-loop killed ").and_then(|rest| rest.split(' ').next()?.parse().ok());
    let dropped = probe.drops()?.get(&enforcer::probe::Kind::OomKill).copied().unwrap_or(0);
    Ok(Counted { died: died.context("the workload gave no count")?, oom_kill, records, dropped })
}
