//! What the agent and the node survive.

use super::{MIB, block_on, cgroup_of, holds, memory};
use crate::cri::rig::{Containerd, LONG};
use crate::debian::{kills, output, read};
use crate::disk::Disk;
use enforcer_vm_tests::agent_rig::{AT_ONCE, Agent, says};
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};

const LABEL: (&str, &str) = ("enforcer.dev/policy", "auto-shrink");

/// In each state of the gate: what it did is put back by the restorer, and the next one finds nothing to settle or settles it.
pub(super) fn killed() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let slow = ["gate.observe=3s", "gate.window=30s", "gate.watch=30s"];
        let mut agent = Agent::ready(&[&AT_ONCE[..], &slow].concat());
        containerd.run_pod_with("web", "", &[LABEL], &[]).await;
        let program = holds(20);
        let program: Vec<_> = program.iter().map(String::as_str).collect();
        containerd.run_job("app", &program, memory(128 * MIB)).await;
        for state in ["observing", "trial", "watching"] {
            let quick = if state == "watching" { "gate.window=1s" } else { "gate.window=30s" };
            let view = agent.seen("app", "read", |view| view.limit.is_some()).await;
            let cgroup = cgroup_of(&view);
            let began = Instant::now();
            while !agent.status().await.in_flight.iter().any(|flight| flight.state == state) {
                assert!(began.elapsed() < LONG, "it comes to {state}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            agent.signal(Signal::SIGKILL);
            agent.ended();
            let whole = || {
                let (high, max) = (read(&cgroup, "memory.high"), read(&cgroup, "memory.max"));
                (high == "max" && max == (128 * MIB).to_string(), high, max)
            };
            let began = Instant::now();
            while !whole().0 {
                assert!(began.elapsed() < LONG, "killed in {state}: {:?}", whole());
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            assert_eq!(kills(&cgroup), "0");
            let next = if state == "trial" { "gate.window=1s" } else { quick };
            agent.again(&[&AT_ONCE[..], &slow, &[next]].concat());
            agent.is_current();
        }
        agent.end();
        containerd.end().await;
    });
}

pub(super) fn full_disk() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let disk = Disk::of(512);
        let folder = disk.path().join("state").display().to_string();
        let stores = [
            format!("agent.state_dir={folder}"),
            format!("oom.store={}", disk.path().join("oom").display()),
            format!("guard.store={}", disk.path().join("guard").display()),
        ];
        let stores: Vec<_> = stores.iter().map(String::as_str).collect();
        let agent = Agent::ready(&[&AT_ONCE[..], &stores].concat());
        let filler = disk.leave(0);
        containerd.run_pod_with("web", "", &[LABEL], &[]).await;
        let program = holds(20);
        let program: Vec<_> = program.iter().map(String::as_str).collect();
        containerd.run_job("app", &program, memory(128 * MIB)).await;
        let said = agent.heard("that there is no room", |said| says(said, "verdict", "No space left"));
        assert_eq!(said["target"], "pod/testing/web:app");
        let view = agent.seen("app", "as it was", |view| view.limit.is_some()).await;
        let cgroup = cgroup_of(&view);
        assert_eq!(
            (read(&cgroup, "memory.max"), read(&cgroup, "memory.high")),
            ((128 * MIB).to_string(), "max".into())
        );
        assert_eq!(agent.page("/healthz").0, 200);
        std::fs::remove_file(filler).expect("make room");
        agent.heard("the verdict", |said| says(said, "verdict", "committed"));
        agent.end();
        containerd.end().await;
    });
}

pub(super) fn second() {
    block_on(async {
        let containerd = Containerd::start().await;
        let agent = Agent::ready(&[]);
        let socket = format!("agent.admin_socket={}", agent.path("admin.sock").display());
        let answer =
            output("/bin/enforcer", ["run", "--set", &socket, "--set", "http.listen=127.0.0.1:9465"]);
        let error = String::from_utf8(answer.stderr).expect("text");
        assert_eq!(answer.status.code(), Some(1), "{error}");
        assert!(error.contains(&format!("another agent listens there (process {})", agent.pid())), "{error}");
        assert!(agent.status().await.pid == agent.pid());
        // Nor does it help to be somewhere else.
        let elsewhere = tempfile::tempdir_in("/run").expect("a folder");
        let at = |key: &str| format!("{key}={}", elsewhere.path().join(key).display());
        let sets = ["agent.admin_socket", "agent.state_dir", "oom.store", "guard.store"].map(at);
        let sets = sets.iter().map(String::as_str).chain(["http.listen=127.0.0.1:9465"]);
        let answer = output("/bin/enforcer", ["run"].into_iter().chain(sets.flat_map(|set| ["--set", set])));
        let error = String::from_utf8(answer.stderr).expect("text");
        assert_eq!(answer.status.code(), Some(1), "{error}");
        assert!(
            error.contains(&format!("another agent runs on this node: pid {} has ", agent.pid())),
            "{error}"
        );
        let left = std::fs::read_dir(elsewhere.path()).expect("the folder").count();
        assert_eq!(left, 0, "it came to nothing");
        // A stale socket is nobody's.
        let mut agent = agent;
        agent.signal(Signal::SIGKILL);
        agent.ended();
        assert_eq!(agent.ask(&["status"]).0, Some(69));
        agent.again(&[]);
        assert_eq!(agent.status().await.pid, agent.pid());
        agent.end();
        containerd.end().await;
    });
}

/// Pods and containers come and go; what the agent holds for them goes with them.
pub(super) fn churn() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let agent = Agent::ready(&AT_ONCE);
        let own = |agent: &Agent| {
            let fds = std::fs::read_dir(format!("/proc/{}/fd", agent.pid())).expect("it runs").count();
            let tasks = std::fs::read_dir(format!("/proc/{}/task", agent.pid())).expect("it runs").count();
            (fds, tasks)
        };
        let empty = |status: &enforcer::admin::model::Status| status.pods == 0 && status.containers == 0;
        assert!(empty(&agent.status().await));
        let before = own(&agent);
        let mut seen = 0;
        for round in 0..4 {
            let mut sandboxes = Vec::new();
            for pod in 0..2 {
                let handler = if pod == 0 { "" } else { "crun" };
                sandboxes.push(containerd.run_pod(&format!("pod-{round}-{pod}"), handler).await);
                for container in 0..3 {
                    // Of different ages when they go.
                    containerd.run_container(&format!("c-{container}"), memory((16 + container) * MIB)).await;
                    seen += 1;
                }
            }
            agent.seen(&format!("c-{}", round % 3), "read", |view| view.usage.is_some()).await;
            for sandbox in sandboxes {
                containerd.tell("StopPodSandbox", &sandbox).await;
                containerd.tell("RemovePodSandbox", &sandbox).await;
                containerd.forget(&sandbox);
            }
        }
        assert!(seen >= 20);
        let began = Instant::now();
        while !empty(&agent.status().await) || own(&agent) > before {
            assert!(began.elapsed() < LONG, "{before:?}, now {:?}", own(&agent));
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let (_, metrics) = agent.page("/metrics");
        assert!(!metrics.contains("container=\"c-"), "{metrics}");
        let lost = agent.status().await.lost;
        assert!(lost.is_empty(), "{lost:?}");
        agent.end();
        containerd.end().await;
    });
}
