//! What goes wrong in the middle.

use super::rig::{HANDLERS, Home, books, ended, enforcer, known, listen, number, spawn, start, until};
use crate::cri::block_on;
use crate::cri::rig::{Containerd, MIB, SOCKET, STOPPING, stopped_update, updates_go_on, updates_stop};
use crate::debian::{kills, output, read};
use crate::process::Other;
use enforcer::actuate::StateDir;
use enforcer::cgroup::Mount;
use enforcer::cri::Client;
use enforcer::probe::{LimitKind, Probe, ProbeOptions};
use enforcer::resize::{Actor, Ended, Gate, Via};
use enforcer::shrink::{Bus, Cancel, NoObserver, WATCHES};
use enforcer_gate::{Bytes, Micros, Policy, Reason, StallBudget, Verdict};
use enforcer_vm_tests::processes::child_of;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

const TO: i64 = 48;

/// Begins a shrink and waits until its limit is in force, which the gate then watches.
async fn shrinking(home: &Home, folder: &Path, spans: &[&str]) -> (Child, Probe) {
    let mut probe = listen();
    let words = ["shrink", &home.target, "--to=48Mi"];
    let mut child = spawn(&[&words, spans].concat(), folder);
    let ours = (TO * MIB).to_string();
    let early = async {
        while child.try_wait().expect("is ours").is_none() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let is_early = tokio::select! {
        () = until(&mut probe, &home.scope, LimitKind::MemoryMax, "enforcer", |asked| asked == ours) => false,
        () = early => true,
    };
    assert!(!is_early, "it ends early: {:#?}", ended(child));
    (child, probe)
}

#[track_caller]
fn is_at(home: &Home, mib: i64) {
    assert_eq!(number(&home.inner, "memory.max"), mib * MIB);
    acts_at(home, mib);
}

/// The gate writes where the limit acts for the whole container; what crun keeps below that is left to crun.
#[track_caller]
fn acts_at(home: &Home, mib: i64) {
    assert_eq!(number(&home.scope, "memory.max"), mib * MIB);
    assert_eq!(read(&home.scope, "memory.high"), "max");
    assert_eq!(kills(&home.scope), "0");
}

pub(super) fn stopped_before() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let folder = tempfile::tempdir_in("/run").expect("a folder");
        for handler in HANDLERS {
            let home = start(&mut containerd, handler, 16).await;
            let (child, _) = shrinking(&home, folder.path(), &["--watch=8s", "--deadline=5s"]).await;
            containerd.signal(Signal::SIGSTOP);
            let answer = ended(child);
            answer.assert(1);
            assert!(answer.error.contains("no answer to ContainerStatus within 5s"), "{}", answer.error);
            assert!(
                answer.error.contains("the runtime has not taken it; the limit went back up"),
                "{}",
                answer.error
            );
            assert_eq!(answer.report["told"], "not asked");
            is_at(&home, 64);
            containerd.signal(Signal::SIGCONT);
            assert_eq!(books(&containerd, &home.id).await, (64 * MIB, 64 * MIB));
            is_at(&home, 64);
            enforcer(&["shrink", &home.target, "--to=48Mi"], folder.path()).assert(0);
            is_at(&home, TO);
        }
        containerd.end().await;
    });
}

/// Begins a shrink and waits until the runtime is at work on it, where it stays.
async fn telling(home: &Home, folder: &Path, deadline: &str) -> (Child, Pid) {
    updates_stop();
    let child = spawn(&["shrink", &home.target, "--to=48Mi", deadline], folder);
    (child, stopped_update().await)
}

/// The call is under way: raised now, the limit could be lowered by it later, without the gate.
pub(super) fn stopped_amid() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let folder = tempfile::tempdir_in("/run").expect("a folder");
        for handler in STOPPING {
            let home = start(&mut containerd, handler, 16).await;
            let (child, stopped) = telling(&home, folder.path(), "--deadline=5s").await;
            containerd.signal(Signal::SIGSTOP);
            let answer = ended(child);
            answer.assert(1);
            assert_eq!(answer.report["told"], "not answered");
            assert!(
                answer.error.contains("no answer to UpdateContainerResources within 5s"),
                "{}",
                answer.error
            );
            assert!(answer.error.contains("the gate's limit stays"), "{}", answer.error);
            acts_at(&home, TO);
            containerd.signal(Signal::SIGCONT);
            updates_go_on(stopped);
            agree_again(&containerd, &home, folder.path()).await;
        }
        containerd.end().await;
    });
}

pub(super) fn killed_amid() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let folder = tempfile::tempdir_in("/run").expect("a folder");
        for handler in STOPPING {
            let home = start(&mut containerd, handler, 16).await;
            let (child, stopped) = telling(&home, folder.path(), "--deadline=20s").await;
            containerd.kill();
            let answer = ended(child);
            answer.assert(1);
            assert_eq!(answer.report["told"], "not answered");
            assert!(answer.error.contains("connection broke"), "{}", answer.error);
            assert!(answer.error.contains("the gate's limit stays"), "{}", answer.error);
            assert_eq!(number(&home.scope, "memory.max"), TO * MIB);
            updates_go_on(stopped);
            containerd.restart().await;
            agree_again(&containerd, &home, folder.path()).await;
        }
        containerd.end().await;
    });
}

/// The same command again makes the kernel, the runtime and systemd agree.
async fn agree_again(containerd: &Containerd, home: &Home, folder: &Path) {
    enforcer(&["shrink", &home.target, "--to=48Mi"], folder).assert(0);
    assert_eq!(books(containerd, &home.id).await, (TO * MIB, TO * MIB));
    is_at(home, TO);
}

pub(super) fn gone() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let folder = tempfile::tempdir_in("/run").expect("a folder");
        for handler in HANDLERS {
            let home = start(&mut containerd, handler, 16).await;
            let (child, _) = shrinking(&home, folder.path(), &["--watch=60s"]).await;
            containerd.tell("RemoveContainer", &home.id).await;
            let answer = ended(child);
            assert!([1, 2].contains(&answer.code), "{}: {}", answer.code, answer.report);
            // Before it ends a container its runtime freezes it.
            let reason = answer.report["certificate"]["reason"].to_string();
            assert!(reason.contains("gone") || reason.contains("frozen"), "{reason}: {}", answer.report);
            let none = enforcer(&["shrink", &home.target, "--to=32Mi"], folder.path());
            assert!([1, 64].contains(&none.code) && !none.error.is_empty(), "{}: {}", none.code, none.error);
            assert_settled(folder.path());
        }
        containerd.end().await;
    });
}

/// Nothing is left for `enforcer recover`.
fn assert_settled(folder: &Path) {
    let said = output(
        "/bin/enforcer",
        ["recover".as_ref(), "--json".as_ref(), "--state-dir".as_ref(), folder.as_os_str()],
    );
    assert_eq!(said.status.code(), Some(0), "{}", String::from_utf8_lossy(&said.stderr));
    let left = StateDir::open(folder).expect("a folder");
    assert!(left.is_empty(), "{}", String::from_utf8_lossy(&said.stdout));
}

/// Between the gate's commit and the runtime's update: the runtime is stopped, so that the question before waits.
pub(super) fn enforcer_killed() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let folder = tempfile::tempdir_in("/run").expect("a folder");
        for handler in HANDLERS {
            let home = start(&mut containerd, handler, 16).await;
            let (mut child, mut probe) = shrinking(&home, folder.path(), &["--watch=8s"]).await;
            containerd.signal(Signal::SIGSTOP);
            // The last that the gate does.
            until(&mut probe, &home.scope, LimitKind::MemoryHigh, "enforcer", |asked| asked == "max").await;
            let restorer = Other::new(child_of(child.id()).expect("it has a restorer"));
            child.kill().expect("it runs");
            child.wait().expect("it ends");
            restorer.wait();
            containerd.signal(Signal::SIGCONT);
            assert_settled(folder.path());
            is_at(&home, 64);
            assert_eq!(books(&containerd, &home.id).await, (64 * MIB, 64 * MIB));
        }
        containerd.end().await;
    });
}

/// As an agent does it: the library, with a handle instead of signals.
pub(super) fn cancelled() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let folder = tempfile::tempdir_in("/run").expect("a folder");
        let home = start(&mut containerd, "", 16).await;
        let (pod, container) = known(&containerd, "web", "main").await;
        let client = Client::connect(Path::new(SOCKET), Duration::from_mins(1)).await.expect("connects");
        let actor = Actor::new(client, Arc::new(Mount::discover().expect("cgroup v2")));
        let probe = Probe::load(&ProbeOptions::only(WATCHES)).expect("load the probe");
        let (bus, _task) = Bus::start(probe);
        let policy = Policy {
            observe_window: Micros::from_millis(500),
            trial_window: Micros::from_secs(60),
            stall: StallBudget {
                full_per_second: Micros::from_secs(1),
                full_total: Micros::from_secs(3),
                some_total: Micros::from_secs(6),
            },
            ..Policy::default()
        };
        let cancel = Cancel::new();
        let gate = Gate {
            bus: &bus,
            policy,
            state_dir: StateDir::open(folder.path()).expect("a folder"),
            observer: &mut NoObserver,
            cancel: Some(cancel.clone()),
        };
        let mut probe = listen();
        let shrink = actor.shrink(&container, &pod, Bytes::from_mib(48), Via::Cri, gate);
        let stop = async {
            until(&mut probe, &home.scope, LimitKind::MemoryHigh, "", |asked| asked != "max").await;
            cancel.cancel();
        };
        let (outcome, ()) = tokio::join!(shrink, stop);
        let outcome = outcome.expect("ends well");
        assert_eq!(outcome.ended(), Ended::Refused);
        let verdict = outcome.certificate.expect("has one").verdict;
        assert_eq!(verdict, Verdict::RolledBack(Reason::Cancelled));
        assert!(outcome.told.is_none());
        is_at(&home, 64);
        assert_settled(folder.path());
        containerd.end().await;
    });
}
