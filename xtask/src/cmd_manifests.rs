//! `cargo xtask manifests`: the plain manifests of deploy/kubernetes, rendered from the chart by Helm.

use crate::{build, helm, run};
use anyhow::{Context, Result, ensure};
use clap::Args;
use std::fs;
use std::path::Path;
use std::process::Command;

/// What to do with them.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Write nothing; fail where a file is not what the chart gives.
    #[arg(long)]
    check: bool,
}

/// The chart.
pub(crate) const CHART: &str = "deploy/helm/enforcer";
/// All that the chart has by default, and the namespace.
pub(crate) const AGENT: &str = "deploy/kubernetes/enforcer.yaml";
/// What `takeBack.enabled` adds.
pub(crate) const TAKE_BACK: &str = "deploy/kubernetes/take-back.yaml";
/// The one source of the alerts, and the chart's copy, for a chart can't reach outside of itself.
pub(crate) const ALERTS: [&str; 2] =
    ["deploy/alerts/enforcer.rules.yaml", "deploy/helm/enforcer/files/enforcer.rules.yaml"];

/// Which cluster Helm is told of; nothing in the chart depends on it but its `kubeVersion`.
const KUBERNETES: &str = "1.35.0";

const NAMESPACE: &str = "\
---
apiVersion: v1
kind: Namespace
metadata:
  name: enforcer
  labels:
    # hostPID, hostPath and capabilities are refused at every other level.
    pod-security.kubernetes.io/enforce: privileged
";

pub(crate) fn run(options: &Options) -> Result<i32> {
    let root = build::root();
    let alerts = fs::read_to_string(root.join(ALERTS[0])).with_context(|| format!("read {}", ALERTS[0]))?;
    // The chart's sum is over this file too.
    let stale = keep(&root, ALERTS[1], &alerts, options.check)?;
    ensure!(!stale, "{} is not {}: cargo xtask manifests", ALERTS[1], ALERTS[0]);
    let sum = sum(&root)?;
    let of = |what: &str| {
        format!(
            "# {what}, release and namespace \"enforcer\": cargo xtask manifests.\n# chart-sha256: {sum}\n"
        )
    };
    let agent = format!(
        "{}{NAMESPACE}{}",
        of("The chart deploy/helm/enforcer with its default values"),
        template(&root, &[])?
    );
    let take_back = format!(
        "{}# The agent also needs kubernetes.take_back = true in its ConfigMap.\n{}",
        of("What takeBack.enabled adds to the chart deploy/helm/enforcer"),
        template(&root, &["--set", "takeBack.enabled=true", "--show-only", "templates/take-back.yaml"])?
    );
    let mut stale = Vec::new();
    for (file, text) in [(AGENT, agent), (TAKE_BACK, take_back)] {
        if keep(&root, file, &text, options.check)? {
            stale.push(file);
        }
    }
    ensure!(stale.is_empty(), "not what the chart gives: {}: cargo xtask manifests", stale.join(", "));
    println!("{AGENT}, {TAKE_BACK}: as the chart has them");
    Ok(0)
}

/// Writes a file, or only looks. Whether it is another one than it should be, and stays so.
fn keep(root: &Path, file: &str, text: &str, is_check: bool) -> Result<bool> {
    let path = root.join(file);
    if fs::read_to_string(&path).is_ok_and(|there| there == text) {
        return Ok(false);
    }
    if !is_check {
        fs::write(&path, text).with_context(|| format!("write {file}"))?;
    }
    Ok(is_check)
}

fn template(root: &Path, more: &[&str]) -> Result<String> {
    let mut helm = Command::new(helm::helm()?);
    helm.current_dir(root).args(["template", "enforcer", CHART, "--namespace", "enforcer"]);
    helm.args(["--kube-version", KUBERNETES]).args(more);
    run::output(&mut helm).context("render the chart")
}

/// SHA-256 over what `sha256sum` says of the chart's files, sorted by path: so that a test sees without Helm that the chart
/// is another one.
pub(crate) fn sum(root: &Path) -> Result<String> {
    let script = "find . -type f | LC_ALL=C sort | xargs sha256sum | sha256sum";
    let said = run::output(Command::new("sh").args(["-c", script]).current_dir(root.join(CHART)))?;
    Ok(said.split_whitespace().next().unwrap_or_default().to_owned())
}
