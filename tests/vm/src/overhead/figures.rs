//! Figures, and the node's word on them.

use super::{ended, nothing_is_left, overhead, pods, start};
use crate::cri::block_on;
use crate::cri::rig::{Containerd, ODD};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What a measurement says.
struct Measured {
    run: Value,
    code: Option<i32>,
    /// The cgroup of its containerd.
    containerd: String,
    /// The process that looks like a shim of the pod with this sandbox.
    disguised: Option<(u32, String)>,
}

/// A shell whose program file and command line are those of a shim.
fn disguise(sandbox: &str, folder: &Path) -> Child {
    let program = folder.join("containerd-shim-runc-v2");
    fs::copy("/bin/busybox", &program).expect("copies");
    let script = "echo ready; read never";
    Command::new(&program)
        .arg0("sh")
        .args(["-c", script, "-namespace", "k8s.io", "-id", sandbox])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("starts")
}

/// Measures, with a look-alike beside it where that is wanted.
async fn measured(words: &[&str], with_look_alike: bool) -> Measured {
    let containerd = Containerd::start().await;
    let own = containerd.cgroup();
    let folder = tempfile::tempdir().expect("a folder");
    let measurement = start(words);
    let mut disguised = None;
    if with_look_alike {
        // One of the pods that make a step, which is not the one to warm up.
        let sandbox = pods(&containerd, 2).await.pop().expect("two");
        disguised = Some((disguise(&sandbox, folder.path()), sandbox));
    }
    let output = tokio::task::spawn_blocking(|| measurement.wait_with_output());
    let (run, code) = ended(&output.await.expect("no panic").expect("it ends"));
    let disguised = disguised.map(|(mut child, sandbox)| {
        // Its standard input ends, and so does it.
        drop(child.stdin.take());
        child.wait().expect("it ends");
        (child.id(), sandbox)
    });
    println!("{words:?}: {} {}", run["kernel"], run["runtime"]);
    println!("{words:?}: {}", run["result"]);
    nothing_is_left(&containerd).await;
    containerd.end().await;
    Measured { run, code, containerd: own, disguised }
}

pub(super) fn runc() {
    block_on(async {
        let measured = measured(&["--runtime-handler=runc"], true).await;
        confirmed(&measured);
        let (pid, sandbox) = measured.disguised.as_ref().expect("one");
        let samples = measured.run["pods"].as_array().expect("samples");
        let its = samples.iter().filter(|sample| sample["sandbox"] == sandbox.as_str());
        let seen = its.filter(|sample| sample["flags"][0]["pid"] == *pid).count();
        assert!(seen > 0, "it was there while its pod was read: {}", measured.run);
        checked(&measured.run);
    });
}

pub(super) fn crun() {
    block_on(async { confirmed(&measured(&["--runtime-handler=crun"], false).await) });
}

/// Repeatability: three runs, and how far the numbers to declare lie apart.
pub(super) fn three_runs() {
    block_on(async {
        let mut fixed = Vec::new();
        for seed in ["--seed=1", "--seed=2", "--seed=3"] {
            let words = ["--steps=0,2,5", "--repetitions=4", "--duration=10s", seed];
            let measured = measured(&words, false).await;
            let result = &measured.run["result"];
            assert_eq!(measured.code, Some(0), "{result}");
            fixed.push(result["pod_fixed"].as_u64().expect("bytes") >> 20);
        }
        let (low, high) = (fixed.iter().min().expect("three"), fixed.iter().max().expect("three"));
        println!("podFixed of three runs: {fixed:?} MiB");
        assert!(high - low <= 3, "{fixed:?} MiB");
    });
}

fn confirmed(measured: &Measured) {
    let Measured { run, code, containerd, disguised } = measured;
    let acceptance = &run["result"]["acceptance"];
    assert_eq!((*code, &acceptance["verdict"]), (Some(0), &"accepted".into()), "{}", run["result"]);
    let samples = run["pods"].as_array().expect("samples");
    assert_eq!(samples.len(), 3 * 5, "each pod of each step");
    for sample in samples {
        let is_flagged = disguised.as_ref().is_some_and(|(_, sandbox)| sample["sandbox"] == sandbox.as_str());
        for flag in sample["flags"].as_array().expect("flags") {
            assert!(is_flagged && flag["flag"] == "look_alike", "{sample}");
        }
        let helpers = sample["helpers"].as_array().expect("helpers");
        assert_eq!(helpers.len(), 1, "{sample}");
        // The shim is in the cgroup of who started it, outside of its pod.
        let shim = &helpers[0];
        assert_eq!((&shim["rule"], &shim["in_pod"]), (&"containerd_shim".into(), &false.into()));
        assert_eq!(shim["cgroup"], containerd.as_str());
        assert!(sample["cpu"]["span"].as_u64() >= Some(3_000_000), "{sample}");
        assert_eq!(sample["cpu"]["reaped"], 0, "nothing is started in a pod that idles: {sample}");
        let anon = sample["terms"]["helper_anon"].as_u64().expect("bytes");
        assert!((1 << 20..64 << 20).contains(&anon), "{sample}");
        assert!(sample["terms"]["pod_kernel"].as_u64().expect("bytes") > 0, "{sample}");
        assert!(sample["peak"].as_u64() > Some(0), "{sample}");
    }
    // To make a pod takes runtime processes, which its shim reaps.
    let starts = run["starts"].as_array().expect("starts");
    assert!(starts.len() >= 5, "{starts:?}");
    for start in starts {
        assert!(start["cpu"]["reaped"].as_u64() > Some(0) && start["peak"].as_u64() > Some(0), "{start}");
    }
    // Enough for what was measured, in whole MiB.
    let total = run["result"]["total"]["p95"].as_u64().expect("bytes");
    let fixed = run["result"]["pod_fixed"].as_u64().expect("bytes");
    assert!(fixed > total && fixed.is_multiple_of(1 << 20) && fixed < total + (8 << 20), "{fixed} {total}");
}

/// What is declared, held against the measurement.
fn checked(run: &Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let [kept, class] = ["run.json", "class.yaml"].map(|name| folder.path().join(name).display().to_string());
    fs::write(&kept, run.to_string()).expect("is written");
    let fixed = run["result"]["pod_fixed"].as_u64().expect("bytes") >> 20;
    for (mib, code, size) in [(fixed, 0, "fits"), (1, 5, "too_small"), (fixed * 2 + 8, 6, "too_large")] {
        let declared = format!(
            "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {{name: a}}\nhandler: runc\n\
             overhead: {{podFixed: {{memory: {mib}Mi}}}}\n"
        );
        fs::write(&class, declared).expect("is written");
        let output =
            overhead(&["check", "--file", &class, "--measured", &kept, "--json"]).output().expect("runs");
        let said: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
        assert_eq!(
            (output.status.code(), &said["classes"][0]["memory"]["size"]),
            (Some(code), &json!(size)),
            "{said}"
        );
    }
}

/// The shim under another name: no rule finds it, and the node misses more than is attributed.
pub(super) fn hidden() {
    block_on(async {
        let Measured { run, code, .. } = measured(&["--runtime-handler", ODD], false).await;
        let result = &run["result"];
        assert_eq!((code, &result["acceptance"]["verdict"]), (Some(4), &"unexplained".into()), "{result}");
        let unexplained = result["acceptance"]["unexplained"].as_f64().expect("bytes");
        assert!(unexplained > f64::from(1 << 20), "{result}");
        let samples = run["pods"].as_array().expect("samples");
        let no_helper = json!({"flag": "no_helper"});
        assert!(samples.iter().all(|sample| sample["flags"] == json!([no_helper])), "{samples:?}");
    });
}

/// Each pod's own shim has the runtime's processes of its probes.
pub(super) fn probed() {
    block_on(async {
        let words = ["--phase=exec-probe", "--steps=0,2", "--repetitions=1", "--duration=8s"];
        let Measured { run, .. } = measured(&words, false).await;
        let probes: u64 =
            run["nodes"].as_array().expect("steps").iter().filter_map(|node| node["probes"].as_u64()).sum();
        assert!(probes >= 4, "{run}");
        let samples = run["pods"].as_array().expect("samples");
        assert_eq!((samples.len(), &run["phase"]), (2, &json!("exec-probe")));
        for sample in samples {
            println!("{probes} probes: {} {}", sample["sandbox"], sample["cpu"]);
            // A hundredth of a second is the least that a probe takes, whatever the machine.
            assert!(sample["cpu"]["reaped"].as_u64() >= Some(10_000), "{sample}");
        }
    });
}
