//! What can be lost, and that it is counted.

use super::rig::{ENFORCER, Recording, fall, limited, number, ooms, store, stored, text, victims};
use crate::disk::Disk;
use enforcer_vm_tests::scratch::Scratch;
use enforcer_vm_tests::workload::{PROGRAM, Workload};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

/// Kills one after another, as fast as they come.
fn kills(cgroup: &Scratch, count: usize) {
    let mut workload =
        Workload::run(cgroup, &format!("kill-loop --n {count} --parallel 2 --size 32Mi --thp"));
    assert_eq!(workload.line(), format!("kill-loop killed {count} other 0"));
}

fn victims_of(store: &Path, cgroup: &Scratch) -> Vec<u64> {
    let id = cgroup.id();
    ooms(store).iter().filter(|oom| oom["owner"]["id"] == id).flat_map(victims).collect()
}

/// The sum of a field of all notes of loss.
fn lost(store: &Path, field: impl Fn(&Value) -> &Value) -> u64 {
    let lines = stored(store);
    lines.iter().filter_map(|line| line.get("lost")).map(|lost| field(lost).as_u64().unwrap_or(0)).sum()
}

/// A ring of one page that nobody reads for a while.
pub(super) fn small_ring() {
    const COUNT: usize = 60;
    let store = store();
    let recording = Recording::with(store.path(), &["--ring", "4Ki"]);
    let cgroup = limited("ring", "8M");
    recording.signal(Signal::SIGSTOP);
    kills(&cgroup, COUNT);
    recording.signal(Signal::SIGCONT);
    recording.stop();
    let told: BTreeSet<u64> = victims_of(store.path(), &cgroup).into_iter().collect();
    let dropped = lost(store.path(), |lost| &lost["dropped"]["oom_kill"]);
    assert!(!told.is_empty() && dropped > 0, "{} told, {dropped} dropped", told.len());
    assert_eq!(told.len() as u64 + dropped, COUNT as u64, "what was dropped makes up the difference");
    assert_eq!(cgroup.kills(), COUNT as u64);
}

/// `kill -9` at random moments while kills come, again and again, into one store.
pub(super) fn killed() {
    const KILLED: usize = 5;
    let store = store();
    let cgroup = limited("killed", "8M");
    let mut seed = std::process::id();
    let mut told = Vec::new();
    for _ in 0..KILLED {
        let mut recording = Recording::start(store.path());
        let mut workload =
            Workload::launch(PROGRAM, &cgroup, "kill-loop --n 40 --parallel 2 --size 32Mi --thp");
        // xorshift; any number of records will do.
        seed ^= seed << 13;
        seed ^= seed >> 17;
        seed ^= seed << 5;
        for _ in 0..seed % 30 {
            told.extend(recording.line());
        }
        recording.kill();
        workload.wait();
    }
    let recording = Recording::start(store.path());
    let last = fall(&cgroup);
    recording.stop();
    let lines = stored(store.path());
    assert_eq!(lines.iter().filter(|line| line.get("began").is_some()).count(), KILLED + 1);
    for line in &told {
        assert!(lines.contains(line), "it was told, so it is stored: {line}");
    }
    let ooms = ooms(store.path());
    assert!(ooms.iter().any(|oom| victims(oom) == [u64::from(last)]), "the last one is there");
    assert!(ooms.len() >= told.len(), "{} of {}", ooms.len(), told.len());
    for oom in &ooms {
        assert_eq!(
            (&oom["version"], &oom["owner"]["id"]),
            (&Value::from(1), &Value::from(cgroup.id())),
            "{oom}"
        );
        assert_eq!((victims(oom).len(), &oom["victims_lost"]), (1, &Value::from(0)), "{oom}");
        assert_eq!(number(&oom["owner"]["limit"]["bytes"]), 8 << 20, "{oom}");
        assert!(text(&oom["victims"][0]["comm"]).starts_with("enforcer-worklo"), "{oom}");
    }
}

pub(super) fn full_disk() {
    let disk = Disk::of(1024);
    let store = disk.path().join("store");
    let recording = Recording::start(&store);
    let cgroup = limited("full", "8M");
    let filler = disk.leave(16 << 10);
    kills(&cgroup, 40);
    // Once the recorder was through with those it goes on, as soon as there is room.
    recording.signal(Signal::SIGSTOP);
    std::fs::remove_file(filler).expect("make room");
    recording.signal(Signal::SIGCONT);
    kills(&cgroup, 5);
    recording.stop();
    let told = victims_of(&store, &cgroup).len() as u64;
    let unstored = lost(&store, |lost| &lost["unstored"]);
    assert!(told > 5 && unstored > 0, "{told} stored, {unstored} not");
    assert_eq!(told + unstored, 45);
}

pub(super) fn full_disk_makes_room() {
    let disk = Disk::of(1024);
    let store = disk.path().join("store");
    let recording = Recording::with(&store, &["--store-max", "400Ki"]);
    let cgroup = limited("room", "8M");
    disk.leave(160 << 10);
    kills(&cgroup, 250);
    let last = fall(&cgroup);
    recording.stop();
    let told = victims_of(&store, &cgroup);
    assert_eq!(told.last(), Some(&u64::from(last)), "the newest are kept");
    assert!(told.len() > 10 && told.len() < 251, "{} are kept", told.len());
    assert_eq!(lost(&store, |lost| &lost["unstored"]), 0);
}

pub(super) fn two_recorders() {
    let store = store();
    let mut recording = Recording::start(store.path());
    let second = Command::new(ENFORCER)
        .args(["oom", "record", "--store"])
        .arg(store.path())
        .stdin(Stdio::null())
        .output()
        .expect("enforcer starts");
    assert_eq!(second.status.code(), Some(1));
    let error = String::from_utf8_lossy(&second.stderr);
    assert!(error.contains("another process writes to it"), "{error}");
    // The first is none the worse for it.
    let cgroup = limited("two", "8M");
    let pid = fall(&cgroup);
    assert_eq!(victims(&recording.oom_of(&cgroup)), [u64::from(pid)]);
}
