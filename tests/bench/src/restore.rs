//! From the first sign in the kernel that a brake bites to the limit raised again: the gate on eBPF, against
//! somebody who polls `memory.events`.

use crate::clock::{milliseconds, now_ns};
use crate::instance::{Class, Instance};
use crate::stats::Spread;
use anyhow::{Context, Result};
use clap::Args;
use enforcer::actuate::{SessionOptions, StateDir};
use enforcer::cgroup::Cgroup;
use enforcer::probe::{Event, Probe, ProbeOptions};
use enforcer::shrink::{self, Bus, Heard, Observer, Plan, WATCHES};
use enforcer_gate::{
    Action, Bytes, CgroupId, Command, CommandId, Instant, Micros, Outcome, Policy, Progress, Request, Signal,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// What to run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Rounds: gate, poll every 10 ms, poll every 100 ms, gate, ...
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// The workload program.
    #[arg(long, default_value = "/bin/enforcer-workload")]
    workload: String,
}

/// A workload that is idle at first sight and then needs three times as much.
fn class() -> Class {
    let line = "bursts --base 16Mi --burst 48Mi --period 3s --duty 500ms";
    Class {
        name: "burst of 48 MiB on 16 MiB".into(),
        commands: vec![line.split_whitespace().map(str::to_owned).collect()],
        limit: Bytes::from_mib(96),
        period: Duration::from_secs(3),
        once: true,
    }
}

const TARGET: Bytes = Bytes::from_mib(32);

pub(crate) async fn run(options: Options) -> Result<()> {
    let (bus, probe) = Bus::start(Probe::load(&ProbeOptions::only(WATCHES))?);
    let mut instance = Instance::start(&class(), &options.workload, "restore").await?;
    let mut latencies: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    let mut legs: [Vec<f64>; 3] = Default::default();
    let mut killed = 0;
    for _ in 0..options.rounds {
        for way in ["gate", "poll 10 ms", "poll 100 ms"] {
            instance.reset().await?;
            let latency = match way {
                "gate" => {
                    let times = by_gate(&instance, &bus).await?;
                    if let Some([crossed, heard, decided, restored]) = times {
                        for (leg, (from, to)) in
                            legs.iter_mut().zip([(crossed, heard), (heard, decided), (decided, restored)])
                        {
                            leg.push(milliseconds(from, to));
                        }
                    }
                    times.map(|[crossed, .., restored]| milliseconds(crossed, restored))
                }
                "poll 10 ms" => by_polling(&instance, &bus, Duration::from_millis(10)).await?,
                _ => by_polling(&instance, &bus, Duration::from_millis(100)).await?,
            };
            killed += usize::from(instance.killed()?);
            latencies.entry(way).or_default().extend(latency);
        }
    }
    instance.stop().await?;
    drop(bus);
    drop(probe.await??);
    println!("{}: first crossing of the brake to the brake lifted, {killed} killed", class().name);
    println!("{:<14} {:>6} {:>12} {:>12} {:>12}", "way", "n", "median ms", "p95 ms", "max ms");
    let mut report: BTreeMap<&str, Spread> = BTreeMap::new();
    for (way, values) in &latencies {
        let spread = Spread::of(values).with_context(|| format!("{way} lifted no brake"))?;
        println!(
            "{way:<14} {:>6} {:>12.2} {:>12.2} {:>12.2}",
            spread.n, spread.median, spread.p95, spread.max
        );
        report.insert(way, spread);
    }
    for (name, leg) in ["kernel to loop", "loop to decision", "decision to lifted"].into_iter().zip(&legs) {
        if let Some(spread) = Spread::of(leg) {
            println!("  gate, {name:<20} median {:>7.2} ms, p95 {:>7.2} ms", spread.median, spread.p95);
        }
    }
    crate::write_json("restore", &report)
}

/// When the brake was asked for, and when it was off again.
#[derive(Debug, Default)]
struct Watch {
    braked: Option<CommandId>,
    braked_ns: Option<u64>,
    /// The first crossing after that reached the loop.
    heard_ns: Option<u64>,
    decided_ns: Option<u64>,
    restoring: Option<CommandId>,
    restored_ns: Option<u64>,
}

impl Observer for Watch {
    fn signal(&mut self, _now: Instant, signal: &Signal) {
        if *signal == Signal::ReclaimBegin && self.braked_ns.is_some() && self.heard_ns.is_none() {
            self.heard_ns = Some(now_ns());
        }
    }
    fn outcome(&mut self, _now: Instant, outcome: &Outcome) {
        if Some(outcome.id) == self.braked {
            self.braked_ns = Some(now_ns());
        }
        if Some(outcome.id) == self.restoring && self.restored_ns.is_none() {
            self.restored_ns = Some(now_ns());
        }
    }
    fn command(&mut self, _now: Instant, command: &Command) {
        match command.action {
            Action::SetBrake { .. } => self.braked = Some(command.id),
            Action::Restore { .. } if self.restoring.is_none() => {
                self.restoring = Some(command.id);
                self.decided_ns = Some(now_ns());
            }
            Action::Observe | Action::Reclaim { .. } | Action::Commit { .. } | Action::Restore { .. } => {}
        }
    }
    fn note(&mut self, _now: Instant, _text: &str) {}
    fn afterwards(&mut self, _text: &str) {}
    fn timeout(&mut self, _now: Instant) {}
    fn progress(&mut self, _now: Instant, _progress: &Progress) {}
}

/// When the brake was first crossed, when the loop heard of it, when the gate decided and when the brake was off.
async fn by_gate(instance: &Instance, bus: &Bus) -> Result<Option<[u64; 4]>> {
    let mut heard = bus.subscribe();
    let id = CgroupId::new(instance.cgroup.id());
    let plan = Plan {
        cgroup: Cgroup::open(instance.cgroup.path())?,
        request: Request { target: TARGET, dry_run: false, pressure_killer: None, by_other: false },
        policy: Policy {
            observe_window: Micros::from_millis(300),
            trial_window: Micros::from_secs(10),
            ..Policy::default()
        },
        state_dir: Some(StateDir::open(Path::new("/run/enforcer-bench"))?),
        session: SessionOptions::default(),
        cancel: None,
    };
    let mut watch = Watch::default();
    drop(shrink::run(plan, bus, &mut watch).await?);
    let mut first = Vec::new();
    // The subscription kept what came meanwhile.
    while let Ok(Ok(next)) = tokio::time::timeout(Duration::from_millis(50), heard.next()).await {
        first.extend(crossing(&next, id));
    }
    let braked = watch.braked_ns.unwrap_or(u64::MAX);
    let crossed = first.into_iter().find(|at| *at > braked);
    let times = [crossed, watch.heard_ns, watch.decided_ns, watch.restored_ns];
    let times: Vec<u64> = times.into_iter().flatten().collect();
    Ok(times.try_into().ok())
}

fn crossing(heard: &Heard, id: CgroupId) -> Option<u64> {
    let Heard::Event(event) = heard else { return None };
    let Event::ReclaimBegin(begin) = &**event else { return None };
    (begin.cgroup == id).then_some(begin.at_ns)
}

/// The same brake, and somebody who looks at `memory.events` now and then.
async fn by_polling(instance: &Instance, bus: &Bus, interval: Duration) -> Result<Option<f64>> {
    let mut heard = bus.subscribe();
    let id = CgroupId::new(instance.cgroup.id());
    bus.watch(id).await?;
    let brake = enforcer_gate::brake_for(TARGET, &Policy::default());
    instance.cgroup.write("memory.high", &brake.get().to_string());
    let braked = now_ns();
    let before = instance.cgroup.counter("memory.events", "high");
    let mut ticks = tokio::time::interval(interval);
    while instance.cgroup.counter("memory.events", "high") == before {
        ticks.tick().await;
    }
    instance.cgroup.write("memory.high", "max");
    let restored = now_ns();
    bus.unwatch(id).await?;
    let mut crossed = None;
    while let Ok(Ok(next)) = tokio::time::timeout(Duration::from_millis(50), heard.next()).await {
        crossed = crossed.or(crossing(&next, id).filter(|at| *at > braked));
    }
    Ok(crossed.map(|crossed| milliseconds(crossed, restored)))
}
