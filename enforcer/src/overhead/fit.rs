//! The node's word on what a pod costs: the slope of what is left over the number of pods, held against the sum of
//! what was attributed. No I/O.

mod least_squares;
mod student;

use super::cpu;
use super::model::{NodeSample, Outcome, PodSample, Run, Spread, Term};
use enforcer_gate::Bytes;
use least_squares::least_squares;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use student::two_sided;

/// How far node and sum may lie apart, as a part of the node's slope.
pub const TOLERANCE: f64 = 0.15;
/// How sure an interval is.
pub const CONFIDENCE: f64 = 0.95;
/// Degrees of freedom that a drift over time is worth: with fewer it is not looked for.
const DRIFT_FREEDOM: usize = 4;

/// A value that lies between two bounds with [`CONFIDENCE`]. Bytes a pod; a slope may be negative.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The best guess.
    pub value: f64,
    /// Not lower.
    pub low: f64,
    /// Not higher.
    pub high: f64,
}

/// What the comparison says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All of the interval lies within [`TOLERANCE`].
    Accepted,
    /// Some of it does, and some does not: too little was measured.
    Inconclusive,
    /// None of it does.
    Unexplained,
}

impl Verdict {
    /// Its name, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Inconclusive => "inconclusive",
            Self::Unexplained => "unexplained",
        }
    }
}

/// The comparison.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Acceptance {
    /// What the node misses for each pod, by its own books.
    pub slope: Interval,
    /// What was attributed to a pod and can't be reclaimed.
    pub attributed: f64,
    /// The first less the second.
    pub unexplained: f64,
    /// What that means.
    pub verdict: Verdict,
    /// Readings of the node that it stands on.
    pub observations: usize,
    /// How much the node lost from step to step whatever the pods, where that was looked for.
    pub drift: Option<f64>,
}

/// Compares them. `None` with too few readings for any interval.
pub fn accept(nodes: &[NodeSample], attributed: f64) -> Option<Acceptance> {
    let lost: Vec<f64> = nodes.iter().map(|node| -float(node.left())).collect();
    let with_drift = nodes.len() >= DRIFT_FREEDOM + 3;
    let rows: Vec<Vec<f64>> = nodes.iter().map(|node| row(node, with_drift)).collect();
    let fit = least_squares(&rows, &lost)?;
    let half = two_sided(CONFIDENCE, fit.freedom)? * fit.errors[1];
    let value = fit.coefficients[1];
    let slope = Interval { value, low: value - half, high: value + half };
    Some(Acceptance {
        slope,
        attributed,
        unexplained: value - attributed,
        verdict: judge(slope, attributed),
        observations: nodes.len(),
        drift: with_drift.then(|| fit.coefficients[2]),
    })
}

fn row(node: &NodeSample, with_drift: bool) -> Vec<f64> {
    let mut row = vec![1.0, f64::from(node.pods)];
    if with_drift {
        row.push(f64::from(u32::try_from(node.step).unwrap_or(u32::MAX)));
    }
    row
}

/// What lies where.
pub fn judge(slope: Interval, attributed: f64) -> Verdict {
    let room = TOLERANCE * slope.value.max(0.0);
    let apart = (slope.value - attributed).abs();
    let half = (slope.high - slope.low) / 2.0;
    if apart + half <= room {
        Verdict::Accepted
    } else if apart - half > room {
        Verdict::Unexplained
    } else {
        Verdict::Inconclusive
    }
}

/// The slope of a figure over the number of pods; `None` with too few readings.
fn slope_of(nodes: &[NodeSample], of: impl Fn(&NodeSample) -> f64) -> Option<f64> {
    let rows: Vec<Vec<f64>> = nodes.iter().map(|node| row(node, false)).collect();
    let values: Vec<f64> = nodes.iter().map(of).collect();
    Some(least_squares(&rows, &values)?.coefficients[1])
}

/// How figures lie, by nearest rank; `None` without any.
pub fn spread(mut figures: Vec<Bytes>) -> Option<Spread> {
    figures.sort_unstable();
    let count = figures.len();
    let rank = |percent: usize| {
        let rank = (count * percent).div_ceil(100).max(1);
        figures.get(rank - 1).copied()
    };
    Some(Spread { count, mean: mean(&figures)?, p50: rank(50)?, p95: rank(95)?, p99: rank(99)? })
}

fn mean(figures: &[Bytes]) -> Option<Bytes> {
    let sum: u128 = figures.iter().map(|bytes| u128::from(bytes.get())).sum();
    let mean = sum.checked_div(figures.len() as u128)?;
    Some(Bytes::new(u64::try_from(mean).unwrap_or(u64::MAX)))
}

/// Up to whole MiB, as a `RuntimeClass` has it.
pub fn round_up_mib(bytes: Bytes) -> Bytes {
    const MIB: u64 = 1 << 20;
    Bytes::new(bytes.get().div_ceil(MIB).saturating_mul(MIB))
}

/// All that a run says; `None` where it has too little. `margin` is the least that is added to the 95th percentile;
/// what the node misses beyond the sum is added where it is more.
pub fn outcome(run: &Run, margin: Bytes) -> Option<Outcome> {
    let whole: Vec<&PodSample> = run.pods.iter().filter(|pod| pod.is_complete()).collect();
    let total = spread(whole.iter().map(|pod| pod.total()).collect())?;
    let kept = spread(whole.iter().map(|pod| pod.kept()).collect())?;
    let acceptance = accept(&run.nodes, float(kept.mean))?;
    let mut terms = BTreeMap::new();
    for term in Term::ALL {
        let figures: Vec<Bytes> = whole.iter().filter_map(|pod| pod.terms.get(&term).copied()).collect();
        terms.insert(term, mean(&figures).unwrap_or_default());
    }
    let names: std::collections::BTreeSet<&String> =
        run.nodes.iter().flat_map(|node| node.known.keys()).collect();
    let beside = names.into_iter().filter_map(|name| {
        let of = |node: &NodeSample| float(node.known.get(name).copied().unwrap_or_default());
        Some((name.clone(), slope_of(&run.nodes, of)?))
    });
    let margin = margin.max(bytes(acceptance.unexplained));
    Some(Outcome {
        terms,
        total,
        kept,
        acceptance,
        cpu: cpu::spread(whole.iter().filter_map(|pod| pod.cpu)),
        pod_fixed: round_up_mib(total.p95.saturating_add(margin)),
        incomplete: run.pods.len() - whole.len(),
        beside: beside.collect(),
    })
}

/// Exact up to 2^53 bytes, more than any machine has.
#[expect(clippy::cast_precision_loss, reason = "no machine has 2^53 bytes")]
fn float(bytes: Bytes) -> f64 {
    bytes.get() as f64
}

/// A whole number of bytes, at least zero.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
pub fn bytes(value: f64) -> Bytes {
    Bytes::new(value.max(0.0).ceil() as u64)
}

#[cfg(test)]
mod tests;
