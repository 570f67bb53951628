//! The race that is left: a cgroup that grows between the guard's check and the new limit.

use super::{Options, enforcing};
use crate::instance::{Class, Instance};
use anyhow::{Context, Result, ensure};
use enforcer::probe::{Event, Need, Probe, ProbeOptions};
use enforcer_gate::{Bytes, CgroupId};
use fastrand::Rng;
use serde::Serialize;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::time::Duration;

/// Limits lie up to so far above the lowest that the guard lets through: what happens beyond is no race.
const ABOVE_MAX: u64 = 1 << 20;
/// 512 KiB is what the guest's two CPUs can charge unseen.
const MARGINS_KIB: [u64; 4] = [0, 256, 512, 1024];

/// What came of the writes in one way.
#[derive(Debug, Default, Clone, Serialize)]
pub(super) struct Outcome {
    /// KiB; absent without a guard.
    margin_kib: Option<u64>,
    writes: usize,
    denied: usize,
    /// The write itself found more in use than its limit, and killed.
    killed_by_write: usize,
    /// The cgroup ran into the new limit before it was raised again.
    killed_later: usize,
}

/// Two processes that take 24 MiB page by page, give it back and begin again.
fn class() -> Class {
    let command = "bursts --base 4Mi --burst 24Mi --period 20ms --duty 1ms";
    let command: Vec<String> = command.split(' ').map(String::from).collect();
    Class {
        name: "grows and falls".into(),
        commands: vec![command.clone(), command],
        limit: Bytes::from_mib(128),
        period: Duration::from_millis(20),
        once: false,
    }
}

pub(super) async fn run(options: &Options) -> Result<Vec<Outcome>> {
    let mut instance = Instance::start(&class(), &options.workload, "race").await?;
    instance.cgroup.write_if_there("memory.swap.max", "0");
    let mut random = Rng::with_seed(options.seed);
    let mut probe = Probe::load(&ProbeOptions::only([Need::OomKill]))?;
    let ways: Vec<_> = std::iter::once(None).chain(MARGINS_KIB.map(Some)).collect();
    let mut outcomes: Vec<_> =
        ways.iter().map(|margin_kib| Outcome { margin_kib: *margin_kib, ..Outcome::default() }).collect();
    for _ in 0..options.rounds {
        for outcome in &mut outcomes {
            ensure!(!instance.cgroup.pids().is_empty(), "nobody is there who could grow");
            let _guard = outcome
                .margin_kib
                .map(|kib| enforcing(&instance.cgroup, Bytes::new(kib << 10)))
                .transpose()?;
            for _ in 0..options.writes.div_ceil(options.rounds) {
                attempt(&mut instance, &mut probe, &mut random, outcome).await?;
            }
        }
    }
    instance.stop().await?;
    Ok(outcomes)
}

async fn attempt(
    instance: &mut Instance,
    probe: &mut Probe,
    random: &mut Rng,
    outcome: &mut Outcome,
) -> Result<()> {
    let mut file = File::options().write(true).open(instance.cgroup.path().join("memory.max"))?;
    let above_max = ABOVE_MAX + (outcome.margin_kib.unwrap_or(0) << 10);
    let limit = instance.usage()? + random.u64(0..above_max);
    outcome.writes += 1;
    match file.write(limit.to_string().as_bytes()) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ResourceBusy => outcome.denied += 1,
        Err(error) => return Err(error).context("write memory.max"),
    }
    // Before anything else grows into it.
    file.write_all(b"max").context("write memory.max")?;
    let id = Some(CgroupId::new(instance.cgroup.id()));
    let (mut by_write, mut later) = (0, 0);
    probe.drain(|event| {
        if let Event::OomKill(kill) = event
            && kill.victim.cgroup == id
            && !kill.exiting
        {
            let own = kill.trigger.tgid == std::process::id();
            (by_write, later) = (by_write + usize::from(own), later + usize::from(!own));
        }
    })?;
    outcome.killed_by_write += by_write;
    outcome.killed_later += later;
    if by_write + later > 0 || instance.killed()? {
        // All of them: one that is killed may not have died yet.
        instance.stop().await?;
        instance.reset().await?;
    }
    Ok(())
}

pub(super) fn print(outcomes: &[Outcome]) {
    println!(
        "{:<16} {:>8} {:>8} {:>16} {:>13}",
        "margin", "writes", "denied", "killed by write", "killed later"
    );
    for Outcome { margin_kib, writes, denied, killed_by_write, killed_later } in outcomes {
        let way = margin_kib.map_or("no guard".into(), |kib| format!("{kib} KiB"));
        println!("{way:<16} {writes:>8} {denied:>8} {killed_by_write:>16} {killed_later:>13}");
    }
}
