//! The dashboard and the alerts ask for what is there.

use super::query;
use enforcer::metrics::definitions::{Metric, Stability};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn rules() -> PathBuf {
    folder("deploy/alerts/enforcer.rules.yaml")
}

/// The tests of the alerts, by the alert's name.
pub(crate) fn rule_tests() -> BTreeMap<String, PathBuf> {
    let entries = fs::read_dir(folder("deploy/alerts/tests")).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("is read").path());
    paths.map(|path| (path.file_stem().expect("has a name").to_string_lossy().into_owned(), path)).collect()
}

fn dashboard() -> Value {
    serde_json::from_str(&read(&folder("deploy/grafana/enforcer.json"))).expect("is JSON")
}

/// Every text below `value` that has one of these keys.
fn texts(value: &Value, keys: &[&str], found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                match field.as_str() {
                    Some(text) if keys.contains(&key.as_str()) => found.push(text.to_owned()),
                    _ => texts(field, keys, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| texts(value, keys, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What the dashboard asks Prometheus for.
pub(crate) fn dashboard_queries() -> Vec<String> {
    let mut found = Vec::new();
    texts(&dashboard(), &["expr"], &mut found);
    assert!(!found.is_empty());
    found
}

#[test]
fn the_dashboard_asks_for_what_is_there() {
    let mut all = dashboard_queries();
    texts(&dashboard(), &["definition", "query", "legendFormat", "textFormat"], &mut all);
    for text in &all {
        query::check(text);
    }
}

#[test]
fn the_dashboard_shows_every_stable_metric() {
    let shown: BTreeSet<_> = dashboard_queries().iter().flat_map(|text| query::named(text)).collect();
    for one in Metric::ALL.iter().map(|metric| metric.definition()) {
        // The version is a label, which the variables come from.
        let is_for_labels = one.base == "enforcer_build";
        assert!(
            is_for_labels || one.stability != Stability::Stable || shown.contains(one.base),
            "{}",
            one.name()
        );
    }
}

#[test]
fn the_dashboard_is_in_order() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().expect("has panels");
    let number = |panel: &Value, key: &str| panel["gridPos"][key].as_u64().expect("is placed");
    let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels {
        let title = panel["title"].as_str().expect("has a title");
        assert!(ids.insert(panel["id"].as_u64()), "{title}: its id is there twice");
        for x in number(panel, "x")..number(panel, "x") + number(panel, "w") {
            assert!(x < 24, "{title} is beyond the edge");
            for y in number(panel, "y")..number(panel, "y") + number(panel, "h") {
                assert!(taken.insert((x, y)), "{title} covers another panel");
            }
        }
        if panel["type"] != "row" {
            assert!(
                panel["description"].as_str().is_some_and(|text| !text.is_empty()),
                "{title} explains nothing"
            );
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
            assert!(
                panel["targets"].as_array().is_some_and(|targets| !targets.is_empty()),
                "{title} asks nothing"
            );
            assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{title} has no unit");
        }
    }
}

/// Each alert's name and its lines.
fn alerts() -> BTreeMap<String, String> {
    let text = read(&rules());
    let mut alerts = BTreeMap::new();
    for block in text.split("- alert: ").skip(1) {
        let (name, rest) = block.split_once('\n').expect("an alert has lines");
        assert!(alerts.insert(name.to_owned(), rest.to_owned()).is_none(), "{name} is there twice");
    }
    alerts
}

#[test]
fn alerts_ask_for_what_is_there() {
    for line in read(&rules()).lines() {
        match line.trim().strip_prefix("expr: ") {
            Some(expression) => query::check(expression),
            None => query::check_names(line),
        }
    }
    for path in rule_tests().values() {
        read(path).lines().for_each(query::check_names);
    }
}

#[test]
fn every_alert_says_what_it_is_and_what_to_do() {
    let operations = fs::read_to_string(folder("docs/operations.md")).ok();
    for (name, lines) in alerts() {
        let field =
            |key: &str| lines.lines().find_map(|line| line.trim().strip_prefix(key)).unwrap_or_default();
        for key in ["expr: ", "summary: ", "description: "] {
            assert!(field(key).len() > 2, "{name} has no {key}");
        }
        assert!(["critical", "warning", "info"].contains(&field("severity: ")), "{name}");
        assert_eq!(field("runbook: "), format!("docs/operations.md#{}", name.to_lowercase()), "{name}");
        if let Some(operations) = &operations {
            let is_heading =
                |line: &str| line.starts_with('#') && line.trim_start_matches('#').trim() == name;
            assert!(
                operations.lines().any(is_heading),
                "docs/operations.md does not say what to do for {name}"
            );
        }
    }
}

#[test]
fn every_alert_has_a_test_in_which_it_fires_and_one_in_which_not() {
    let alerts: BTreeSet<_> = alerts().into_keys().collect();
    assert_eq!(alerts, rule_tests().into_keys().collect());
    for (name, path) in rule_tests() {
        let text = read(&path);
        let expected = text.matches(&format!("alertname: {name}\n")).count();
        let quiet = text.matches("exp_alerts: []").count();
        assert!(quiet > 0 && expected > quiet, "{name}");
    }
}
