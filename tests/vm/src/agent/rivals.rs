//! Others who write the limits that the agent changes or looks after.

use super::acts::LABEL;
use super::{MIB, block_on, memory};
use crate::debian::{kills, read, write};
use enforcer_vm_tests::agent_rig::{AT_ONCE, Agent, LONG, says};
use enforcer_vm_tests::node::{Node, Program};
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const WHOLE: u64 = 128 * MIB;
/// How long one writes without a pause.
const STORM: Duration = Duration::from_secs(25);

fn at_runtime(node: &Node) -> String {
    format!("cri.socket={}", node.socket().display())
}

/// Between the gate's commit and the update somebody raises the limit: the update, which would lower it without the gate, is
/// not sent.
pub(super) fn raised_before_the_update() {
    block_on(async {
        let mut node = Node::start();
        let pod = node.run_pod("web", &[LABEL]);
        let id = node.run(&pod, "app", &memory(WHOLE), Program::Holds(20));
        let cgroup = node.cgroup(&id);
        node.raise_when_committed(&id, 2 * WHOLE);
        let socket = at_runtime(&node);
        // One change is enough.
        let agent = Agent::ready(&[&AT_ONCE[..], &[&socket, "policy.changes_per_hour=1"]].concat());
        let said = agent.heard("that it was raised", |said| says(said, "verdict", "was raised to 256Mi"));
        assert!(node.is_raised(), "{said}");
        let (max, high) = (read(&cgroup, "memory.max"), read(&cgroup, "memory.high"));
        assert_eq!((max, high.as_str(), node.updates()), ((2 * WHOLE).to_string(), "max", 0), "{said}");
        assert_eq!(kills(&cgroup), "0");
        agent.end();
    });
}

/// Microseconds of CPU that a process has taken.
fn cpu_of(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let after = stat.rsplit_once(") ").expect("a name").1;
    let ticks: u64 =
        after.split(' ').skip(11).take(2).map(|field| field.parse::<u64>().expect("ticks")).sum();
    Duration::from_millis(ticks * 10)
}

/// Somebody writes a limit without a pause, another value each time, and the agent puts it back: neither its log nor what it
/// asks of the runtime grows with that, and what happens besides is heard.
pub(super) fn writes_without_a_pause() {
    block_on(async {
        let mut node = Node::start();
        let pod = node.run_pod("web", &[]);
        let id = node.run(&pod, "app", &memory(WHOLE), Program::Sleeps);
        let other = node.run(&pod, "other", &memory(WHOLE), Program::Sleeps);
        let (cgroup, beside) = (node.cgroup(&id), node.cgroup(&other));
        let socket = at_runtime(&node);
        let agent = Agent::ready(&[&socket, "drift.mend=true", "agent.reading_interval=1s"]);
        agent.seen("app", "read", |view| view.limit.is_some()).await;
        agent.seen("other", "read", |view| view.limit.is_some()).await;
        let (done, count) = (AtomicBool::new(false), AtomicU64::new(0));
        let before = cpu_of(agent.pid());
        let (writes, cpu) = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let n = count.fetch_add(1, Ordering::Relaxed);
                    write(&cgroup, "memory.max", &((32 << 20) + n % 10_000 * 4096).to_string());
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            std::thread::sleep(STORM / 2);
            write(&beside, "memory.max", "64M");
            std::thread::sleep(STORM / 2);
            done.store(true, Ordering::Relaxed);
            (count.load(Ordering::Relaxed), cpu_of(agent.pid()).saturating_sub(before))
        });
        let status = agent.status().await;
        println!("{writes} writes in {STORM:?}, {cpu:?} of CPU, lost {:?}", status.lost);
        agent.heard("the other's drift", |said| {
            says(said, "drift", "64Mi") && said["target"] == "pod/testing/web:other"
        });
        // It ends with what the runtime has.
        let began = Instant::now();
        while [&cgroup, &beside].iter().any(|cgroup| read(cgroup, "memory.max") != WHOLE.to_string()) {
            assert!(began.elapsed() < LONG, "it is put back");
            std::thread::sleep(Duration::from_millis(100));
        }
        let told = agent.said_so_far().iter().filter(|said| said["target"] == "pod/testing/web:app").count();
        println!("told {told}");
        assert!(told < 40, "{told} lines for {writes} writes");
        assert!(writes > 500, "{writes}");
        agent.end();
    });
}

/// Kubernetes' `100M` is no whole number of pages: the kernel holds less, which is what the runtime was told all the same.
pub(super) fn no_whole_pages() {
    block_on(async {
        let mut node = Node::start();
        let pod = node.run_pod("web", &[]);
        let id = node.run(&pod, "app", &memory(100_000_000), Program::Sleeps);
        let cgroup = node.cgroup(&id);
        let other = node.run(&pod, "other", &memory(WHOLE), Program::Sleeps);
        let beside = node.cgroup(&other);
        let socket = at_runtime(&node);
        let agent = Agent::ready(&[&socket, "drift.mend=true", "agent.reading_interval=200ms"]);
        agent.seen("other", "read", |view| view.limit.is_some()).await;
        let view = agent.seen("app", "read", |view| view.limit.is_some()).await;
        assert_ne!(view.limit, view.runtime_limit, "{view:#?}");
        // Written again as the runtime would.
        write(&cgroup, "memory.max", "100000000");
        // What differs later is judged later.
        write(&beside, "memory.max", "64M");
        agent.heard("the other's drift", |said| {
            says(said, "drift", "64Mi") && said["target"] == "pod/testing/web:other"
        });
        let view = agent.seen("app", "read", |view| view.limit.is_some()).await;
        assert_eq!(view.drift, [""; 0]);
        let said = agent.said_so_far();
        assert!(!said.iter().any(|said| said["target"] == "pod/testing/web:app"), "{said:#?}");
        let explained = agent.ask(&["explain", "pod/testing/web"]).1;
        assert!(explained.contains("which is what the runtime has"), "{explained}");
        agent.end();
    });
}
