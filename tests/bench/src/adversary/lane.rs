//! One class, shrunk over and over in three ways side by side.

use super::oracle;
use super::tally::{Shrink, Tally};
use crate::instance::{Class, Instance};
use anyhow::{Context, Result};
use enforcer::actuate::{SessionOptions, StateDir};
use enforcer::cgroup::Cgroup;
use enforcer::shrink::{self, Bus, NoObserver, Plan};
use enforcer_gate::{Bytes, Certificate, Micros, Policy, Reason, Request, Verdict};
use serde::Serialize;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::Instant;

/// The stale check compares with usage of this age, in periods: 10 s for a workload that repeats itself
/// every 10 s.
const STALE_PERIODS: u32 = 1;

/// What everything in a run shares.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) bus: Bus,
    pub(crate) state_dir: StateDir,
    pub(crate) workload: String,
    pub(crate) policy: Policy,
    /// Shrinks that no lane has begun yet.
    pub(crate) left: Rc<Cell<usize>>,
}

impl Shared {
    /// Takes one shrink from those that are left.
    fn take(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left > 0
    }
}

/// What one class gave.
#[derive(Debug, Serialize)]
pub(crate) struct LaneReport {
    pub(crate) class: String,
    pub(crate) true_minimum: Bytes,
    pub(crate) gate: Tally,
    pub(crate) bare: Tally,
    pub(crate) stale: Tally,
    /// How the gate's answers ended, by reason.
    pub(crate) reasons: std::collections::BTreeMap<String, usize>,
}

/// Shrinks one class until none are left to do or `until` has come.
pub(crate) async fn run(
    shared: Shared,
    class: Class,
    index: usize,
    until: Instant,
    mut random: fastrand::Rng,
) -> Result<LaneReport> {
    let name = |way: &str| format!("adversary-{index}-{way}");
    let mut gated = Instance::start(&class, &shared.workload, &name("gate")).await?;
    let mut bare = Instance::start(&class, &shared.workload, &name("bare")).await?;
    let mut stale = Instance::start(&class, &shared.workload, &name("stale")).await?;
    let true_minimum = oracle::true_minimum(&mut bare).await.with_context(|| class.name.clone())?;
    let mut report = LaneReport {
        class: class.name.clone(),
        true_minimum,
        gate: Tally::default(),
        bare: Tally::default(),
        stale: Tally::default(),
        reasons: std::collections::BTreeMap::new(),
    };
    while Instant::now() < until && shared.take() {
        // From half of what is needed to well above it, but always a real shrink.
        let most = class.limit.get().min(true_minimum.get() * 2);
        let target = Bytes::new(random.u64(true_minimum.get() / 2..most)).page_floor();
        let over = ratio(target, true_minimum);
        let (by_gate, by_write, by_check) = tokio::join!(
            gate(&shared, &mut gated, target, over, true_minimum),
            bare_write(&mut bare, target, over),
            stale_check(&mut stale, target, over),
        );
        let (by_gate, reason) = by_gate?;
        if by_gate.killed_in_window || by_gate.left_wrong {
            eprintln!("{}: target {} over {over:.2}: {by_gate:?} {reason}", class.name, target.get());
        }
        *report.reasons.entry(reason).or_default() += 1;
        report.gate.add(&by_gate);
        report.bare.add(&by_write?);
        report.stale.add(&by_check?);
    }
    for instance in [&mut gated, &mut bare, &mut stale] {
        instance.stop().await?;
    }
    Ok(report)
}

#[expect(clippy::cast_precision_loss, reason = "sizes of test workloads are far below 2^52")]
fn ratio(a: Bytes, b: Bytes) -> f64 {
    a.get() as f64 / b.get() as f64
}

async fn gate(
    shared: &Shared,
    instance: &mut Instance,
    target: Bytes,
    over: f64,
    true_minimum: Bytes,
) -> Result<(Shrink, String)> {
    instance.reset().await?;
    let plan = Plan {
        cgroup: Cgroup::open(instance.cgroup.path())?,
        request: Request { target, dry_run: false, pressure_killer: None, by_other: false },
        policy: windows(&shared.policy, instance.class().period),
        state_dir: Some(shared.state_dir.clone()),
        session: SessionOptions::default(),
        cancel: None,
    };
    let certificate = shrink::run(plan, &shared.bus, &mut NoObserver).await?;
    let killed_in_window = instance.killed()?;
    let accepted = certificate.verdict == Verdict::Committed;
    let expected = if accepted { target } else { instance.class().limit };
    let left_wrong =
        instance.limit("memory.max") != expected.get().to_string() || instance.limit("memory.high") != "max";
    let mut killed_later = false;
    if accepted {
        tokio::time::sleep(instance.class().period * 2).await;
        killed_later = instance.killed()? && !killed_in_window;
    }
    let safe_over_true = named_minimum(&certificate).map(|safe| ratio(safe, true_minimum));
    let shrink = Shrink {
        over_true_minimum: over,
        accepted,
        killed_in_window,
        killed_later,
        left_wrong,
        unseen: is_unseen(&certificate.verdict),
        safe_over_true,
    };
    Ok((shrink, reason(&certificate)))
}

/// Whether the machine did not get to look in time.
fn is_unseen(verdict: &Verdict) -> bool {
    matches!(
        verdict,
        Verdict::Refused(Reason::Unseen { .. } | Reason::Deadline { .. })
            | Verdict::RolledBack(Reason::Unseen { .. } | Reason::Deadline { .. })
    )
}

fn named_minimum(certificate: &Certificate) -> Option<Bytes> {
    if certificate.verdict == Verdict::Refused(Reason::BelowSafeMinimum) {
        certificate.safe_minimum
    } else {
        None
    }
}

fn reason(certificate: &Certificate) -> String {
    let text = format!("{:?}", certificate.verdict);
    text.split(['{', ' ']).next().unwrap_or_default().trim_end_matches(')').to_owned()
}

/// Windows in proportion to the workload's period, as a user would set them.
pub(crate) fn windows(policy: &Policy, period: Duration) -> Policy {
    let period = Micros::new(u64::try_from(period.as_micros()).unwrap_or(u64::MAX));
    Policy {
        observe_window: period.scaled(5, 4),
        trial_window: period.scaled(3, 2),
        watch_window: period.scaled(5, 4),
        // Reading a cgroup takes milliseconds under emulation; kernel events make it look sooner where it matters.
        sample_interval: period.scaled(1, 6),
        back_off: Micros::ZERO,
        ..policy.clone()
    }
}

async fn after(instance: &mut Instance, over: f64, accepted: bool) -> Result<Shrink> {
    tokio::time::sleep(instance.class().period * 2).await;
    let killed = instance.killed()?;
    Ok(Shrink {
        over_true_minimum: over,
        accepted,
        killed_in_window: killed,
        killed_later: false,
        left_wrong: false,
        unseen: false,
        safe_over_true: None,
    })
}

async fn bare_write(instance: &mut Instance, target: Bytes, over: f64) -> Result<Shrink> {
    instance.reset().await?;
    instance.write_max(target).await?;
    after(instance, over, true).await
}

/// Refuses where a usage that is some time old is at or above the target, as a comparison with a cached
/// figure does.
async fn stale_check(instance: &mut Instance, target: Bytes, over: f64) -> Result<Shrink> {
    instance.reset().await?;
    let age = instance.class().period * STALE_PERIODS;
    let usage = instance.usage()?;
    tokio::time::sleep(age).await;
    let accepted = usage < target.get();
    if accepted {
        instance.write_max(target).await?;
    }
    after(instance, over, accepted).await
}
