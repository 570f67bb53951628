//! What an update writes, as it was foretold.

use super::rig::{HANDLERS, Home, enforcer, listen, start, text, writes};
use crate::cri::block_on;
use crate::cri::rig::Containerd;
use crate::debian::{read, write};
use enforcer::cri::message::LinuxContainerResources;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// By cgroup and file: who writes in order, and what it holds in the end (`None`: not foretold).
type Written = BTreeMap<(String, String), (Vec<String>, Option<String>)>;

/// Each runtime, asked for one thing at a time, with limits that drifted in between.
pub(super) fn foretold() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let folder = tempfile::tempdir_in("/run").expect("a folder");
        for handler in HANDLERS {
            let home = start(&mut containerd, handler, 8).await;
            check(&home, folder.path(), &["--memory=80Mi"]);
            check(&home, folder.path(), &["--cpu=500m"]);
            check(&home, folder.path(), &["--cpu-shares=512"]);
            for (file, value) in [
                ("memory.max", "72M"),
                ("memory.swap.max", "8M"),
                ("memory.high", "70M"),
                ("memory.low", "1M"),
                ("pids.max", "100"),
                ("cpu.weight", "77"),
            ] {
                write(&home.inner, file, value);
            }
            check(&home, folder.path(), &["--cpu=250m"]);
            assert_eq!(read(&home.inner, "memory.swap.max"), (8 << 20).to_string());
        }
        containerd.end().await;
    });
}

/// What a dry run says is what is written.
fn check(home: &Home, folder: &Path, words: &[&str]) {
    let all: Vec<_> = ["resize", &home.target].into_iter().chain(words.iter().copied()).collect();
    let dry = enforcer(&[&all[..], &["--dry-run"]].concat(), folder);
    let told = of_report(dry.assert(0));
    assert!(!told.is_empty(), "{words:?}");
    let mut probe = listen();
    drop(writes(&mut probe, &home.scope));
    enforcer(&all, folder).assert(0);
    let mut seen = Written::new();
    for (cgroup, write) in writes(&mut probe, &home.scope) {
        let by = String::from_utf8_lossy(write.writer.comm.as_bytes()).into_owned();
        let key = (cgroup.display().to_string(), write.file.name().to_owned());
        let entry = seen.entry(key).or_default();
        entry.0.push(by);
        entry.1 = write.end.map(|end| text(end.new));
    }
    let keys = |written: &Written| {
        written.iter().map(|(key, (by, _))| (key.clone(), by.clone())).collect::<Vec<_>>()
    };
    assert_eq!(keys(&told), keys(&seen), "{words:?}");
    for (key, (_, value)) in &told {
        let (_, held) = &seen[key];
        assert_eq!(value, held, "{key:?} by {words:?}");
    }
}

fn of_report(report: &Value) -> Written {
    let effects = report["effects"].as_array().expect("a list");
    let text = |value: &Value| value.as_str().map(str::to_owned);
    effects
        .iter()
        .map(|effect| {
            let key = (text(&effect["cgroup"]).expect("a path"), text(&effect["file"]).expect("a name"));
            let by = effect["by"].as_array().expect("a list").iter().map(|by| text(by).expect("a name"));
            (key, (by.collect(), text(&effect["after"])))
        })
        .collect()
}

/// Why that is refused: crun 1.21 makes 1000us of it, in whatever period.
pub(super) fn no_quota() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let folder = tempfile::tempdir_in("/run").expect("a folder");
        let home = start(&mut containerd, "crun", 8).await;
        let answer = enforcer(&["resize", &home.target, "--cpu=max"], folder.path());
        answer.assert(69);
        assert!(answer.error.contains("tightest cpu.max"), "{}", answer.error);
        assert_eq!(read(&home.scope, "cpu.max"), "25000 100000");
        let by_hand = LinuxContainerResources { cpu_quota: -1, ..LinuxContainerResources::default() };
        containerd.client().await.update_container_resources(&home.id, by_hand).await.expect("is taken");
        assert_eq!(read(&home.scope, "cpu.max"), "1000 100000", "a crun that does better needs no refusal");
        enforcer(&["resize", &home.target, "--cpu=2"], folder.path()).assert(0);
        assert_eq!(read(&home.scope, "cpu.max"), "200000 100000");
        let home = start(&mut containerd, "", 8).await;
        enforcer(&["resize", &home.target, "--cpu=max"], folder.path()).assert(0);
        assert_eq!(read(&home.scope, "cpu.max"), "max 100000");
        containerd.end().await;
    });
}
