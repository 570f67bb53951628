//! How each metric is made of the figures. No I/O.

use super::{
    definitions::Metric,
    gauges::{ContainerGauges, GuardGauges, NodeGauges, OverheadGauges},
    labels::{EXTENTS, MODES, STATES, UNKNOWN, word},
    own::Own,
    spread::Spread,
    state::State,
};
use crate::{
    guard::{Count, GuardMode, Reason, Verdict},
    probe::{Program, ProgramCost},
};
use enforcer_gate::{Bytes, Limit, Micros};
use std::collections::BTreeMap;

/// One series' value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    Whole(u64),
    Span(Micros),
    /// Nanoseconds: a kernel program runs for less than a microsecond.
    Nanos(u64),
    Spread(&'a Spread),
}

/// Told of each series: the values of its labels, and its own.
type Tell<'a> = dyn FnMut(&[&str], Value<'_>) + 'a;

/// Tells every series of a metric.
pub(super) fn each(state: &State, metric: Metric, tell: &mut Tell<'_>) {
    let node = &state.node;
    let mut one = |value: Option<Value<'_>>| value.into_iter().for_each(|value| tell(&[], value));
    match metric {
        Metric::Desired => containers(state, tell, |one| bytes(one.api.desired)),
        Metric::Admitted => containers(state, tell, |one| bytes(one.api.admitted)),
        Metric::Reported => containers(state, tell, |one| bytes(one.api.reported)),
        Metric::Allocated => containers(state, tell, |one| bytes(below_max(one.allocated))),
        Metric::Limit => containers(state, tell, |one| bytes(below_max(one.limit))),
        Metric::Usage => containers(state, tell, |one| bytes(one.usage)),
        Metric::Floor => containers(state, tell, |one| bytes(one.floor)),
        Metric::SafeMinimum => containers(state, tell, |one| bytes(one.safe_minimum)),
        Metric::Stalled => {
            each_container(state, tell, |gauges, tell| {
                let Some(pressure) = gauges.pressure else { return };
                for (extent, total) in EXTENTS.iter().zip([pressure.some_total, pressure.full_total]) {
                    tell(&[extent], Value::Span(total));
                }
            });
        }
        Metric::Refaults => containers(state, tell, |one| one.refaults.map(Value::Whole)),
        Metric::Reclaimed => containers(state, tell, |one| bytes(one.reclaimed)),
        Metric::ContainerOomKills => containers(state, tell, |one| one.oom_kills.map(Value::Whole)),
        Metric::ContainerDrift => containers(state, tell, |one| Some(Value::Whole(one.drifted))),
        Metric::ContainerPolicy => each_container(state, tell, |gauges, tell| {
            let mode = MODES.iter().find(|mode| **mode == gauges.policy).unwrap_or(&UNKNOWN);
            tell(&[mode], Value::Whole(1));
        }),
        Metric::Overhead => each_pod(state, tell, |gauges, tell| {
            for (term, bytes) in &gauges.terms {
                tell(&[term.name()], Value::Whole(bytes.get()));
            }
        }),
        Metric::OverheadResidue => {
            each_pod(state, tell, |gauges, tell| tell(&[], Value::Whole(gauges.residue.get())));
        }
        Metric::OverheadHelpers => {
            each_pod(state, tell, |gauges, tell| tell(&[], Value::Whole(gauges.helpers)));
        }
        Metric::OverheadCpu => each_pod(state, tell, |gauges, tell| tell(&[], Value::Span(gauges.cpu))),
        Metric::OverheadReads => one(node.overhead.map(|cost| Value::Whole(cost.reads))),
        Metric::OverheadReader => one(node.overhead.map(|cost| Value::Span(cost.cpu))),
        Metric::Verdicts
        | Metric::OomKills
        | Metric::LimitWrites
        | Metric::Drifts
        | Metric::Mends
        | Metric::RuntimeErrors
        | Metric::Reloads => events(state, metric, tell, |_| 0),
        Metric::Dropped => events(state, metric, tell, |what| state.lost_elsewhere(what)),
        Metric::ShrinkDuration => {
            state.durations.iter().for_each(|(verdict, spread)| tell(&[verdict], Value::Spread(spread)));
        }
        Metric::InFlight => one(Some(Value::Whole(node.in_flight))),
        Metric::GuardArmed => {
            one(node.guard.as_ref().map(|guard| Value::Whole(u64::from(guard.armed))));
        }
        Metric::GuardVerdicts => node.guard.iter().for_each(|guard| guard_verdicts(guard, tell)),
        Metric::Build => tell(&[env!("CARGO_PKG_VERSION")], Value::Whole(1)),
        Metric::PartState => part_states(node, tell),
        Metric::Paused => one(Some(Value::Whole(u64::from(node.paused)))),
        Metric::Pods => one(Some(Value::Whole(node.pods))),
        Metric::Containers => one(Some(Value::Whole(node.containers))),
        Metric::ProbeTime => programs(node, tell, Value::Nanos, |cost| cost.total_ns),
        Metric::ProbeRuns => programs(node, tell, Value::Whole, |cost| cost.count),
        Metric::ProbeMisses => programs(node, tell, Value::Whole, |cost| cost.missed),
        Metric::ProcessCpu => one(own(node, |own| Value::Span(own.cpu))),
        Metric::ProcessMemory => one(own(node, |own| Value::Whole(own.resident.get()))),
        Metric::ProcessFds => one(own(node, |own| Value::Whole(own.fds))),
        Metric::ProcessFdsMax => one(own(node, |own| Value::Whole(own.fds_max))),
        Metric::ProcessStart => one(Some(Value::Span(state.began))),
    }
}

fn bytes(amount: Option<Bytes>) -> Option<Value<'static>> {
    amount.map(|amount| Value::Whole(amount.get()))
}

/// `max` is no number of bytes.
fn below_max(limit: Option<Limit>) -> Option<Bytes> {
    match limit? {
        Limit::Bytes(bytes) => Some(bytes),
        Limit::Max => None,
    }
}

fn own<'a>(node: &NodeGauges, value: impl Fn(&Own) -> Value<'a>) -> Option<Value<'a>> {
    node.own.as_ref().map(value)
}

fn each_container(state: &State, tell: &mut Tell<'_>, each: impl Fn(&ContainerGauges, &mut Tell<'_>)) {
    for ([namespace, pod, container], gauges) in &state.containers {
        each(gauges, &mut |more, value| {
            tell(&[&[namespace.as_str(), pod, container], more].concat(), value);
        });
    }
}

fn each_pod(state: &State, tell: &mut Tell<'_>, each: impl Fn(&OverheadGauges, &mut Tell<'_>)) {
    for ([namespace, pod], gauges) in &state.overheads {
        each(gauges, &mut |more, value| tell(&[&[namespace.as_str(), pod], more].concat(), value));
    }
}

fn containers(
    state: &State,
    tell: &mut Tell<'_>,
    value: impl Fn(&ContainerGauges) -> Option<Value<'static>>,
) {
    each_container(state, tell, |gauges, tell| {
        if let Some(value) = value(gauges) {
            tell(&[], value);
        }
    });
}

/// What was counted here, and `elsewhere` by the value of the first label.
fn events(state: &State, metric: Metric, tell: &mut Tell<'_>, elsewhere: impl Fn(&str) -> u64) {
    let labels = metric.definition().labels.len();
    for (values, count) in state.events.get(&metric).into_iter().flatten() {
        let all = count.saturating_add(elsewhere(values[0]));
        tell(&values[..labels], Value::Whole(all));
    }
}

/// The guard tells only of verdicts that there were; those that there can be are told as well.
fn guard_verdicts(guard: &GuardGauges, tell: &mut Tell<'_>) {
    let mut writes: BTreeMap<(Verdict, Reason), u64> = BTreeMap::new();
    for reason in Reason::ALL {
        for mode in [GuardMode::Audit, GuardMode::Enforce] {
            for armed in [true, false] {
                writes.insert((Verdict::of(*reason, mode as u32, armed), *reason), 0);
            }
        }
    }
    for Count { verdict, reason, writes: more } in &guard.verdicts {
        let count = writes.entry((*verdict, *reason)).or_default();
        *count = count.saturating_add(*more);
    }
    for ((verdict, reason), count) in writes {
        tell(&[&word(verdict.name()), &word(reason.name())], Value::Whole(count));
    }
}

fn part_states(node: &NodeGauges, tell: &mut Tell<'_>) {
    for (part, now) in &node.parts {
        for state in STATES {
            tell(&[part.name(), state.name()], Value::Whole(u64::from(state == *now)));
        }
    }
}

/// A program that is attached more than once, by two parts of the agent, counts as one.
fn programs(
    node: &NodeGauges,
    tell: &mut Tell<'_>,
    unit: fn(u64) -> Value<'static>,
    of: fn(&ProgramCost) -> u64,
) {
    let mut sums: BTreeMap<Program, u64> = BTreeMap::new();
    for cost in &node.programs {
        let sum = sums.entry(cost.program).or_default();
        *sum = sum.saturating_add(of(cost));
    }
    for (program, sum) in sums {
        tell(&[program.name()], unit(sum));
    }
}
