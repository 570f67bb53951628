//! The guest itself: what every other test stands on.

use enforcer_vm_tests::case::{Case, Tier, nothing};
use enforcer_vm_tests::scratch::Scratch;
use enforcer_vm_tests::workload::Workload;
use std::os::unix::process::ExitStatusExt;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case { name: "guest::limit_kills", tier: Tier::Smoke, needs: nothing, run: limit_kills },
        Case { name: "guest::reclaim_takes_clean_cache", tier: Tier::Smoke, needs: nothing, run: reclaim },
        Case { name: "guest::pressure_is_counted", tier: Tier::Smoke, needs: nothing, run: pressure },
    ]
}

fn limit_kills() {
    let cgroup = Scratch::new("kill");
    cgroup.write("memory.max", "16M");
    cgroup.write("memory.swap.max", "0");
    let mut workload = Workload::launch(enforcer_vm_tests::workload::PROGRAM, &cgroup, "anon --size 32Mi");
    assert_eq!(workload.wait().signal(), Some(9), "killed by SIGKILL");
    assert_eq!(cgroup.kills(), 1);
}

fn reclaim() {
    let cgroup = Scratch::new("reclaim");
    let _workload = Workload::run(&cgroup, "cache --file /data/guest-reclaim --size 16Mi");
    let before = cgroup.counter("memory.stat", "file");
    assert!(before >= 16 << 20, "{before}");
    // EAGAIN would mean less than asked; anything else fails.
    cgroup.write("memory.reclaim", "8M");
    let after = cgroup.counter("memory.stat", "file");
    assert!(after + (6 << 20) <= before, "{before} -> {after}");
}

fn pressure() {
    let cgroup = Scratch::new("pressure");
    let text = cgroup.read("memory.pressure");
    assert!(text.starts_with("some avg10="), "{text}");
    assert!(text.contains("\nfull avg10="), "{text}");
}
