//! What `deploy` holds for Kubernetes, held against where it comes from. Tests only: it renders nothing.

use crate::build::root;
use crate::cmd_manifests::{AGENT, ALERTS, TAKE_BACK, sum};
use std::collections::BTreeSet;
use std::fs;

const PLAIN: [&str; 2] = [AGENT, TAKE_BACK];

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The words of a YAML list that begins below the line `key`, each with its dash.
fn list_below(yaml: &str, key: &str) -> BTreeSet<String> {
    let below = yaml.lines().skip_while(|line| line.trim() != key).skip(1);
    below.map_while(|line| line.trim().strip_prefix("- ")).map(str::to_owned).collect()
}

#[test]
fn manifests_are_of_this_chart() {
    let line = format!("# chart-sha256: {}", sum(&root()).unwrap());
    for path in PLAIN {
        assert!(
            text(path).lines().any(|have| have == line),
            "{path} is of another chart: cargo xtask manifests"
        );
    }
}

#[test]
fn the_charts_alerts_are_the_alerts() {
    let [from, copy] = ALERTS;
    assert!(text(from) == text(copy), "{copy} is not {from}: cargo xtask manifests");
}

#[test]
fn capabilities_are_those_of_the_unit_and_each_is_explained() {
    let added = list_below(&text(PLAIN[0]), "add:");
    let unit = text("deploy/systemd/enforcer.service");
    let unit = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let of_unit: BTreeSet<_> =
        unit.split(' ').map(|name| name.trim_start_matches("CAP_").to_owned()).collect();
    assert_eq!(added, of_unit);
    let docs = text("docs/kubernetes-deploy.md");
    let docs = docs.split("## Capabilities").nth(1).unwrap().split("\n## ").next().unwrap();
    let first = docs.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let explained: BTreeSet<_> =
        first.flat_map(|cell| cell.split(',')).map(|name| name.trim().trim_matches('`').to_owned()).collect();
    assert_eq!(added, explained);
}

#[test]
fn the_pod_is_as_closed_as_it_is_said_to_be() {
    let pod = text(PLAIN[0]);
    let lines: BTreeSet<_> = pod.lines().map(str::trim).collect();
    for wanted in [
        "privileged: false",
        "readOnlyRootFilesystem: true",
        "drop: [ALL]",
        "seccompProfile:",
        "priorityClassName: system-node-critical",
        "maxUnavailable: 1",
        "readinessProbe:",
        "livenessProbe:",
        "policyTypes: [Ingress]",
        "paused = false",
        "take_back = false",
    ] {
        assert!(lines.contains(wanted), "{wanted}");
    }
    for refused in ["hostNetwork", "hostIPC", "privileged: true"] {
        assert!(!pod.contains(refused), "{refused}");
    }
}

#[test]
fn only_the_documented_verbs_are_given() {
    let rules = |path| -> Vec<String> {
        let yaml = text(path);
        let lines = yaml.lines().map(str::trim);
        lines.filter(|line| line.starts_with("verbs:")).map(str::to_owned).collect()
    };
    assert_eq!(rules(PLAIN[0]), ["verbs: [get, list, watch]", "verbs: [create]"]);
    assert_eq!(rules(PLAIN[1]), ["verbs: [patch]"]);
    assert!(!text(PLAIN[0]).contains("pods/resize"));
    assert_eq!(text(PLAIN[1]).matches("\n    resources: [pods/resize]\n").count(), 1);
}
