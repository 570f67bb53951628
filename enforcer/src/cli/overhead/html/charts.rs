//! The three charts of a measurement: terms of each pod, what the node misses over the number of pods, and how the pods'
//! totals lie.

use super::svg::{Axis, Chart, escape};
use crate::overhead::model::{Outcome, PodSample, Run, Term};
use enforcer_gate::Bytes;
use std::fmt::Write as _;

/// Bars of one chart; of more pods every so many-th is shown.
const BARS_MAX: usize = 240;
/// Classes of totals.
const CLASSES: u8 = 24;

/// MiB, exact enough for a pixel.
#[expect(clippy::cast_precision_loss, reason = "for a pixel")]
fn mib(bytes: Bytes) -> f64 {
    bytes.get() as f64 / 1_048_576.0
}

fn whole(run: &Run) -> Vec<&PodSample> {
    run.pods.iter().filter(|pod| pod.is_complete()).collect()
}

/// Evenly spread over 0.0 to `count`.
fn place(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

/// A bar for each reading of a pod, its terms one on another; and how many readings a bar stands for.
pub(super) fn stacked(run: &Run) -> (String, usize) {
    let all = whole(run);
    let every = all.len().div_ceil(BARS_MAX).max(1);
    let pods: Vec<_> = all.into_iter().step_by(every).collect();
    let x = Axis::of([place(pods.len())]);
    let y = Axis::of(pods.iter().map(|pod| mib(pod.total())));
    let mut chart = Chart::new("Terms of each pod, in MiB", (x, "reading of a pod"), (y, "MiB"));
    for (number, pod) in pods.iter().enumerate() {
        let mut below = 0.0;
        for (index, term) in Term::ALL.into_iter().enumerate() {
            let bytes = pod.terms.get(&term).copied().unwrap_or_default();
            let height = mib(bytes);
            if height > 0.0 {
                let says = format!("{} {bytes}\nstep {}, sandbox {}", term.name(), pod.step + 1, pod.sandbox);
                let at = (place(number) + 0.1, place(number) + 0.9);
                chart.bar(at, (below, below + height), &format!("t{index}"), &says);
                below += height;
            }
        }
    }
    (chart.end(), every)
}

/// What the colours of [`stacked`] are, with each term's mean.
pub(super) fn legend(result: &Outcome) -> String {
    let mut list = String::from("<ul class=\"legend\">\n");
    for (index, term) in Term::ALL.into_iter().enumerate() {
        let bytes = result.terms.get(&term).copied().unwrap_or_default();
        if bytes > Bytes::ZERO {
            let reclaimable = if term.is_reclaimable() { ", reclaimable" } else { "" };
            // Writing to a String can't fail.
            let _ = writeln!(
                list,
                "<li><svg viewBox=\"0 0 10 10\"><rect class=\"t{index}\" width=\"10\" height=\"10\"/></svg> {} <small>{} on \
                 average{reclaimable}</small></li>",
                term.name(),
                escape(&bytes.to_string())
            );
        }
    }
    list.push_str("</ul>\n");
    list
}

/// Each step's reading of the node, the line through them with its interval, and the one that the attributed sum makes.
pub(super) fn slope(run: &Run, result: &Outcome) -> String {
    let points: Vec<(f64, f64)> =
        run.nodes.iter().map(|node| (f64::from(node.pods), -mib(node.left()))).collect();
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / place(points.len().max(1));
    // A line by least squares goes through the mean of its points, also where a drift is fitted beside it.
    let (pods, lost) = (mean(|point| point.0), mean(|point| point.1));
    let each = |bytes: f64| bytes / 1_048_576.0;
    let acceptance = &result.acceptance;
    let none = lost - each(acceptance.slope.value) * pods;
    let at = |slope: f64, x: f64| lost + each(slope) * (x - pods) - none;
    let most = points.iter().map(|point| point.0).fold(0.0, f64::max);
    let ends = [acceptance.slope.low, acceptance.slope.high].map(|slope| [at(slope, 0.0), at(slope, most)]);
    let shown = points.iter().map(|point| point.1 - none).chain(ends.into_iter().flatten());
    let axes = ((Axis::of([most]), "pods"), (Axis::of(shown), "MiB that the node misses"));
    let mut chart = Chart::new("What the node misses over the number of pods", axes.0, axes.1);
    let [low, high] = ends;
    chart.area(&[(0.0, low[0]), (most, low[1]), (most, high[1]), (0.0, high[0])], "interval");
    let line = |slope: f64| ((0.0, at(slope, 0.0)), (most, at(slope, most)));
    let (from, to) = line(acceptance.slope.value);
    chart.line(from, to, "slope");
    let (from, to) = line(acceptance.attributed);
    chart.line(from, to, "attributed");
    for (node, (x, y)) in run.nodes.iter().zip(&points) {
        let moved = if node.unsettled { ", still moving" } else { "" };
        chart.dot((*x, y - none), "reading", &format!("step {}, {} pods{moved}", node.step + 1, node.pods));
    }
    chart.end()
}

/// How many readings have which total.
pub(super) fn distribution(run: &Run, result: &Outcome) -> String {
    let totals: Vec<f64> = whole(run).iter().map(|pod| mib(pod.total())).collect();
    let fixed = mib(result.pod_fixed);
    let most = totals.iter().copied().fold(fixed, f64::max).max(f64::MIN_POSITIVE);
    let width = most / f64::from(CLASSES);
    let counts: Vec<(f64, usize)> = (0..=CLASSES)
        .map(|class| f64::from(class) * width)
        .map(|low| (low, totals.iter().filter(|total| (low..low + width).contains(*total)).count()))
        .collect();
    let y = Axis::of(counts.iter().map(|(_, count)| place(*count)));
    let x = Axis::of([most + width]);
    let mut chart = Chart::new("How the pods' totals lie", (x, "MiB a pod"), (y, "readings"));
    for (low, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        let says = format!("{count} readings from {low:.2} to {:.2} MiB", low + width);
        chart.bar((low, low + width * 0.92), (0.0, place(count)), "class", &says);
    }
    let marks = [("p50", mib(result.total.p50)), ("p95", mib(result.total.p95)), ("podFixed", fixed)];
    for (row, (name, x)) in (0_u8..).zip(marks) {
        chart.mark(x, row, "mark", &format!("{name} {x:.1}"));
    }
    chart.end()
}
