//! What the agent knows and tells.

use super::{MIB, block_on, cgroup_of, holds, memory, state};
use crate::cri::rig::{Containerd, NAMESPACE, SOCKET};
use crate::debian::{output, read, run, write};
use enforcer::admin::model::{Part, PartState};
use enforcer_gate::{Bytes, Limit};
use enforcer_vm_tests::agent_rig::{AT_ONCE, Agent, says, text};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::path::Path;

pub(super) fn containers() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let agent = Agent::ready(&AT_ONCE);
        containerd.run_pod("web", "").await;
        let program = holds(20);
        let program: Vec<_> = program.iter().map(String::as_str).collect();
        containerd.run_job("of-runc", &program, memory(64 * MIB)).await;
        let crun = containerd.run_pod("other", "crun").await;
        containerd.run_container("of-crun", memory(48 * MIB)).await;
        let held = Bytes::from_mib(20);
        let view = agent.seen("of-runc", "with its memory", |view| view.usage > Some(held)).await;
        assert_eq!(
            (view.namespace.as_str(), view.pod.as_str(), view.handler.as_str()),
            (NAMESPACE, "web", "")
        );
        assert_eq!(view.image, "docker.io/local/busybox:1");
        let limit = Some(Limit::Bytes(Bytes::from_mib(64)));
        assert_eq!((view.limit, view.runtime_limit), (limit, limit));
        assert!(view.floor > Some(held) && view.safe_minimum > view.floor, "{view:#?}");
        assert!(view.floor_terms["anon"] > held && view.missing.is_empty(), "{view:#?}");
        assert_eq!((view.policy.as_str(), view.drift.len()), ("observe", 0));
        let view = agent.seen("of-crun", "read", |view| view.limit.is_some()).await;
        assert_eq!(view.limit, Some(Limit::Bytes(Bytes::from_mib(48))));
        assert!(view.limit_cgroup.starts_with(&view.cgroup), "{view:#?}");
        let status = agent.status().await;
        // There is no Kubernetes here, and none is asked for.
        let as_wanted = |part: &Part| match part.name.as_str() {
            "kubernetes" => part.state == PartState::Off,
            _ => part.state == PartState::Ready,
        };
        assert!(status.parts.iter().all(as_wanted), "{:#?}", status.parts);
        assert_eq!((status.pods, status.containers, status.paused), (2, 2, false));
        assert_eq!(agent.page("/readyz").0, 200);
        let (code, metrics) = agent.page("/metrics");
        assert_eq!(code, 200);
        let series = |name: &str| {
            metrics.lines().filter(|line| line.contains(&format!("container=\"{name}\""))).count()
        };
        assert!(series("of-runc") > 5 && series("of-crun") > 5, "{metrics}");
        for (words, parts) in [
            (vec!["status"], vec!["inventory ready", "kubernetes off", "containers: 2"]),
            (vec!["explain", "pod/testing/web:of-runc"], vec!["pod/testing/web:of-runc", "64Mi"]),
            (vec!["top", "--once"], vec!["testing/web:of-runc", "testing/other:of-crun"]),
        ] {
            let (code, out, err) = agent.ask(&words);
            assert_eq!(code, Some(0), "{words:?}: {out}{err}");
            // Columns are as wide as what stands in them.
            let plain = out.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(parts.iter().all(|part| plain.contains(part)), "{words:?}: {out}");
        }
        containerd.tell("StopPodSandbox", &crun).await;
        containerd.tell("RemovePodSandbox", &crun).await;
        let began = std::time::Instant::now();
        while agent.status().await.containers > 1 {
            assert!(began.elapsed() < crate::cri::rig::LONG, "it is gone");
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        let (_, metrics) = agent.page("/metrics");
        assert!(!metrics.contains("of-crun"), "{metrics}");
        agent.end();
        containerd.forget(&crun);
        containerd.end().await;
    });
}

pub(super) fn runtime() {
    block_on(async {
        drop(std::fs::remove_file(SOCKET));
        let often = ["cri.deadline=5s", "agent.reading_interval=200ms"];
        let agent = Agent::start(&often);
        agent.heard("that there is no runtime", |said| text(said).contains("no CRI socket"));
        assert_eq!(state(&agent.status().await, "inventory"), PartState::Failed);
        let (code, said) = agent.page("/readyz");
        assert!(code == 503 && said.contains("inventory") && said.contains("no CRI socket"), "{code} {said}");
        assert_eq!(agent.page("/healthz").0, 200);
        assert_eq!(agent.ask(&["status"]).0, Some(1));
        let mut containerd = Containerd::start().await;
        agent.is_current();
        containerd.run_pod("web", "").await;
        containerd.run_container("app", memory(64 * MIB)).await;
        agent.seen("app", "read", |view| view.usage.is_some()).await;
        containerd.signal(Signal::SIGSTOP);
        agent.heard("that it hangs", |said| {
            text(said).contains("can't be asked") && text(said).contains("no answer")
        });
        // Everything else goes on.
        let view = agent.seen("app", "read", |view| view.usage.is_some()).await;
        write(&cgroup_of(&view), "memory.max", "60M");
        let drift = agent.heard("the drift", |said| says(said, "drift", "memory.max 64Mi -> 60Mi"));
        assert_eq!(drift["target"], "pod/testing/web:app");
        assert_eq!(agent.page("/healthz").0, 200);
        containerd.signal(Signal::SIGCONT);
        agent.is_current();
        containerd.kill();
        agent.heard("that it is gone", |said| text(said).contains("can't be asked"));
        containerd.restart().await;
        agent.is_current();
        assert_eq!(state(&agent.status().await, "inventory"), PartState::Ready);
        agent.end();
        containerd.end().await;
    });
}

pub(super) fn oom() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let agent = Agent::ready(&AT_ONCE);
        containerd.run_pod("web", "").await;
        // The first process lives on, and so does the container.
        let script = "/bin/busybox tail -f /dev/null | /bin/enforcer-workload anon --size 80Mi; exec /bin/busybox sleep 100000";
        containerd.run_job("app", &["/bin/busybox", "sh", "-c", script], memory(40 * MIB)).await;
        let said = agent.heard("the OOM", |said| says(said, "oom", ""));
        assert_eq!(said["target"], "pod/testing/web:app", "{said}");
        let view = agent.seen("app", "with a kill", |view| view.oom_kills == 1).await;
        assert_eq!(view.missing, "", "{view:#?}");
        let store = agent.path("oom").display().to_string();
        let answer = output("/bin/enforcer", ["oom", "--json", "--store", &store]);
        let text = String::from_utf8(answer.stdout).expect("text");
        let record: Value = text
            .lines()
            .find(|line| line.contains("\"oom\""))
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .expect("a record");
        let cgroups = record["oom"]["cgroups"].as_array().expect("a list");
        let of =
            cgroups.iter().find(|cgroup| cgroup["container"] == "app").unwrap_or_else(|| panic!("{record}"));
        assert_eq!((&of["pod"], &of["image"]), (&"testing/web".into(), &"docker.io/local/busybox:1".into()));
        let (_, out, _) = agent.ask(&["explain", "pod/testing/web:app"]);
        assert!(out.contains("oom"), "{out}");
        let (_, metrics) = agent.page("/metrics");
        let killed = metrics.lines().find(|line| {
            line.starts_with("enforcer_oom_kills_total{owner=\"container\"") && line.ends_with(" 1")
        });
        assert!(killed.is_some(), "{metrics}");
        agent.end();
        containerd.end().await;
    });
}

pub(super) fn drift() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let agent = Agent::ready(&AT_ONCE);
        containerd.run_pod("web", "").await;
        containerd.run_container("app", memory(64 * MIB)).await;
        let view = agent.seen("app", "read", |view| view.limit.is_some()).await;
        let cgroup = cgroup_of(&view);
        write(&cgroup, "memory.max", "48M");
        agent.heard("the drift", |said| says(said, "drift", "memory.max 64Mi -> 48Mi"));
        let view = agent.seen("app", "to drift", |view| !view.drift.is_empty()).await;
        assert_eq!(view.drift, ["memory.max is 48Mi, the runtime has 64Mi"]);
        // systemd has the old one, and applies it.
        run("systemctl", ["daemon-reload"]);
        let unit = cgroup.ancestors().find(|path| path.extension().is_some_and(|kind| kind == "scope"));
        let unit = unit.and_then(Path::file_name).and_then(|name| name.to_str()).expect("a scope");
        run("systemctl", ["set-property", "--runtime", unit, "CPUWeight=50"]);
        agent.seen("app", "as it should be", |view| view.drift.is_empty()).await;
        assert_eq!(read(&cgroup, "memory.max"), (64 * MIB).to_string());
        agent.end();
        let agent = Agent::ready(&[&AT_ONCE[..], &["drift.mend=true"]].concat());
        agent.seen("app", "read", |view| view.limit.is_some()).await;
        write(&cgroup, "memory.max", "50M");
        let said = agent.heard("that it is mended", |said| says(said, "mended", "memory.max"));
        assert!(text(&said).contains("is 64Mi again, through systemd"), "{said}");
        assert_eq!(read(&cgroup, "memory.max"), (64 * MIB).to_string());
        // What is higher than it should be is not lowered behind the gate's back.
        write(&cgroup, "memory.max", "80M");
        let left = |said: &Value| {
            says(said, "mended", "memory.max") && text(said).contains("only enforcer shrink does safely")
        };
        agent.heard("that it is not lowered", left);
        assert_eq!(read(&cgroup, "memory.max"), (80 * MIB).to_string());
        // It is so at each reading, and is said once: a write that comes later is told, and nothing more of that one.
        write(&cgroup, "memory.max", "90M");
        agent.heard("that it is not lowered either", left);
        let again: Vec<_> = agent.said_so_far().into_iter().filter(left).collect();
        assert!(again.is_empty(), "{again:#?}");
        agent.end();
        containerd.end().await;
    });
}
