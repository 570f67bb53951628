//! From what is decided to that it is in force and read back, through the runtime.

use super::{Crowd, Options, limits};
use crate::clock::{milliseconds, now_ns};
use crate::stats::Spread;
use anyhow::{Context, Result, bail};
use enforcer::actuate::StateDir;
use enforcer::cgroup::Mount;
use enforcer::cri::{Client, DEADLINE};
use enforcer::inventory::{Container, Locator, Pod, Survey};
use enforcer::probe::{Probe, ProbeOptions};
use enforcer::resize::{Actor, Ask, Gate, Of, Via};
use enforcer::shrink::{Bus, Cancel, Observer, WATCHES};
use enforcer_gate::{
    Action, Bytes, Command, CommandId, Instant, Limit, Micros, Outcome as GateOutcome, Policy, Progress,
    Signal, Verdict,
};
use enforcer_vm_tests::node::Program;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

const HIGH: i64 = 128;
const LOW: u64 = 64;
const IN_USE: u32 = 20;

/// One leg of a change, in milliseconds.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    leg: &'static str,
    milliseconds: Spread,
}

const COMMIT: &str = "shrink: decision to commit -> limit written and read back in the cgroup";
const TOLD: &str = "shrink: certificate -> runtime told, session ended, all read back";
const RAISE: &str = "raise: asked -> looked at, runtime told, read back";

pub(super) async fn run(crowd: &mut Crowd, options: &Options) -> Result<Vec<Outcome>> {
    let sandbox = crowd.node.run_pod("resized", &[]);
    let id = crowd.node.run(&sandbox, "app", &limits(HIGH), Program::Holds(IN_USE));
    let mount = Arc::new(Mount::discover()?);
    let client = Client::connect(crowd.node.socket(), DEADLINE * 6).await?;
    let listing = Survey::new(client.clone(), Locator::new(Arc::clone(&mount))).all().await?;
    let container = listing.containers.iter().find(|one| one.id == id).context("it is listed")?;
    let pod = listing.pods.iter().find(|one| one.sandbox == sandbox).context("its pod is listed")?;
    let rig = Rig { actor: Actor::new(client, mount), of: (pod, container), folder: tempfile::tempdir()? };
    let (bus, probe) = Bus::start(Probe::load(&ProbeOptions::only(WATCHES))?);
    let mut legs = BTreeMap::<&'static str, Vec<f64>>::new();
    for _ in 0..options.changes {
        let marks = rig.shrink(&bus).await?;
        let whole = |from: Option<u64>, to: Option<u64>| from.zip(to).context("a mark is missing");
        let (asked, done) = whole(marks.asked_ns, marks.done_ns)?;
        let (certified, ended) = whole(marks.certified_ns, marks.ended_ns)?;
        legs.entry(COMMIT).or_default().push(milliseconds(asked, done));
        legs.entry(TOLD).or_default().push(milliseconds(certified, ended));
        legs.entry(RAISE).or_default().push(rig.raise().await?);
    }
    drop(bus);
    drop(probe.await??);
    crowd.node.remove_pod(&sandbox);
    println!("{:<72} {:>4} {:>10} {:>10} {:>10}", "leg of a change", "n", "median ms", "p95 ms", "max ms");
    let mut outcomes = Vec::new();
    for (leg, values) in legs {
        let spread = Spread::of(&values).context("nothing was changed")?;
        println!(
            "{leg:<72} {:>4} {:>10.2} {:>10.2} {:>10.2}",
            spread.n, spread.median, spread.p95, spread.max
        );
        outcomes.push(Outcome { leg, milliseconds: spread });
    }
    Ok(outcomes)
}

struct Rig<'a> {
    actor: Actor,
    of: (&'a Pod, &'a Container),
    folder: tempfile::TempDir,
}

impl Rig<'_> {
    async fn shrink(&self, bus: &Bus) -> Result<Marks> {
        let mut marks = Marks::default();
        let policy = Policy {
            observe_window: Micros::from_millis(200),
            trial_window: Micros::from_millis(500),
            watch_window: Micros::from_millis(200),
            ..Policy::default()
        };
        let gate = Gate {
            bus,
            policy,
            state_dir: StateDir::open(self.folder.path())?,
            observer: &mut marks,
            cancel: Some(Cancel::new()),
        };
        let (pod, container) = self.of;
        let outcome = self.actor.shrink(container, pod, Bytes::from_mib(LOW), Via::Cri, gate).await?;
        marks.ended_ns = Some(now_ns());
        match &outcome.certificate {
            Some(certificate) if certificate.verdict == Verdict::Committed => {}
            other => bail!("the shrink did not go through: {other:?}"),
        }
        anyhow::ensure!(outcome.mismatches.is_empty(), "{:?}", outcome.mismatches);
        Ok(marks)
    }

    /// Milliseconds.
    async fn raise(&self) -> Result<f64> {
        let (pod, container) = self.of;
        let high = Bytes::new(u64::try_from(HIGH << 20)?);
        let ask = Ask { memory: Some(Limit::Bytes(high)), ..Ask::default() };
        let began = now_ns();
        let outcome = self.actor.resize(Of { pod, container }, &ask, Via::Cri, None).await?;
        let took = milliseconds(began, now_ns());
        anyhow::ensure!(outcome.why().is_none(), "{:?}", outcome.why());
        Ok(took)
    }
}

/// When it decided to commit, had committed, had a certificate, and had ended.
#[derive(Debug, Default)]
struct Marks {
    commit: Option<CommandId>,
    asked_ns: Option<u64>,
    done_ns: Option<u64>,
    certified_ns: Option<u64>,
    ended_ns: Option<u64>,
}

impl Observer for Marks {
    fn signal(&mut self, _now: Instant, _signal: &Signal) {}
    fn outcome(&mut self, _now: Instant, outcome: &GateOutcome) {
        if Some(outcome.id) == self.commit {
            self.done_ns = Some(now_ns());
        }
    }
    fn note(&mut self, _now: Instant, _text: &str) {}
    fn afterwards(&mut self, _text: &str) {}
    fn command(&mut self, now: Instant, command: &Command) {
        if matches!(command.action, Action::Commit { .. }) {
            self.commit = Some(command.id);
            self.asked_ns = Some(now.get() * 1000);
        }
    }
    fn timeout(&mut self, _now: Instant) {}
    fn progress(&mut self, _now: Instant, _progress: &Progress) {
        // The last of them comes with the certificate.
        self.certified_ns = Some(now_ns());
    }
}
