//! However a measurement ends, nothing of it stays.

use super::{ended, nothing_is_left, overhead, pods, start};
use crate::cri::block_on;
use crate::cri::rig::Containerd;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::process::Child;

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().cast_signed()), signal).expect("it runs");
}

/// One containerd for all: to start one takes longer than to end a measurement.
pub(super) fn however() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        stopped(&containerd).await;
        killed(&containerd).await;
        restarted(&mut containerd).await;
        containerd.end().await;
    });
}

async fn stopped(containerd: &Containerd) {
    for by in [Signal::SIGINT, Signal::SIGTERM] {
        let measurement = start(&[]);
        pods(containerd, 1).await;
        // Meanwhile nobody else may measure or clean up.
        let refused = overhead(&["clean"]).output().expect("runs");
        assert_eq!(refused.status.code(), Some(69), "{}", String::from_utf8_lossy(&refused.stderr));
        signal(&measurement, by);
        let (run, code) = ended(&measurement.wait_with_output().expect("it ends"));
        assert_eq!(code, Some(3), "{run}");
        assert!(run["partial"].as_str().is_some_and(|why| why.starts_with("stopped in step")), "{run}");
        nothing_is_left(containerd).await;
    }
}

async fn killed(containerd: &Containerd) {
    let mut measurement = start(&[]);
    pods(containerd, 1).await;
    measurement.kill().expect("it runs");
    measurement.wait().expect("it ends");
    let left = pods(containerd, 1).await.len();
    let cleaned = overhead(&["clean", "--json"]).output().expect("runs");
    assert_eq!(cleaned.status.code(), Some(0), "{}", String::from_utf8_lossy(&cleaned.stderr));
    let said: serde_json::Value = serde_json::from_slice(&cleaned.stdout).expect("is JSON");
    let removed = said["pods"].as_u64().expect("a count");
    assert!(removed >= u64::try_from(left).expect("few"), "{said}");
    assert_eq!(said["images"], 1, "{said}");
    nothing_is_left(containerd).await;
    let again = overhead(&["clean"]).output().expect("runs");
    assert_eq!(String::from_utf8_lossy(&again.stdout), "removed 0 pods and 0 images\n");
}

async fn restarted(containerd: &mut Containerd) {
    let measurement = start(&[]);
    pods(containerd, 1).await;
    containerd.kill();
    let output = measurement.wait_with_output().expect("it ends");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(1 | 69)), "{:?} {told}", output.status);
    assert!(told.contains("enforcer overhead clean"), "{told}");
    containerd.restart().await;
    let cleaned = overhead(&["clean"]).output().expect("runs");
    assert_eq!(cleaned.status.code(), Some(0), "{}", String::from_utf8_lossy(&cleaned.stderr));
    nothing_is_left(containerd).await;
}
