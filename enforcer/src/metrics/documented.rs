//! docs/metrics.md is what the definitions say. `ENFORCER_WRITE_DOCS=1 cargo test -p enforcer --lib
//! metrics::documented` writes it anew.

use super::{
    definitions::{CONTAINERS_MAX, Kind, Metric, PODS_MAX, SHRINK_SECONDS, Unit},
    labels::{Label, Values},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
};

const INTRODUCTION: &str = "\
# Metrics

Made from `enforcer/src/metrics/definitions.rs`; `ENFORCER_WRITE_DOCS=1 cargo test -p enforcer --lib
metrics::documented` writes this page anew.

`enforcer run` tells them at `/metrics` (`[http] listen` in the configuration), as OpenMetrics where that is asked for
and in Prometheus' text format else. What comes from the kernel or the runtime is read anew for a scrape, at most once
a second. Gauges of a container that is gone are gone with it; the counters of a container are its cgroup's, so they
begin anew with the container.

A container's series have the labels `namespace`, `pod` and `container`. Where Prometheus gives its targets labels of
these names, scrape with `honor_labels: true` (`honorLabels` in a `PodMonitor`). The dashboard `deploy/grafana/enforcer.json`
and the alerts `deploy/alerts/enforcer.rules.yaml` hold for that; the alerts expect the job's name to be `enforcer`.

`stable` metrics keep their name, labels and meaning; label values may be added. `experimental` ones may change.
";

#[test]
fn the_page_is_what_the_definitions_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    let page = page();
    if std::env::var_os("ENFORCER_WRITE_DOCS").is_some() {
        fs::write(&path, &page).expect("is written");
    }
    let there = fs::read_to_string(&path).expect("is there");
    assert!(
        there == page,
        "docs/metrics.md is not what the definitions say; ENFORCER_WRITE_DOCS=1 writes it anew"
    );
}

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    let all = Metric::ALL.iter().map(|metric| metric.definition());
    let (mut node, mut each, mut each_pod) = (0, 0, 0);
    let mut rows = String::new();
    for one in all {
        let names: Vec<_> = one.labels.iter().map(|label| format!("`{}`", label.name())).collect();
        let series = one.series_max();
        let at_most = if one.labels.contains(&Label::Container) {
            each += series / CONTAINERS_MAX;
            format!("{} a container", series / CONTAINERS_MAX)
        } else if one.labels.contains(&Label::Pod) {
            each_pod += series / PODS_MAX;
            format!("{} a pod", series / PODS_MAX)
        } else {
            node += series;
            series.to_string()
        };
        let unit = match one.unit {
            Unit::None => String::new(),
            Unit::Bytes | Unit::Seconds => format!(", {}", one.unit.name()),
        };
        writeln!(
            rows,
            "| `{}` | {}{unit} | {} | {at_most} | {} | {} |",
            one.name(),
            one.kind.name(),
            names.join(", "),
            one.stability.name(),
            one.meaning
        )
        .expect("a string takes it");
    }
    writeln!(
        page,
        "\nHow many series there can be: {each} for each of at most {CONTAINERS_MAX} containers, {each_pod} for each \
         of at most {PODS_MAX} pods where `overhead.watch` is on, and at most {node} for the node. Containers beyond that have none, and are counted in `enforcer_dropped_total` \
         (`what=\"container_series\"`), as is one whose namespace, pod and name another has.\n\n\
         | metric | type | labels | series at most | stability | meaning |\n|---|---|---|---|---|---|\n{rows}"
    )
    .expect("a string takes it");
    let bounds: Vec<_> = SHRINK_SECONDS.iter().map(ToString::to_string).collect();
    writeln!(
        page,
        "Buckets of the histogram, in seconds: {}, and all above.\n\n## Labels\n",
        bounds.join(", ")
    )
    .expect("a string takes it");
    page.push_str("| label | of | values |\n|---|---|---|\n");
    for (label, metrics) in used() {
        let values = match label.values() {
            Values::Names => "a name; printable, cut to 256 bytes".to_owned(),
            Values::One => "the version of the binary".to_owned(),
            Values::Closed(values) | Values::OneOf(values) => {
                values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(" ")
            }
        };
        let of = match metrics.len() {
            0..=3 => metrics.join(", "),
            _ if label == Label::Container => "every metric of a container".to_owned(),
            _ => "every metric of a container or pod".to_owned(),
        };
        writeln!(page, "| `{}` | {of} | {values} |", label.name()).expect("a string takes it");
    }
    page
}

/// Every label, and the metrics that have it.
fn used() -> BTreeMap<Label, Vec<String>> {
    let mut used: BTreeMap<Label, Vec<String>> = BTreeMap::new();
    for one in Metric::ALL.iter().map(|metric| metric.definition()) {
        for label in one.labels {
            used.entry(*label).or_default().push(format!("`{}`", one.name()));
        }
    }
    used
}

#[test]
fn names_are_unique_and_well_formed() {
    let mut names = BTreeSet::new();
    for one in Metric::ALL.iter().map(|metric| metric.definition()) {
        let name = one.name();
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
        assert!(name.starts_with("enforcer_") || name.starts_with("process_"), "{name}");
        assert!(!one.base.ends_with("_total") && !one.base.ends_with("_info"), "{name}");
        assert!(!one.meaning.contains(['\n', '\\', '|']), "{name}");
        assert!(one.kind != Kind::Histogram || one.unit == Unit::Seconds, "{name}");
        assert!(names.insert(name.clone()), "{name} is there twice");
    }
}
