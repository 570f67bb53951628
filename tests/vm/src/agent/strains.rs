//! A node that has no memory or no CPU left while the agent shrinks.

use super::acts::{LABEL, braked, limit, wasteful};
use super::{MIB, block_on, cgroup_of, memory};
use crate::cri::rig::{Containerd, LONG};
use crate::debian::{kills, read, write};
use crate::process::Other;
use crate::strain::{Foremost, Hogs, Storm};
use enforcer_vm_tests::agent_rig::{AT_ONCE, Agent};
use enforcer_vm_tests::scratch::{MOUNT, Scratch};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;
use std::time::{Duration, Instant};

async fn becomes_whole(cgroup: &Path) {
    let began = Instant::now();
    let limits = || (limit(cgroup), read(cgroup, "memory.high"));
    while limits() != (128 * MIB, "max".into()) {
        assert!(began.elapsed() < LONG, "{:?}", limits());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The kernel kills again and again for the node's sake, and neither the agent nor its restorer is ever chosen; then the agent
/// is killed by hand, and the restorer needs no memory to put its brake back.
pub(super) fn out_of_memory() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        // What the node's lack of memory adds to the pod's stall is none of the shrink's.
        let mut agent = Agent::ready(&[&AT_ONCE[..], &["gate.window=600s", "gate.budget=600s"]].concat());
        wasteful(&mut containerd, &[LABEL]).await;
        let cgroup = cgroup_of(&braked(&agent).await);
        let restorer = agent.restorer();
        let exposed: Vec<_> = [agent.pid()].into_iter().chain(restorer).collect();
        let mut storm = Storm::over(&exposed);
        storm.kill(4);
        // Without memory its answer may come after its server has cut the client off.
        storm.calm();
        let status = agent.status().await;
        assert_eq!(status.pid, agent.pid());
        println!("after four kills: {:?}", status.in_flight);
        let alive = |pid: u32| Path::new(&format!("/proc/{pid}")).exists();
        // One that ends needs its restorer no more.
        let is_in_flight = status.in_flight.iter().any(|flight| flight.state != "ending");
        assert!(!is_in_flight || restorer.is_some_and(alive), "{:?}", status.in_flight);
        let restorer = restorer.filter(|_| is_in_flight).map(Other::new);
        storm.kill(1);
        agent.signal(Signal::SIGKILL);
        storm.kill(2);
        agent.ended();
        if let Some(restorer) = restorer {
            restorer.wait();
        }
        becomes_whole(&cgroup).await;
        assert_eq!(kills(&cgroup), "0");
        drop(storm);
        containerd.end().await;
    });
}

/// The agent gets a ten-thousandth of the CPU that others take, and the workload grows as fast as it can under its brake.
pub(super) fn behind_heavy() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let agent = Agent::ready(&[&AT_ONCE[..], &["gate.window=600s"]].concat());
        containerd.run_pod_with("web", "", &[LABEL], &[]).await;
        let holds =
            |mib: u32| format!("/bin/busybox tail -f /dev/null | /bin/enforcer-workload anon --size {mib}Mi");
        // More, when it is told to.
        let script =
            format!("trap '{} &' USR1; {} & while :; do /bin/busybox sleep 1; done", holds(60), holds(20));
        containerd.run_job("app", &["/bin/busybox", "sh", "-c", &script], memory(128 * MIB)).await;
        let cgroup = cgroup_of(&braked(&agent).await);
        let first: i32 =
            read(&cgroup, "cgroup.procs").lines().next().and_then(|pid| pid.parse().ok()).expect("a pid");
        let starved = Scratch::new("agent");
        starved.write("cpu.weight", "1");
        starved.write("cgroup.procs", &agent.pid().to_string());
        write(&Path::new(MOUNT).join("kubepods.slice"), "cpu.weight", "10000");
        let foremost = Foremost::new();
        let hogs = Hogs::heavy();
        kill(Pid::from_raw(first), Signal::SIGUSR1).expect("it runs");
        let began = Instant::now();
        becomes_whole(&cgroup).await;
        println!("whole again {:?} after it was told to grow", began.elapsed());
        assert_eq!(kills(&cgroup), "0");
        drop((hogs, foremost));
        agent.end();
        assert_eq!((limit(&cgroup), read(&cgroup, "memory.high").as_str()), (128 * MIB, "max"));
        containerd.end().await;
    });
}
