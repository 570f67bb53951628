//! The guest itself: what every other test stands on.

use enforcer_vm_tests::case::{Case, Tier, file, nothing};
use enforcer_vm_tests::leftover::Scene;
use enforcer_vm_tests::scratch::{Scratch, Swap};
use enforcer_vm_tests::workload::Workload;
use std::os::unix::process::ExitStatusExt;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case { name: "guest::limit_kills", tier: Tier::Smoke, needs: nothing, run: limit_kills },
        Case { name: "guest::reclaim_takes_clean_cache", tier: Tier::Smoke, needs: nothing, run: reclaim },
        Case { name: "guest::pressure_is_counted", tier: Tier::Smoke, needs: nothing, run: pressure },
        Case { name: "guest::swap_disk_takes_pages", tier: Tier::Smoke, needs: swap_disk, run: swap },
        Case { name: "guest::the_loopback_is_up", tier: Tier::Smoke, needs: nothing, run: loopback },
        Case { name: "guest::leftovers_are_seen", tier: Tier::Smoke, needs: nothing, run: leftovers },
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

fn loopback() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("listens");
    let address = listener.local_addr().expect("an address");
    std::net::TcpStream::connect_timeout(&address, std::time::Duration::from_secs(10)).expect("is reached");
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

/// Where xtask puts a disk with a swap area.
pub(crate) const SWAP: &str = "/dev/vdb";

pub(crate) fn swap_disk() -> Result<(), String> {
    file(SWAP)
}

fn swap() {
    let _swap = Swap::on(SWAP);
    let cgroup = Scratch::new("swap");
    let _workload = Workload::run(&cgroup, "anon --size 32Mi");
    cgroup.write("memory.reclaim", "16M");
    let swapped: u64 = cgroup.limit("memory.swap.current").parse().expect("a number");
    assert!(swapped >= 12 << 20, "{swapped}");
}

fn leftovers() {
    let before = Scene::now();
    let cgroup = Scratch::new("leftover");
    let swap = file(SWAP).is_ok().then(|| Swap::on(SWAP));
    let left = Scene::left_since(&before).join("\n");
    assert!(left.contains("-leftover"), "{left}");
    assert_eq!(left.contains(SWAP), swap.is_some(), "{left}");
    drop((cgroup, swap));
    assert_eq!(Scene::left_since(&before), Vec::<String>::new());
}
