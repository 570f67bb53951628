//! What people and `kubectl apply` read of a measurement.

use crate::{
    cgroup::shown,
    cli::table::{Align, table as columns},
    overhead::{
        fit::{Acceptance, CONFIDENCE, TOLERANCE, Verdict},
        model::{Flag, Outcome, Run, Spread, Start, Term},
        phase::Phase,
        run::Plan,
    },
};
use enforcer_gate::{Bytes, Micros};
use std::{collections::BTreeMap, fmt::Write as _};

/// What would be done.
pub(super) fn plan(plan: &Plan) -> String {
    let steps = plan.steps();
    let mut made = 1_u32;
    let mut running = 0_u32;
    for step in &steps {
        made = made.saturating_add(step.saturating_sub(running));
        running = *step;
    }
    let list: Vec<String> = steps.iter().map(ToString::to_string).collect();
    format!(
        "handler {}\nimage   {}\nphase   {}\nsteps   {} (pods at a time, in this order; --seed {})\npods    {made} made in all, at \
         most {} at a time, in the namespace enforcer-overhead of the runtime, and removed again\ntime    at most {} s \
         for readings, and what making and removing pods takes\n",
        handler(&plan.handler),
        plan.image.as_deref().map_or_else(|| "made on the spot".into(), shown),
        plan.phase.name(),
        list.join(" "),
        plan.seed,
        steps.iter().max().copied().unwrap_or(0),
        (plan.settle + plan.duration).as_secs().saturating_mul(steps.len() as u64),
    )
}

pub(super) fn handler(handler: &str) -> String {
    if handler.is_empty() { "the default one".into() } else { shown(handler) }
}

/// For people.
pub(super) fn table(run: &Run) -> String {
    let mut text = format!(
        "{}, handler {}, Linux {}, phase {}\n{} readings of the node, {} of pods; --seed {}\n",
        run.runtime,
        handler(&run.handler),
        run.kernel,
        run.phase.name(),
        run.nodes.len(),
        run.pods.len(),
        run.seed
    );
    if let Some(why) = &run.partial {
        // Writing to a String can't fail.
        let _ = writeln!(text, "PARTIAL: {why}");
    }
    match &run.result {
        Some(result) => text.push_str(&outcome(run, result)),
        None => {
            text.push_str("inconclusive: there are too few readings for any interval; run it to its end\n");
        }
    }
    text
}

fn outcome(run: &Run, result: &Outcome) -> String {
    let row = |name: &str, bytes: &Bytes, note: &str| [name.to_owned(), bytes.to_string(), note.to_owned()];
    let mut rows = vec![["TERM", "MEAN", ""].map(String::from)];
    for term in Term::ALL {
        let note = if term.is_reclaimable() { "(reclaimable)" } else { "" };
        let bytes = result.terms.get(&term).copied().unwrap_or_default();
        rows.push(row(term.name(), &bytes, note));
    }
    rows.push(row("total", &result.total.mean, &ranks(&result.total)));
    rows.push(row("not reclaimable", &result.kept.mean, &ranks(&result.kept)));
    let mut text = format!("\n{}\n", columns(0, [Align::Left, Align::Right, Align::Left], &rows));
    // Writing to a String can't fail.
    for (what, count) in helpers(run) {
        let _ = writeln!(text, "helper: {what}, {count} readings");
    }
    for (what, count) in flags(run) {
        let _ = writeln!(text, "note: {what}, {count} readings");
    }
    for (name, each) in &result.beside {
        if name != "app" {
            let _ = writeln!(text, "beside: {name} grew by {} a pod, which is taken out", signed(*each));
        }
    }
    if result.incomplete > 0 {
        let _ =
            writeln!(text, "note: {} readings of pods are left out: they are not whole", result.incomplete);
    }
    let unsettled = run.nodes.iter().filter(|node| node.unsettled).count();
    if unsettled > 0 {
        let _ = writeln!(text, "note: readings still moved at the end of --settle in {unsettled} steps");
    }
    let _ = writeln!(text, "\n{}", verdict(&result.acceptance));
    if let Some(cpu) = &result.cpu {
        let _ = writeln!(
            text,
            "CPU of a pod {}: {:.2}m on average, p95 {:.2}m",
            doing(run.phase),
            cpu.mean,
            cpu.p95
        );
    }
    if run.phase == Phase::ExecProbe {
        let probes: u64 = run.nodes.iter().map(|node| u64::from(node.probes)).sum();
        let _ = writeln!(text, "probes that succeeded: {probes}");
    }
    text.push_str(&starts(run));
    let _ = writeln!(text, "podFixed: memory {}{}", mib(result.pod_fixed), fixed_cpu(result, ", cpu "));
    text
}

fn doing(phase: Phase) -> &'static str {
    match phase {
        Phase::Idle => "that idles",
        Phase::ExecProbe => "that is probed every second",
        Phase::Load => "that works",
    }
}

/// What it takes to make a pod.
fn starts(run: &Run) -> String {
    let count = run.starts.len();
    let Some(peak) = run.starts.iter().map(|start| start.peak).max() else { return String::new() };
    let mean = |of: fn(&Start) -> Micros| {
        let sum: u128 = run.starts.iter().map(|start| u128::from(of(start).get())).sum();
        Micros::new(u64::try_from(sum / count.max(1) as u128).unwrap_or(u64::MAX))
    };
    let used = mean(|start| start.cpu.used());
    let peak = peak.map_or_else(String::new, |peak| format!(", memory.peak of its cgroup {peak} at most"));
    format!("start of a pod: {used} of CPU in {}, of {count}{peak}\n", mean(|start| start.cpu.span))
}

fn ranks(spread: &Spread) -> String {
    format!("p50 {}, p95 {}, p99 {}", spread.p50, spread.p95, spread.p99)
}

/// Which programs were found by which rule, and how often.
fn helpers(run: &Run) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for helper in run.pods.iter().flat_map(|pod| &pod.helpers) {
        let place = if helper.in_pod { "in the pod's cgroup" } else { "outside of the pod" };
        let what =
            format!("{} by {}, {place} in {}", helper.program, helper.rule.name(), unit(&helper.cgroup));
        *counts.entry(what).or_default() += 1;
    }
    counts
}

/// Pods' own names are many, and say nothing here.
fn unit(cgroup: &str) -> &str {
    if cgroup.starts_with("kubepods") { "kubepods" } else { cgroup }
}

fn flags(run: &Run) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for flag in run.pods.iter().flat_map(|pod| &pod.flags) {
        let what = match flag {
            Flag::Clamped { term, .. } => format!("{} of a container was more than of its pod", term.name()),
            Flag::ProcessGone { .. } => "a helper ended between two looks".into(),
            Flag::Unreadable { why, .. } => format!("a figure could not be read: {why}"),
            Flag::ClampedCpu { .. } => "CPU time of a part was more than of its whole".into(),
            Flag::NoHelper => "no helper was found".into(),
            Flag::LookAlike { why, .. } => format!("something looks like a helper and is not counted: {why}"),
            Flag::PodGone => "a pod ended by itself".into(),
        };
        *counts.entry(what).or_default() += 1;
    }
    counts
}

pub(super) fn verdict(acceptance: &Acceptance) -> String {
    let Acceptance { slope, attributed, unexplained, verdict, observations, drift: _ } = acceptance;
    let confidence = CONFIDENCE * 100.0;
    let found = format!(
        "the node misses {} a pod ({} to {} with {confidence:.0} %, {observations} readings), attributed are {}",
        signed(slope.value),
        signed(slope.low),
        signed(slope.high),
        signed(*attributed)
    );
    let tolerance = TOLERANCE * 100.0;
    let says = match verdict {
        Verdict::Accepted => format!("accepted: within {tolerance:.0} %"),
        Verdict::Inconclusive => {
            "inconclusive: the interval is too wide to tell; use more --pods, more --repetitions, a longer --duration, \
             or a quieter node"
                .into()
        }
        Verdict::Unexplained => format!("unexplained: {} a pod", signed(*unexplained)),
    };
    format!("{found}\n{says}")
}

/// MiB, with its sign.
pub(super) fn signed(bytes: f64) -> String {
    format!("{:.2}Mi", bytes / 1_048_576.0)
}

pub(super) fn mib(bytes: Bytes) -> String {
    format!("{}Mi", bytes.get() >> 20)
}

fn fixed_cpu(result: &Outcome, before: &str) -> String {
    result.cpu.map_or_else(String::new, |cpu| format!("{before}{}m", cpu.pod_fixed))
}

/// A `RuntimeClass`. What the node does not confirm is not called true.
pub(super) fn yaml(run: &Run) -> String {
    let mut text = String::new();
    let Some(result) = &run.result else {
        return "# inconclusive: there are too few readings for any number\n".into();
    };
    for line in verdict(&result.acceptance).lines() {
        // Writing to a String can't fail.
        let _ = writeln!(text, "# {line}");
    }
    if let Some(why) = &run.partial {
        let _ = writeln!(text, "# PARTIAL: {why}");
    }
    if result.acceptance.verdict != Verdict::Accepted || run.partial.is_some() {
        text.push_str("# NOT CONFIRMED by the node: don't rely on it\n");
    }
    let handler = if run.handler.is_empty() { "runc" } else { &run.handler };
    // A string of JSON is one of YAML.
    let handler = serde_json::Value::from(handler).to_string();
    let _ = write!(
        text,
        "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata:\n  name: {handler}\nhandler: {handler}\noverhead:\n  \
         podFixed:\n    memory: {}{}\n",
        mib(result.pod_fixed),
        fixed_cpu(result, "\n    cpu: ")
    );
    text
}
