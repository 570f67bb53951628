//! However a measurement ends, nothing of it stays.

use super::{ended, nothing_is_left, overhead, pods, start};
use crate::cri::block_on;
use crate::cri::rig::Containerd;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().cast_signed()), signal).expect("it runs");
}

pub(super) fn stopped() {
    block_on(async {
        let containerd = Containerd::start().await;
        for by in [Signal::SIGINT, Signal::SIGTERM] {
            let measurement = start(&[]);
            pods(&containerd, 2).await;
            // Meanwhile nobody else may measure or clean up.
            let refused = overhead(&["clean"]).output().expect("runs");
            assert_eq!(refused.status.code(), Some(69), "{}", String::from_utf8_lossy(&refused.stderr));
            signal(&measurement, by);
            let (run, code) = ended(&measurement.wait_with_output().expect("it ends"));
            assert_eq!(code, Some(3), "{run}");
            assert!(run["partial"].as_str().is_some_and(|why| why.starts_with("stopped in step")), "{run}");
            nothing_is_left(&containerd).await;
        }
        containerd.end().await;
    });
}

pub(super) fn killed() {
    block_on(async {
        let containerd = Containerd::start().await;
        let mut measurement = start(&[]);
        pods(&containerd, 2).await;
        measurement.kill().expect("it runs");
        measurement.wait().expect("it ends");
        let left = pods(&containerd, 1).await.len();
        let cleaned = overhead(&["clean", "--json"]).output().expect("runs");
        assert_eq!(cleaned.status.code(), Some(0), "{}", String::from_utf8_lossy(&cleaned.stderr));
        let said: serde_json::Value = serde_json::from_slice(&cleaned.stdout).expect("is JSON");
        let removed = said["pods"].as_u64().expect("a count");
        assert!(removed >= u64::try_from(left).expect("few"), "{said}");
        assert_eq!(said["images"], 1, "{said}");
        nothing_is_left(&containerd).await;
        let again = overhead(&["clean"]).output().expect("runs");
        assert_eq!(String::from_utf8_lossy(&again.stdout), "removed 0 pods and 0 images\n");
        containerd.end().await;
    });
}

/// A shell whose program file and command line are those of a shim.
fn disguised(sandbox: &str, folder: &std::path::Path) -> Child {
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

pub(super) fn look_alike() {
    block_on(async {
        let containerd = Containerd::start().await;
        let folder = tempfile::tempdir().expect("a folder");
        // One size that is held for long enough, so that its pods are known while they are read.
        let measurement = start(&["--steps=0,2", "--repetitions=2", "--duration=8s"]);
        let sandbox = pods(&containerd, 2).await.pop().expect("two");
        let mut disguised = disguised(&sandbox, folder.path());
        let (run, _) = ended(&measurement.wait_with_output().expect("it ends"));
        let mut input = disguised.stdin.take().expect("a pipe");
        input.write_all(b"\n").expect("it reads");
        disguised.wait().expect("it ends");
        let samples = run["pods"].as_array().expect("samples");
        let its: Vec<_> = samples.iter().filter(|sample| sample["sandbox"] == sandbox.as_str()).collect();
        assert!(!its.is_empty(), "{run}");
        for sample in its {
            let pid = disguised.id();
            let flag = &sample["flags"][0];
            assert_eq!((&flag["flag"], &flag["pid"]), (&"look_alike".into(), &pid.into()), "{sample}");
            let helpers = sample["helpers"].as_array().expect("helpers");
            assert!(helpers.len() == 1 && helpers[0]["pid"] != pid, "{sample}");
        }
        nothing_is_left(&containerd).await;
        containerd.end().await;
    });
}

pub(super) fn restarted() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let measurement = start(&[]);
        pods(&containerd, 2).await;
        containerd.kill();
        let output = measurement.wait_with_output().expect("it ends");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(matches!(output.status.code(), Some(1 | 69)), "{:?} {told}", output.status);
        assert!(told.contains("enforcer overhead clean"), "{told}");
        containerd.restart().await;
        let cleaned = overhead(&["clean"]).output().expect("runs");
        assert_eq!(cleaned.status.code(), Some(0), "{}", String::from_utf8_lossy(&cleaned.stderr));
        nothing_is_left(&containerd).await;
        containerd.end().await;
    });
}
