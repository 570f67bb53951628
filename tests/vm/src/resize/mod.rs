//! exploration

use crate::cri::rig::{Containerd, MIB};
use enforcer::cgroup::Mount;
use enforcer::cri::message::LinuxContainerResources;
use enforcer::drift::raw;
use enforcer::inventory::{Locator, Survey};
use enforcer::probe::{Event, Need, Probe, ProbeOptions};
use enforcer_vm_tests::case::{Case, Tier, nothing};
use enforcer_vm_tests::scratch::MOUNT;
use std::path::Path;
use std::sync::Arc;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case { name: "resize::explore", tier: Tier::Debian, needs: nothing, run: explore }]
}

fn name_of(id: u64) -> String {
    let out = crate::debian::output("find", [MOUNT, "-inum", &id.to_string()]);
    let text = String::from_utf8_lossy(&out.stdout).trim().to_owned();
    let parts: Vec<_> =
        text.rsplit('/').take(2).map(|part| part.chars().take(24).collect::<String>()).collect();
    parts.into_iter().rev().collect::<Vec<_>>().join("/")
}

fn drain(probe: &mut Probe, label: &str) {
    if label != "reset" {
        eprintln!("## {label}");
    }
    let mut lines = Vec::new();
    probe
        .drain(|event| {
            if let Event::LimitWrite(write) = event
                && let Some(end) = write.end
            {
                lines.push((write, end));
            }
        })
        .expect("drains");
    if label == "reset" {
        return;
    }
    for (write, end) in lines.into_iter().filter(|(write, _)| write.file.name() == "memory.max") {
        eprintln!(
            "   {} {} [{}] {} -> asked {:?} -> {} ({:?})",
            name_of(write.cgroup.get()),
            write.file.name(),
            String::from_utf8_lossy(write.writer.comm.as_bytes()),
            raw(write.old),
            String::from_utf8_lossy(write.asked.as_bytes()).trim(),
            raw(end.new),
            end.result
        );
    }
}

fn explore() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut containerd = Containerd::start().await;
        for handler in ["", "crun"] {
            containerd.run_pod(&format!("p{handler}"), handler).await;
            let mut probe = Probe::load(&ProbeOptions::only(
                Need::ALL.iter().copied().filter(|need| matches!(need, Need::LimitWrite(_))),
            ))
            .expect("loads");
            let id = containerd
                .run_container(
                    "main",
                    LinuxContainerResources {
                        memory_limit_in_bytes: 64 * MIB,
                        memory_swap_limit_in_bytes: 64 * MIB,
                        cpu_quota: 25_000,
                        cpu_period: 100_000,
                        cpu_shares: 256,
                        ..LinuxContainerResources::default()
                    },
                )
                .await;
            let client = containerd.client().await;
            let status = client.container_status(&id).await.expect("status").expect("there");
            let info: serde_json::Value = serde_json::from_str(&status.info["info"]).expect("json");
            let mut info2 = info.clone();
            info2["runtimeSpec"] = serde_json::Value::Null;
            info2["config"] = serde_json::Value::Null;
            eprintln!("   info: {info2}");
            let survey = Survey::new(client.clone(), Locator::new(Arc::new(Mount::discover().expect("v2"))));
            let listing = survey.all().await.expect("lists");
            let container = listing.containers.iter().find(|c| c.id == id).expect("there").clone();
            let home = container.home.expect("home");
            let scope = Path::new(MOUNT).join(&home.scope.path);
            let base = LinuxContainerResources::default();
            let show = |label: &str| {
                let v = ["memory.max", "memory.swap.max"]
                    .map(|f| std::fs::read_to_string(scope.join(f)).unwrap_or_default().trim().to_owned())
                    .join(" | ");
                eprintln!("   {label} scope: {v}");
            };
            drain(&mut probe, "start");
            for (n, mib) in [(0_u64, 56), (1, 60), (20, 52)] {
                let short = enforcer::cri::Client::connect(
                    Path::new(crate::cri::rig::SOCKET),
                    std::time::Duration::from_secs(3),
                )
                .await
                .expect("connects");
                // primed
                short.version().await.expect("answers");
                containerd.signal(nix::sys::signal::Signal::SIGSTOP);
                let result = short
                    .update_container_resources(
                        &id,
                        LinuxContainerResources { memory_limit_in_bytes: mib * MIB, ..base.clone() },
                    )
                    .await;
                eprintln!("## {handler} stopped, {mib}: {:?}", result.map_err(|e| e.to_string()));
                if n == 1 {
                    drop(short);
                }
                tokio::time::sleep(std::time::Duration::from_secs(n)).await;
                show("while stopped");
                containerd.signal(nix::sys::signal::Signal::SIGCONT);
                let client = containerd.client().await;
                let status = client.container_status(&id).await.expect("status").expect("there");
                show("continued");
                eprintln!(
                    "   status: {:?}",
                    status
                        .status
                        .and_then(|s| s.resources)
                        .and_then(|r| r.linux)
                        .map(|l| l.memory_limit_in_bytes / MIB)
                );
                tokio::time::sleep(std::time::Duration::from_secs(8)).await;
                drain(&mut probe, "8 s later");
                let status = client.container_status(&id).await.expect("status").expect("there");
                show("8 s later");
                eprintln!(
                    "   status: {:?}",
                    status
                        .status
                        .and_then(|s| s.resources)
                        .and_then(|r| r.linux)
                        .map(|l| l.memory_limit_in_bytes / MIB)
                );
            }
            // killed in the middle: at several times
            for (n, millis) in [5_u64, 30, 60, 100, 150, 200, 300, 400].into_iter().enumerate() {
                let client = containerd.client().await;
                client
                    .update_container_resources(
                        &id,
                        LinuxContainerResources { memory_limit_in_bytes: 64 * MIB, ..base.clone() },
                    )
                    .await
                    .expect("reset");
                drain(&mut probe, "reset");
                let mib = 40 + i64::try_from(n).unwrap();
                let call = client.update_container_resources(
                    &id,
                    LinuxContainerResources { memory_limit_in_bytes: mib * MIB, ..base.clone() },
                );
                let killed = async {
                    tokio::time::sleep(std::time::Duration::from_millis(millis)).await;
                    containerd.kill();
                };
                let (result, ()) = tokio::join!(call, killed);
                eprintln!(
                    "## {handler} killed after {millis} ms, {mib}: {:?}",
                    result.map_err(|e| e.to_string())
                );
                show("killed");
                containerd.restart().await;
                let client = containerd.client().await;
                let status = client.container_status(&id).await.expect("status").expect("there");
                show("restarted");
                let info: serde_json::Value = serde_json::from_str(&status.info["info"]).expect("json");
                eprintln!(
                    "   status: {:?} spec {}",
                    status
                        .status
                        .and_then(|s| s.resources)
                        .and_then(|r| r.linux)
                        .map(|l| l.memory_limit_in_bytes / MIB),
                    info["runtimeSpec"]["linux"]["resources"]["memory"]
                );
                let unit = scope.file_name().unwrap().to_str().unwrap().to_owned();
                let out =
                    crate::debian::output("systemctl", ["show", &unit, "-p", "MemoryMax,MemorySwapMax"]);
                eprintln!("   unit: {}", String::from_utf8_lossy(&out.stdout).trim().replace('\n', " "));
            }
        }
        containerd.end().await;
    });
}
