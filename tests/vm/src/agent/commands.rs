//! What is no drift: enforcer's own commands beside the agent, and updates of the runtime's by others.

use super::acts::{limit, wasteful};
use super::{MIB, block_on, cgroup_of, memory};
use crate::cri::rig::Containerd;
use crate::debian::{kills, output, read, write};
use enforcer_gate::{Bytes, Limit};
use enforcer_vm_tests::agent_rig::{AT_ONCE, Agent, says};

/// With limits put back that drift: neither is undone, nor told of, and what is put back changes no other limit.
pub(super) fn no_drift() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let agent = Agent::ready(&[&AT_ONCE[..], &["drift.mend=true"]].concat());
        wasteful(&mut containerd, &[]).await;
        let view = agent.seen("app", "read", |view| view.limit.is_some()).await;
        let cgroup = cgroup_of(&view);
        assert_eq!(read(&cgroup, "memory.swap.max"), "0");

        // Its watch is longer than what a suspicion takes.
        let words = ["shrink", "pod/testing/web:app", "--to=96Mi", "--window=1s", "--watch=12s"];
        let folder = tempfile::tempdir_in("/run").expect("a folder");
        let state = format!("--state-dir={}", folder.path().display());
        let more = ["--observe=500ms", "--budget=3s", "--deadline=60s", &state];
        let done = output("/bin/enforcer", words.iter().chain(&more));
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        let error = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(0), "{said}\n{error}");
        assert_eq!((limit(&cgroup), read(&cgroup, "memory.swap.max").as_str()), (96 * MIB, "0"));
        at(&agent, 96).await;
        let told =
            agent.heard("it as well", |said| says(said, "verdict", "memory.max 128Mi -> 96Mi by enforcer"));
        assert_eq!(told["target"], "pod/testing/web:app", "{told}");

        // As a kubelet does it, down and up.
        let client = containerd.client().await;
        for mib in [80, 112] {
            client.update_container_resources(&view.id, memory(mib * MIB)).await.expect("is updated");
            at(&agent, mib).await;
        }
        assert_eq!(limit(&cgroup), 112 * MIB);

        // What does drift is put back, and swap stays off, which systemd does not know of.
        write(&cgroup, "memory.max", "100M");
        agent.heard("the drift", |said| says(said, "drift", "memory.max 112Mi -> 100Mi"));
        let mended =
            agent.heard("that it is mended", |said| says(said, "mended", "memory.max is 112Mi again"));
        assert_eq!(mended["target"], "pod/testing/web:app", "{mended}");
        assert_eq!((limit(&cgroup), read(&cgroup, "memory.swap.max").as_str()), (112 * MIB, "0"));
        let said = agent.said_so_far();
        let told: Vec<_> =
            said.iter().filter(|said| said["kind"] == "drift" || said["kind"] == "mended").collect();
        assert!(told.is_empty(), "besides these two: {told:#?}");

        // Swap that drifts is told, also to who looks later.
        write(&cgroup, "memory.swap.max", "max");
        agent.heard("the drift", |said| says(said, "drift", "memory.swap.max 0 -> max"));
        let view = agent.seen("app", "to drift", |view| !view.drift.is_empty()).await;
        assert_eq!(view.drift, ["memory.swap.max is max, the runtime has 0"]);
        write(&cgroup, "memory.swap.max", "0");
        agent.seen("app", "as it should be", |view| view.drift.is_empty()).await;
        assert_eq!(kills(&cgroup), "0");
        agent.end();
        containerd.end().await;
    });
}

/// The limit is in force, and the agent knows that the runtime has it.
async fn at(agent: &Agent, mib: u64) {
    let limit = Some(Limit::Bytes(Bytes::from_mib(mib)));
    let is_so =
        |view: &enforcer::admin::model::ContainerView| view.limit == limit && view.runtime_limit == limit;
    agent.seen("app", "as the runtime has it", is_so).await;
}
