//! The inventory of a real containerd's pods, as a person and a program see it.

pub(crate) mod rig;

use crate::debian::{output, read, write};
use enforcer::cgroup::Mount;
use enforcer::cri::message::LinuxContainerResources;
use enforcer::inventory::{Container, Inventory, Locator, Tempo, Update, Watch, id_in, watch};
use enforcer::probe::{Event, Need, Probe, ProbeOptions};
use enforcer_vm_tests::case::{Case, Tier, nothing};
use enforcer_vm_tests::scratch::MOUNT;
use nix::sys::signal::Signal;
use rig::{Containerd, LONG, MIB, NAMESPACE, SOCKET};
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longer than a test takes.
const NEVER: Duration = Duration::from_hours(1);

pub(crate) fn cases() -> Vec<Case> {
    let debian = |name, run| Case { name, tier: Tier::Debian, needs: nothing, run };
    vec![
        debian("cri::ps_lists_containers_of_runc_and_crun_where_they_are", ps),
        debian("cri::what_starts_and_ends_is_seen_also_after_a_restart", events),
        debian("cri::births_of_cgroups_are_enough_of_a_hint", hints),
        debian("cri::a_runtime_that_hangs_is_an_error_in_time", hung),
        debian("cri::without_a_runtime_it_is_said_what_was_looked_for", nobody),
    ]
}

pub(crate) fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(test);
}

fn resources() -> LinuxContainerResources {
    LinuxContainerResources {
        memory_limit_in_bytes: 64 * MIB,
        memory_swap_limit_in_bytes: 64 * MIB,
        cpu_quota: 25_000,
        cpu_period: 100_000,
        cpu_shares: 256,
        ..LinuxContainerResources::default()
    }
}

/// `enforcer ps --json` with these words more.
fn listed(more: &[&str]) -> Value {
    let answer = output("/bin/enforcer", ["ps", "--json", "--deadline=60s"].iter().chain(more));
    let text = String::from_utf8(answer.stdout).expect("text");
    assert_eq!(answer.status.code(), Some(0), "{}", String::from_utf8_lossy(&answer.stderr));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// What it says of the container of this name.
fn about<'a>(report: &'a Value, name: &str) -> &'a Value {
    let containers = report["containers"].as_array().expect("a list");
    containers.iter().find(|row| row["container"] == name).unwrap_or_else(|| panic!("no {name} in {report}"))
}

fn ps() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        assert_eq!(listed(&[])["containers"], json!([]));
        containerd.run_pod("web", "").await;
        let id = containerd.run_container("of-runc", resources()).await;
        containerd.run_pod("other", "crun").await;
        containerd.run_container("of-crun", resources()).await;
        let report = listed(&[]);
        assert_eq!((&report["socket"], &report["runtime"]), (&SOCKET.into(), &"containerd".into()));
        for (name, pod, handler, uid) in [
            ("of-runc", "web", Value::Null, "00000000_0000_4000_8000_000000000000"),
            ("of-crun", "other", "crun".into(), "00000000_0000_4000_8000_000000000001"),
        ] {
            let row = about(&report, name);
            let id = row["container_id"].as_str().expect("an id");
            let slice = format!("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice");
            let scope = format!("{slice}/cri-containerd-{id}.scope");
            assert_eq!(row["cgroup"], scope, "{row}");
            assert_eq!((&row["namespace"], &row["pod"]), (&NAMESPACE.into(), &pod.into()));
            assert_eq!((&row["runtime_handler"], &row["state"]), (&handler, &"running".into()));
            assert_eq!(row["missing"], Value::Null, "{row}");
            // As the kernel has it.
            let pid = row["pid"].as_u64().expect("a pid");
            let own = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("it runs");
            let own = own.trim().strip_prefix("0::/").expect("cgroup v2");
            assert_eq!(row["process_cgroup"], own, "{row}");
            assert_eq!(own == scope, handler.is_null(), "crun puts it one deeper: {own}");
            assert!(std::fs::read_to_string(format!("/proc/{pid}/cmdline")).expect("runs").contains("sleep"));
            let inode = |path: &str| std::fs::metadata(Path::new(MOUNT).join(path)).expect("is there").ino();
            assert_eq!(
                (row["cgroup_id"].as_u64(), row["process_cgroup_id"].as_u64()),
                (Some(inode(&scope)), Some(inode(own)))
            );
            let limits = json!({
                "memory": {"bytes": 64 * MIB}, "memory_and_swap": {"bytes": 64 * MIB}, "cpu_quota": 25_000,
                "cpu_period": 100_000, "cpu_shares": 256, "cpuset_cpus": "", "cpuset_mems": "",
            });
            assert_eq!(row["limits"], limits);
            assert_eq!(row["limit_in_force"], json!({"bytes": 64 * MIB}), "{row}");
            let of = Path::new(MOUNT).join(row["limit_in_force_cgroup"].as_str().expect("a cgroup"));
            assert_eq!(read(&of, "memory.max"), (64 * MIB).to_string());
            let pods = report["pods"].as_array().expect("a list");
            let found = pods.iter().find(|row| row["name"] == pod).expect("the pod");
            assert_eq!(
                (&found["cgroup"], found["cgroup_id"].as_u64()),
                (&slice.as_str().into(), Some(inode(&slice)))
            );
        }
        // A container with the node's processes has a cgroup namespace of its own, where nobody else has a path.
        let words = ["--cgroup", "/bin/enforcer", "ps", "--json", "--deadline=60s"];
        let answer = output("unshare", words);
        let elsewhere: Value = serde_json::from_slice(&answer.stdout).expect("JSON");
        for name in ["of-runc", "of-crun"] {
            for figure in ["cgroup", "process_cgroup", "limit_in_force"] {
                assert_eq!(about(&elsewhere, name)[figure], about(&report, name)[figure], "{elsewhere}");
            }
        }
        // What somebody else writes is in force, whatever the runtime has.
        let cgroup =
            Path::new(MOUNT).join(about(&report, "of-crun")["process_cgroup"].as_str().expect("one"));
        write(&cgroup, "memory.max", "48M");
        let report = listed(&["--cri", &format!("unix://{SOCKET}")]);
        let row = about(&report, "of-crun");
        assert_eq!(row["limit_in_force"], json!({"bytes": 48 * MIB}), "{row}");
        assert_eq!(
            (&row["limit_in_force_cgroup"], &row["limits"]["memory"]),
            (&row["process_cgroup"], &json!({"bytes": 64 * MIB}))
        );
        // And what the runtime is told, both have.
        let wanted = LinuxContainerResources {
            memory_limit_in_bytes: 80 * MIB,
            memory_swap_limit_in_bytes: 80 * MIB,
            ..LinuxContainerResources::default()
        };
        containerd.client().await.update_container_resources(&id, wanted).await.expect("is updated");
        let report = listed(&[]);
        let row = about(&report, "of-runc");
        let raised = json!({"bytes": 80 * MIB});
        assert_eq!((&row["limit_in_force"], &row["limits"]["memory"]), (&raised, &raised), "{row}");
        assert_eq!(row["limits"]["cpu_shares"], 256);
        let table = output("/bin/enforcer", ["ps", "--all", "--deadline=60s"]).stdout;
        let table = String::from_utf8(table).expect("text");

        assert!(table.starts_with("POD            CONTAINER  STATE    RUNTIME"), "{table}");
        assert!(table.contains("testing/web    of-runc    running  -"), "{table}");
        assert!(table.contains("testing/other  of-crun    running  crun"), "{table}");
        containerd.end().await;
    });
}

/// Listens to a runtime with listings so rare that only events, hints and breaks bring anything.
fn follow(events: bool) -> Watch {
    let locator = Locator::new(Arc::new(Mount::discover().expect("cgroup v2")));
    let tempo = Tempo {
        deadline: Duration::from_secs(30),
        relist: NEVER,
        relist_without_events: NEVER,
        events,
        ..Tempo::default()
    };
    watch(Path::new(SOCKET).into(), locator, tempo)
}

/// Takes updates until the inventory is so, and gives them back.
async fn until(watch: &mut Watch, what: &str, is_so: impl Fn(&Inventory) -> bool) -> Vec<Update> {
    let mut updates = Vec::new();
    let waited = tokio::time::timeout(LONG, async {
        while !is_so(&watch.inventory()) {
            updates.extend(watch.next().await);
        }
    });
    assert!(waited.await.is_ok(), "{what} is not seen; {:?}", watch.inventory());
    updates
}

fn runs(inventory: &Inventory, id: &str) -> bool {
    inventory.container(id).is_some_and(|container| container.home.is_ok())
}

fn known(watch: &Watch, id: &str) -> Container {
    watch.inventory().container(id).expect("is known").clone()
}

fn events() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let mut watch = follow(true);
        assert!(matches!(watch.next().await, Some(Update::Current(changes)) if changes.is_empty()));
        containerd.run_pod("web", "").await;
        let first = containerd.run_container("first", resources()).await;
        until(&mut watch, "the start", |inventory| runs(inventory, &first)).await;
        let container = known(&watch, &first);
        let cgroup = container.home.clone().expect("has one").scope;
        {
            let inventory = watch.inventory();
            assert_eq!(inventory.by_path(&cgroup.path), inventory.by_cgroup(cgroup.id));
            let pod = inventory.pod(&container.sandbox).expect("its pod is known");
            assert_eq!(pod.cgroup.as_ref().map(|cgroup| cgroup.path.as_path()), cgroup.path.parent());
        }
        let second = containerd.run_container("second", resources()).await;
        until(&mut watch, "the second", |inventory| runs(inventory, &second)).await;
        containerd.tell("RemoveContainer", &second).await;
        until(&mut watch, "the removal", |inventory| inventory.container(&second).is_none()).await;
        containerd.kill();
        let lost = tokio::time::timeout(LONG, watch.next()).await.expect("it is told");
        assert!(matches!(lost, Some(Update::Lost(_))), "{lost:?}");
        assert_eq!(known(&watch, &first), container, "what was known stays");
        containerd.restart().await;
        let back = tokio::time::timeout(LONG, watch.next()).await.expect("it is told");
        assert!(matches!(back, Some(Update::Current(_))), "{back:?}");
        assert_eq!(known(&watch, &first), container, "it ran on");
        let third = containerd.run_container("third", resources()).await;
        until(&mut watch, "a start after the restart", |inventory| runs(inventory, &third)).await;
        drop(watch);
        containerd.end().await;
    });
}

/// Without the runtime's own events: the kernel tells that a container's cgroup was made.
fn hints() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let mut probe = Probe::load(&ProbeOptions::only([Need::CgroupLife])).expect("load the probe");
        let mut watch = follow(false);
        assert!(matches!(watch.next().await, Some(Update::Current(_))));
        containerd.run_pod("web", "").await;
        let id = containerd.run_container("first", resources()).await;
        let hints = watch.hints();
        let mut births = 0;
        probe
            .drain(|event| {
                if let Event::CgroupLife(life) = event
                    && id_in(&String::from_utf8_lossy(life.name.as_bytes())).is_some()
                {
                    births += 1;
                    hints.hint();
                }
            })
            .expect("every record makes sense");
        assert!(births >= 2, "{births} births: the sandbox's and the container's");
        until(&mut watch, "the start", |inventory| runs(inventory, &id)).await;
        drop((watch, probe));
        containerd.end().await;
    });
}

fn hung() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let mut watch = {
            let locator = Locator::new(Arc::new(Mount::discover().expect("cgroup v2")));
            let often = Duration::from_secs(1);
            let deadline = Duration::from_secs(15);
            let tempo = Tempo { deadline, relist: often, relist_without_events: often, ..Tempo::default() };
            watch(Path::new(SOCKET).into(), locator, tempo)
        };
        assert!(matches!(watch.next().await, Some(Update::Current(_))));
        containerd.signal(Signal::SIGSTOP);
        let began = Instant::now();
        let answer = output("/bin/enforcer", ["ps", "--deadline=2s"]);
        let error = String::from_utf8(answer.stderr).expect("text");
        assert_eq!((answer.status.code(), answer.stdout.len()), (Some(69), 0), "{error}");
        assert!(began.elapsed() < Duration::from_mins(1), "{:?}", began.elapsed());
        assert_eq!(
            error,
            format!(
                "error: can't list pods and containers\n  {SOCKET}: no answer to Version within 2s\n    -> look \
                 whether the container runtime hangs or is stopped: systemctl status containerd (or crio); a slow one \
                 needs a longer --deadline\n"
            )
        );
        let lost = tokio::time::timeout(LONG, watch.next()).await.expect("it is told");
        assert!(
            matches!(&lost, Some(Update::Lost(error)) if error.to_string().contains("no answer")),
            "{lost:?}"
        );
        containerd.signal(Signal::SIGCONT);
        let back = tokio::time::timeout(LONG, watch.next()).await.expect("it is told");
        assert!(matches!(back, Some(Update::Current(_))), "{back:?}");
        assert_eq!(listed(&[])["containers"], json!([]));
        drop(watch);
        containerd.run_pod("web", "").await;
        containerd.end().await;
    });
}

fn nobody() {
    drop(std::fs::remove_file(SOCKET));
    let answer = output("/bin/enforcer", ["ps"]);
    let error = String::from_utf8(answer.stderr).expect("text");
    assert_eq!(answer.status.code(), Some(69), "{error}");
    assert!(error.contains(&format!("no CRI socket; looked for {SOCKET}, /run/crio/crio.sock")), "{error}");
    assert!(error.contains("--cri unix:///path"), "{error}");
}
