//! What the agent does by itself, and what it is told.

use super::{MIB, block_on, cgroup_of, holds, is_under, memory};
use crate::cri::rig::Containerd;
use crate::debian::{kills, read, write};
use enforcer::admin::model::ContainerView;
use enforcer_gate::{Bytes, Limit};
use enforcer_vm_tests::agent_rig::{AT_ONCE, Agent, says, text};
use nix::sys::signal::Signal;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

pub(super) const LABEL: (&str, &str) = ("enforcer.dev/policy", "auto-shrink");

/// Less than a container of [`wasteful`] uses once its program holds what it holds.
pub(super) const HELD: Option<Bytes> = Some(Bytes::from_mib(20));

/// A pod that asks for it, with 20 MiB in use of 128.
pub(super) async fn wasteful(containerd: &mut Containerd, labels: &[(&str, &str)]) {
    containerd.run_pod_with("web", "", labels, &[]).await;
    let program = holds(20);
    let program: Vec<_> = program.iter().map(String::as_str).collect();
    containerd.run_job("app", &program, memory(128 * MIB)).await;
}

pub(super) fn limit(path: &Path) -> u64 {
    read(path, "memory.max").parse().expect("a limit")
}

/// The gate is at the brake.
pub(super) async fn braked(agent: &Agent) -> ContainerView {
    let view = agent.seen("app", "read", |view| view.limit.is_some()).await;
    let began = std::time::Instant::now();
    while read(&cgroup_of(&view), "memory.high") == "max" {
        assert!(began.elapsed() < crate::cri::rig::LONG, "there is a brake");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    view
}

pub(super) fn auto_shrink() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let agent = Agent::ready(&AT_ONCE);
        wasteful(&mut containerd, &[LABEL]).await;
        let id = containerd.run_pod("calm", "").await;
        containerd.run_container("other", memory(128 * MIB)).await;
        agent.heard("the begin", |said| {
            says(said, "verdict", "begins") && said["target"] == "pod/testing/web:app"
        });
        let said = agent.heard("the verdict", |said| says(said, "verdict", "committed"));
        assert_eq!(said["target"], "pod/testing/web:app", "{said}");
        let view = agent.seen("app", "lower", |view| is_under(view, Bytes::from_mib(64))).await;
        let cgroup = cgroup_of(&view);
        // What it holds, and the gate's least headroom.
        assert!(limit(&cgroup) >= 22 * MIB, "{view:#?}");
        assert_eq!((read(&cgroup, "memory.high").as_str(), kills(&cgroup).as_str()), ("max", "0"));
        // The runtime has it as well, and nothing drifts.
        let view = agent.seen("app", "told to the runtime", |view| view.runtime_limit == view.limit).await;
        assert_eq!(view.drift, [""; 0]);
        assert!(view.last_verdict.contains("committed"), "{view:#?}");
        // It is boring: what needs no change gets none.
        let left =
            agent.seen("app", "left alone", |view| view.policy_state.contains("save too little")).await;
        assert_eq!(left.limit, view.limit);
        let other = agent.seen("other", "read", |view| view.limit.is_some()).await;
        assert_eq!(other.limit, Some(Limit::Bytes(Bytes::from_mib(128))), "nobody asked for it");
        let (_, metrics) = agent.page("/metrics");
        assert!(
            metrics.contains("enforcer_shrink_verdicts_total{verdict=\"committed\",reason=\"none\"} 1"),
            "{metrics}"
        );
        let _ = id;
        agent.end();
        containerd.end().await;
    });
}

pub(super) fn guard() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let agent = Agent::ready(&[&AT_ONCE[..], &["guard.mode=enforce"]].concat());
        wasteful(&mut containerd, &[("enforcer.dev/policy", "guard")]).await;
        let held = Some(Bytes::from_mib(20));
        let app = agent.seen("app", "with its memory", |view| view.usage > held).await;
        containerd.run_pod("calm", "").await;
        containerd.run_container("other", memory(128 * MIB)).await;
        let other = agent.seen("other", "read", |view| view.limit.is_some()).await;
        let (app, other) = (cgroup_of(&app), cgroup_of(&other));
        let refused = std::fs::write(app.join("memory.max"), "4M").expect_err("it would kill");
        assert_eq!(refused.raw_os_error(), Some(libc::EBUSY));
        let said = agent.heard("the verdict", |said| says(said, "guard", "denied"));
        assert_eq!(said["target"], "pod/testing/web:app", "{said}");
        assert_eq!((limit(&app), kills(&app).as_str()), (128 * MIB, "0"));
        write(&app, "memory.max", "100M");
        // Nobody asked for it there.
        write(&other, "memory.max", "64M");
        let (_, metrics) = agent.page("/metrics");
        assert!(metrics.contains("enforcer_guard_armed 1"), "{metrics}");
        drop(agent);
        // It is gone with its process.
        write(&app, "memory.max", "99M");
        containerd.end().await;
    });
}

pub(super) fn pause() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let agent = Agent::ready(&[&AT_ONCE[..], &["gate.window=60s"]].concat());
        wasteful(&mut containerd, &[LABEL]).await;
        let cgroup = cgroup_of(&braked(&agent).await);
        assert_eq!(agent.status().await.in_flight.len(), 1);
        let (code, out, err) = agent.ask(&["pause"]);
        assert_eq!(code, Some(0), "{out}{err}");
        // The answer comes once it is so.
        assert_eq!((read(&cgroup, "memory.high").as_str(), limit(&cgroup)), ("max", 128 * MIB));
        let status = agent.status().await;
        assert_eq!((status.paused, status.in_flight.len()), (true, 0));
        agent.heard("that it was taken back", |said| says(said, "verdict", "taken back"));
        let view = agent.seen("app", "read", |view| view.limit.is_some()).await;
        assert!(view.last_verdict.contains("taken back"), "{view:#?}");
        let (_, metrics) = agent.page("/metrics");
        assert!(metrics.contains("enforcer_paused 1"), "{metrics}");
        // The configuration never paused it, so it does not resume it.
        assert_eq!(agent.ask(&["reload"]).0, Some(0));
        assert!(agent.status().await.paused);
        assert_eq!(agent.ask(&["resume"]).0, Some(0));
        braked(&agent).await;
        agent.end();
        assert_eq!((read(&cgroup, "memory.high").as_str(), limit(&cgroup)), ("max", 128 * MIB));
        containerd.end().await;
    });
}

pub(super) fn end() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let mut agent = Agent::ready(&[&AT_ONCE[..], &["gate.window=60s"]].concat());
        wasteful(&mut containerd, &[LABEL]).await;
        let cgroup = cgroup_of(&braked(&agent).await);
        agent.signal(Signal::SIGTERM);
        assert!(agent.ended().success());
        assert_eq!((read(&cgroup, "memory.high").as_str(), limit(&cgroup)), ("max", 128 * MIB));
        agent.heard("that it was taken back", |said| says(said, "verdict", "taken back"));
        agent.heard("its end", |said| text(said) == "enforcer ends");
        assert!(std::fs::read_dir(agent.path("state")).expect("is there").all(|entry| {
            entry.expect("an entry").path().extension().is_none_or(|extension| extension != "journal")
        }));
        containerd.end().await;
    });
}

/// As the kubelet brings a changed `ConfigMap`: by a name that is moved into the folder.
pub(super) fn watched() {
    block_on(async {
        let folder = tempfile::tempdir_in("/run").expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let put = |text: &str| {
            std::fs::write(at("new"), text).expect("write it");
            std::fs::rename(at("new"), at("enforcer.toml")).expect("move it");
        };
        put("[agent]\npaused = false\n");
        let agent = Agent::start_with(&at("enforcer.toml"), &["agent.watch_config=true"]);
        assert!(!agent.status().await.paused);
        put("[agent]\npaused = true\n");
        agent.heard("the reload", |said| text(said) == "the configuration was read anew");
        assert!(agent.status().await.paused);
        put("[agent]\npaused = perhaps\n");
        agent
            .heard("that nothing changed", |said| text(said).starts_with("the configuration is as it was: "));
        assert!(agent.status().await.paused);
        put("[agent]\npaused = false\n");
        agent.heard("the reload", |said| text(said) == "the configuration was read anew");
        assert!(!agent.status().await.paused);
        agent.end();
    });
}

pub(super) fn reload() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let file = tempfile::NamedTempFile::new_in("/run").expect("a file");
        std::fs::write(file.path(), "[policy]\ndefault = \"observe\"\n").expect("write it");
        let agent = Agent::start_with(file.path(), &AT_ONCE);
        agent.is_current();
        wasteful(&mut containerd, &[]).await;
        let view = agent.seen("app", "read", |view| view.limit.is_some()).await;
        assert_eq!(view.policy, "observe");
        std::fs::write(file.path(), "[policy]\ndefault = \"shrink\"\nfloor = 1\n[nonsense]\n")
            .expect("write it");
        let (code, out, err) = agent.ask(&["reload"]);
        assert_eq!(code, Some(64), "{out}{err}");
        assert!(err.contains("policy.default") && err.contains("nonsense"), "{err}");
        agent.heard("that nothing changed", |said| text(said).contains("3 errors, the first is "));
        assert_eq!(agent.seen("app", "read", |view| view.limit.is_some()).await.policy, "observe");
        std::fs::write(file.path(), "[policy]\ndefault = \"auto-shrink\"\n[agent]\npaused = true\n")
            .expect("write it");
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o666)).expect("open it");
        agent.signal(Signal::SIGHUP);
        agent.heard("who can change it", |said| text(said).contains("warning: everybody can change"));
        agent.heard("the reload", |said| text(said).contains("the configuration was read anew"));
        let view = agent.seen("app", "to be shrunk", |view| view.policy == "auto-shrink").await;
        assert!(agent.status().await.paused);
        assert_eq!(view.limit, Some(Limit::Bytes(Bytes::from_mib(128))));
        // Resumed by hand, and paused again by what the configuration still says.
        assert_eq!(agent.ask(&["resume"]).0, Some(0));
        assert_eq!(agent.ask(&["reload"]).0, Some(0));
        assert!(agent.status().await.paused);
        std::fs::write(file.path(), "[policy]\ndefault = \"auto-shrink\"\n[cri]\nevents = false\n")
            .expect("write it");
        let (code, out, err) = agent.ask(&["reload"]);
        assert!(code == Some(0) && out.contains("cri.events"), "a restart is needed for it: {out}{err}");
        agent.heard("the verdict", |said| says(said, "verdict", "committed"));
        agent.end();
        containerd.end().await;
    });
}
