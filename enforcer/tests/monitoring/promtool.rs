//! Prometheus' own checks of what lies in files.

use super::{deploy, full, prometheus::program};
use enforcer::metrics::{Format, Metrics};
use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

/// Runs it with `input`, and panics with what it says where it is not content; `false` where there is none.
fn promtool(arguments: &[&dyn AsRef<Path>], input: &str) -> bool {
    let Some(program) = program("promtool") else { return false };
    let mut command = Command::new(program);
    command.args(arguments.iter().map(|argument| argument.as_ref().as_os_str()));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("it reads");
    // Where it does not care for its input it has ended before.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    true
}

#[test]
fn prometheus_takes_the_text_and_finds_no_fault_with_it() {
    promtool(&[&"check", &"metrics"], &full::metrics().render_as(Format::Text));
    promtool(&[&"check", &"metrics"], &Metrics::new().render_as(Format::Text));
}

#[test]
fn prometheus_takes_names_that_are_hostile() {
    let metrics = full::metrics();
    let hostile = |number: u8| format!("{}\"}} 1\n# HELP \\ {number} é\u{fffd}\r", char::from(number));
    metrics.set_containers((0..128).map(|number| full::container(&hostile(number), "\\", "\"")).collect());
    promtool(&[&"check", &"metrics"], &metrics.render_as(Format::Text));
}

#[test]
fn prometheus_takes_the_alerts() {
    promtool(&[&"check", &"rules", &deploy::rules()], "");
}

#[test]
fn every_alert_fires_when_it_should_and_only_then() {
    for (name, path) in deploy::rule_tests() {
        if promtool(&[&"test", &"rules", &path], "") {
            println!("{name}");
        }
    }
}

#[test]
fn prometheus_takes_the_queries_of_the_dashboard() {
    let mut rules = String::from("groups:\n- name: dashboard\n  rules:\n");
    for (number, query) in deploy::dashboard_queries().iter().enumerate() {
        let query = query.replace("$__rate_interval", "5m").replace('\'', "''");
        rules.extend([format!("  - record: query_{number}\n    expr: '{query}'\n")]);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rules.yaml");
    fs::write(&path, rules).expect("is written");
    promtool(&[&"check", &"rules", &path], "");
}
