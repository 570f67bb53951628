//! A pod's own limits, and which of its containers is meant.

use super::rig::{HANDLERS, enforcer, number, property, resources, start};
use crate::cri::block_on;
use crate::cri::rig::{Containerd, MIB, NAMESPACE};
use crate::debian::{output, run};

pub(super) fn limits() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let folder = tempfile::tempdir_in("/run").expect("a folder");
        for handler in HANDLERS {
            let home = start(&mut containerd, handler, 16).await;
            let pod = home.scope.parent().expect("in a pod").to_owned();
            let unit = pod.file_name().and_then(|name| name.to_str()).expect("a unit");
            run("systemctl", ["set-property", "--runtime", unit, "MemoryMax=96M", "CPUQuota=50%"]);
            let down = enforcer(&["resize", &home.target, "--memory=48Mi", "--cpu=200m"], folder.path());
            let report = down.assert(0);
            for name in ["certificate", "pod_certificate"] {
                assert_eq!(report[name]["verdict"], "committed", "{report}");
            }
            let held = |mib: i64, cpu: &str| {
                assert_eq!(number(&pod, "memory.max"), mib * MIB, "{handler}");
                assert_eq!(property(&pod, "MemoryMax"), (mib * MIB).to_string(), "{handler}");
                assert_eq!(crate::debian::read(&pod, "cpu.max"), cpu, "{handler}");
            };
            held(80, "45000 100000");
            enforcer(&["resize", &home.target, "--memory=72Mi", "--cpu=400m"], folder.path()).assert(0);
            held(104, "65000 100000");
            assert_eq!(number(&home.inner, "memory.max"), 72 * MIB);
        }
        containerd.end().await;
    });
}

pub(super) fn several() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let folder = tempfile::tempdir_in("/run").expect("a folder");
        let home = start(&mut containerd, "", 8).await;
        let pod = format!("pod/{NAMESPACE}/web");
        let floor = |words: &[&str]| {
            let answer = output("/bin/enforcer", ["floor", "--json", "--deadline=60s"].iter().chain(words));
            let text = String::from_utf8(answer.stdout).expect("text");
            (answer.status.code(), serde_json::from_str(&text).unwrap_or(serde_json::Value::Null))
        };
        let (code, report) = floor(&[&pod]);
        assert_eq!(
            (code, &report["max"]),
            (Some(0), &serde_json::json!({"bytes": 64 * MIB})),
            "the one that runs"
        );
        containerd.run_container("side", resources(64)).await;
        let answer = enforcer(&["shrink", &pod, "--to=48Mi"], folder.path());
        answer.assert(64);
        assert!(answer.error.contains("several containers of it run: main, side"), "{}", answer.error);
        let (code, report) = floor(&[&pod]);
        assert_eq!(code, Some(64), "{report}");
        // The pod itself has no limit that could be lowered.
        enforcer(&["shrink", &pod, "--to=48Mi", "--via=cgroup"], folder.path()).assert(64);
        let slice = home.scope.parent().expect("in a pod");
        let unit = slice.file_name().and_then(|name| name.to_str()).expect("a unit");
        run("systemctl", ["set-property", "--runtime", unit, "MemoryMax=96M"]);
        let whole = enforcer(&["shrink", &pod, "--to=80Mi", "--via=cgroup"], folder.path());
        assert_eq!(whole.assert(0)["certificate"]["verdict"], "committed");
        assert_eq!(number(slice, "memory.max"), 80 * MIB);
        let one = enforcer(&["shrink", &home.target, "--to=48Mi", "--via=cgroup"], folder.path());
        let notes = one.assert(0)["notes"].to_string();
        assert!(notes.contains("does not know of it"), "{notes}");
        assert_eq!(number(&home.scope, "memory.max"), 48 * MIB);
        containerd.end().await;
    });
}
