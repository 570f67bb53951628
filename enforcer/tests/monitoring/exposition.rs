//! The text that Prometheus reads, read back.

use super::full;
use enforcer::{
    metrics::{
        Format, Metrics, NodeGauges,
        definitions::{Definition, Kind, Metric, SHRINK_SECONDS},
        labels::Values,
    },
    names::Role,
    oom::Owner,
    overhead::Term,
};
use enforcer_gate::{Limit, Micros, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// One line.
#[derive(Debug, Clone, PartialEq)]
struct Series {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// Every line but the comments.
fn series(text: &str) -> Vec<Series> {
    text.lines().filter(|line| !line.starts_with('#')).map(line).collect()
}

fn line(line: &str) -> Series {
    let name_end = line.find(['{', ' ']).expect("a name ends");
    let (name, mut rest) = line.split_at(name_end);
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (label, after) = rest.split_once("=\"").expect("a label has a value");
            let (value, after) = unescaped(after);
            assert!(labels.insert(label.to_owned(), value).is_none(), "{label} twice: {line}");
            let Some(more) = after.strip_prefix(',') else {
                rest = after.strip_prefix('}').expect("labels end");
                break;
            };
            rest = more;
        }
    }
    let value = rest.strip_prefix(' ').expect("a blank").parse().expect("a number");
    Series { name: name.to_owned(), labels, value }
}

/// Up to the quote that ends it.
fn unescaped(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => match chars.next().expect("an escape goes on").1 {
                'n' => value.push('\n'),
                plain => value.push(plain),
            },
            plain => value.push(plain),
        }
    }
    panic!("a value does not end: {text}");
}

fn text(metrics: &Metrics) -> String {
    metrics.render_as(Format::Text)
}

/// The definition whose series this is.
fn definition(series: &Series) -> &'static Definition {
    let all = Metric::ALL.iter().map(|metric| metric.definition());
    let found = all.filter(|one| {
        let name = one.name();
        match one.kind {
            Kind::Histogram => {
                ["_bucket", "_sum", "_count"].iter().any(|end| series.name == format!("{name}{end}"))
            }
            Kind::Counter | Kind::Gauge | Kind::Info => series.name == name,
        }
    });
    let found: Vec<_> = found.collect();
    assert_eq!(found.len(), 1, "{} is defined once", series.name);
    found[0]
}

fn value(metrics: &Metrics, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let labels: BTreeMap<_, _> =
        labels.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned())).collect();
    let found: Vec<_> = series(&text(metrics))
        .into_iter()
        .filter(|series| series.name == name && series.labels == labels)
        .collect();
    assert!(found.len() <= 1, "{name} {labels:?} twice");
    found.first().map(|series| series.value)
}

#[test]
fn every_metric_is_told_once_everything_has_happened() {
    let told: BTreeSet<_> =
        series(&text(&full::metrics())).iter().map(|series| definition(series).base).collect();
    for metric in Metric::ALL {
        assert!(told.contains(metric.definition().base), "{} is not told", metric.definition().name());
    }
}

#[test]
fn labels_and_their_values_are_those_that_are_documented() {
    let all = series(&text(&full::metrics()));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for one in &all {
        let definition = definition(one);
        let mut labels = one.labels.clone();
        if one.name.ends_with("_bucket") {
            labels.remove("le").expect("a bucket has a bound");
        }
        let names: BTreeSet<_> = definition.labels.iter().map(|label| label.name()).collect();
        assert_eq!(labels.keys().map(String::as_str).collect::<BTreeSet<_>>(), names, "{one:?}");
        for label in definition.labels {
            if let Values::Closed(values) | Values::OneOf(values) = label.values() {
                assert!(values.contains(&labels[label.name()]), "{one:?}: {values:?}");
            }
        }
        *counts.entry(definition.base).or_default() += 1;
    }
    for definition in Metric::ALL.iter().map(|metric| metric.definition()) {
        assert!(counts[definition.base] <= definition.series_max(), "{}", definition.name());
    }
}

#[test]
fn no_series_is_there_twice() {
    let mut seen = BTreeSet::new();
    for one in series(&text(&full::metrics())) {
        assert!(seen.insert(format!("{} {:?}", one.name, one.labels)), "{one:?}");
    }
}

#[test]
fn both_formats_tell_the_same() {
    let metrics = full::metrics();
    let sorted = |text: &str| {
        let mut all = series(text);
        // One writes 1.0 where the other writes 1.
        for one in &mut all {
            if let Some(bound) = one.labels.get_mut("le") {
                *bound = bound.parse::<f64>().expect("a bound is a number").to_string();
            }
        }
        all.sort_by_key(|one| format!("{} {:?}", one.name, one.labels));
        all
    };
    assert_eq!(sorted(&text(&metrics)), sorted(&metrics.render()));
    assert!(metrics.render().ends_with("# EOF\n"));
}

#[test]
fn what_can_happen_begins_at_zero() {
    let metrics = Metrics::new();
    for (name, labels) in [
        ("enforcer_shrink_verdicts_total", vec![("verdict", "refused"), ("reason", "below_safe_minimum")]),
        ("enforcer_shrink_verdicts_total", vec![("verdict", "committed"), ("reason", "none")]),
        ("enforcer_shrink_duration_seconds_count", vec![("verdict", "rolled_back")]),
        ("enforcer_oom_kills_total", vec![("owner", "container"), ("constraint", "memcg")]),
        ("enforcer_oom_kills_total", vec![("owner", "node"), ("constraint", "none")]),
        ("enforcer_drifts_total", vec![("file", "memory.max"), ("writer", "systemd")]),
        ("enforcer_dropped_total", vec![("what", "limit_write")]),
        ("enforcer_config_reloads_total", vec![("outcome", "failed")]),
    ] {
        assert_eq!(value(&metrics, name, &labels), Some(0.0), "{name} {labels:?}");
    }
    assert_eq!(value(&metrics, "enforcer_guard_armed", &[]), None, "a guard that is off is not told of");
}

#[test]
fn what_happens_is_counted_where_it_belongs() {
    let metrics = Metrics::new();
    metrics.shrink_ended(&Verdict::Committed, Micros::from_millis(7_500));
    metrics.shrink_ended(&Verdict::Committed, Micros::from_millis(7_501));
    let bucket = |bound| {
        value(&metrics, "enforcer_shrink_duration_seconds_bucket", &[("verdict", "committed"), ("le", bound)])
    };
    assert_eq!(
        (bucket("5"), bucket("7.5"), bucket("10"), bucket("+Inf")),
        (Some(0.0), Some(1.0), Some(2.0), Some(2.0))
    );
    let sum = value(&metrics, "enforcer_shrink_duration_seconds_sum", &[("verdict", "committed")]);
    assert_eq!(sum, Some(15.001));

    metrics.oom(&full::oom(full::cgroup(), Some(Role::Pod), "memcg", 3));
    metrics.oom(&full::oom(full::cgroup(), None, "memcg", 1));
    metrics.oom(&full::oom(Owner::Node, None, "none", 2));
    let kills = |owner, constraint| {
        value(&metrics, "enforcer_oom_kills_total", &[("owner", owner), ("constraint", constraint)])
    };
    assert_eq!(kills("pod", "memcg"), Some(3.0));
    assert_eq!(kills("unknown", "memcg"), Some(1.0));
    assert_eq!(kills("node", "none"), Some(2.0));
}

#[test]
fn a_counter_in_the_kernel_and_one_of_ours_add_up() {
    let metrics = Metrics::new();
    metrics.set_node(full::node());
    metrics.dropped(enforcer::metrics::Loss::Event, 2);
    assert_eq!(value(&metrics, "enforcer_dropped_total", &[("what", "event")]), Some(11.0));
    let program = [("program", "oom_kill_fentry")];
    assert_eq!(value(&metrics, "enforcer_probe_run_seconds_total", &program), Some(0.000_123_456));
    let mut node = full::node();
    node.programs.extend(full::node().programs);
    metrics.set_node(node);
    assert_eq!(value(&metrics, "enforcer_probe_runs_total", &program), Some(2_000.0));
}

#[test]
fn a_container_or_pod_that_is_gone_has_no_series() {
    let metrics = full::metrics();
    let of = |metrics: &Metrics, pod: &str| {
        series(&text(metrics))
            .into_iter()
            .filter(|one| one.labels.get("pod").is_some_and(|name| name == pod))
            .count()
    };
    // Of two containers, and what the pod costs.
    assert_eq!(of(&metrics, "web-0"), 30 + Term::ALL.len() + 3);
    metrics.set_overheads(Vec::new());
    assert_eq!(of(&metrics, "web-0"), 30);
    metrics.set_containers(vec![full::container("default", "web-1", "app")]);
    assert_eq!((of(&metrics, "web-0"), of(&metrics, "web-1")), (0, 15));
    metrics.set_containers(Vec::new());
    metrics.set_node(NodeGauges::default());
    assert_eq!(of(&metrics, "web-1"), 0);
}

#[test]
fn no_limit_is_no_number() {
    let metrics = Metrics::new();
    let mut one = full::container("a", "b", "c");
    (one.limit, one.allocated) = (Some(Limit::Max), Some(Limit::Max));
    metrics.set_containers(vec![one]);
    let labels = [("namespace", "a"), ("pod", "b"), ("container", "c")];
    assert_eq!(value(&metrics, "enforcer_container_memory_limit_bytes", &labels), None);
    assert_eq!(value(&metrics, "enforcer_container_memory_allocated_bytes", &labels), None);
    assert_eq!(value(&metrics, "enforcer_container_memory_usage_bytes", &labels), Some(104_857_600.0));
}

#[test]
fn names_of_others_break_nothing() {
    let metrics = Metrics::new();
    let lossy = String::from_utf8_lossy(b"a\xffb");
    let hostile = "x\"} 1\nenforcer_paused 1\n#\\\u{1b}[2J";
    metrics.set_containers(vec![full::container(hostile, &lossy, "\\n\\\\\"")]);
    for format in [Format::Text, Format::OpenMetrics] {
        let all = series(&metrics.render_as(format));
        let paused: Vec<_> = all.iter().filter(|one| one.name == "enforcer_paused").collect();
        assert_eq!(paused.len(), 1, "{paused:?}");
        assert_eq!(paused[0].value.to_bits(), 0.0_f64.to_bits());
        let usage =
            all.iter().find(|one| one.name == "enforcer_container_memory_usage_bytes").expect("is told");
        assert_eq!(usage.labels["namespace"], "x\"} 1\\nenforcer_paused 1\\n#\\\\u{1b}[2J");
        assert_eq!(usage.labels["pod"], "a\u{fffd}b");
        assert_eq!(usage.labels["container"], "\\n\\\\\"");
    }
}

#[test]
fn buckets_are_as_defined() {
    let all = series(&text(&Metrics::new()));
    let bounds: Vec<f64> = all
        .iter()
        .filter(|one| {
            one.name == "enforcer_shrink_duration_seconds_bucket" && one.labels["verdict"] == "committed"
        })
        .map(|one| one.labels["le"].parse().expect("a bound is a number"))
        .collect();
    assert_eq!(bounds, [SHRINK_SECONDS.as_slice(), &[f64::INFINITY]].concat());
}
