//! Memory and CPU, both ways.

use super::rig::{HANDLERS, books, enforcer, number, property, start};
use crate::cri::block_on;
use crate::cri::rig::{Containerd, MIB};
use crate::debian::{kills, read, run, write};
use serde_json::json;

pub(super) fn memory() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let folder = tempfile::tempdir_in("/run").expect("a folder");
        for handler in HANDLERS {
            let home = start(&mut containerd, handler, 16).await;
            // Swap that nobody but its file knows of: cases 10 and 11 from the field.
            write(&home.inner, "memory.swap.max", "4096");
            let answer = enforcer(&["shrink", &home.target, "--to=48Mi"], folder.path());
            let report = answer.assert(0);
            assert_eq!(
                (&report["certificate"]["verdict"], &report["told"]),
                (&"committed".into(), &"taken".into())
            );
            let agree = async |mib: i64| {
                for cgroup in [&home.scope, &home.inner] {
                    assert_eq!(number(cgroup, "memory.max"), mib * MIB, "{handler}");
                }
                assert_eq!(books(&containerd, &home.id).await, (mib * MIB, mib * MIB), "{handler}");
                assert_eq!(property(&home.scope, "MemoryMax"), (mib * MIB).to_string(), "{handler}");
                assert_eq!(read(&home.inner, "memory.swap.max"), "4096", "{handler}");
            };
            agree(48).await;
            // What systemd writes when it next applies what it has.
            run("systemctl", ["daemon-reload"]);
            agree(48).await;
            let again = enforcer(&["shrink", &home.target, "--to=48Mi"], folder.path());
            assert_eq!(again.assert(0)["steps"], json!([]), "nothing is left to do");
            let up = enforcer(&["resize", &home.target, "--memory=80Mi"], folder.path());
            assert_eq!(up.assert(0)["told"], "taken");
            agree(80).await;
            let down = enforcer(&["resize", &home.target, "--memory=40Mi"], folder.path());
            assert_eq!(down.assert(0)["certificate"]["verdict"], "committed");
            agree(40).await;
            assert_eq!(kills(&home.scope), "0");
            let raise = enforcer(&["shrink", &home.target, "--to=64Mi"], folder.path());
            raise.assert(2);
            agree(40).await;
        }
        containerd.end().await;
    });
}

pub(super) fn refused() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let folder = tempfile::tempdir_in("/run").expect("a folder");
        for handler in HANDLERS {
            let home = start(&mut containerd, handler, 40).await;
            for words in [
                &["shrink", &home.target, "--to=32Mi"][..],
                &["resize", &home.target, "--memory=32Mi", "--cpu=500m"],
            ] {
                let answer = enforcer(words, folder.path());
                let report = answer.assert(2);
                assert_eq!(report["certificate"]["verdict"], "refused", "{report}");
                let safe = report["certificate"]["safe_minimum"].as_i64().expect("a safe minimum");
                assert!(safe > 40 * MIB && safe < 64 * MIB, "{safe}");
                assert_eq!(report["told"], json!(null), "the runtime hears nothing of it");
                assert_eq!(number(&home.inner, "memory.max"), 64 * MIB);
                assert_eq!(books(&containerd, &home.id).await, (64 * MIB, 64 * MIB));
                assert_eq!(read(&home.inner, "cpu.max"), "25000 100000", "all or nothing");
            }
            let dry = enforcer(&["resize", &home.target, "--memory=32Mi", "--dry-run"], folder.path());
            assert_eq!(dry.assert(2)["certificate"]["dry_run"], true);
            assert_eq!(kills(&home.scope), "0");
        }
        containerd.end().await;
    });
}

pub(super) fn cpu() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let folder = tempfile::tempdir_in("/run").expect("a folder");
        for handler in HANDLERS {
            let home = start(&mut containerd, handler, 8).await;
            write(&home.inner, "memory.swap.max", "8M");
            for (words, max, weight) in [
                (&["--cpu=500m"][..], "50000 100000", "10"),
                (&["--cpu=0.1"], "10000 100000", "10"),
                (&["--cpu-shares=512"], "10000 100000", "20"),
                (&["--cpu-weight=39", "--cpu=1.5"], "150000 100000", "39"),
            ] {
                let all = ["resize", &home.target].into_iter().chain(words.iter().copied());
                let answer = enforcer(&all.collect::<Vec<_>>(), folder.path());
                let report = answer.assert(0);
                assert_eq!((&report["told"], &report["certificate"]), (&"taken".into(), &json!(null)));
                for cgroup in [&home.scope, &home.inner] {
                    assert_eq!(
                        (read(cgroup, "cpu.max").as_str(), read(cgroup, "cpu.weight").as_str()),
                        (max, weight)
                    );
                }
                assert_eq!(number(&home.inner, "memory.max"), 64 * MIB);
                assert_eq!(number(&home.inner, "memory.swap.max"), 8 * MIB, "kept: {words:?}");
            }
        }
        containerd.end().await;
    });
}
