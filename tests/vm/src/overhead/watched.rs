//! What pods cost, as a running agent tells it.

use crate::cri::block_on;
use crate::cri::rig::{Containerd, NAMESPACE};
use enforcer::cri::message::LinuxContainerResources;
use enforcer_vm_tests::agent_rig::{Agent, LONG};
use std::collections::BTreeMap;
use std::time::Instant;

const MIB: f64 = 1_048_576.0;

/// Series of a metric of pods, by pod and the rest of the labels.
fn of_pods(page: &str, name: &str) -> BTreeMap<(String, String), f64> {
    let line = |line: &str| {
        let (labels, value) = line.strip_prefix(name)?.strip_prefix('{')?.split_once("} ")?;
        let rest = labels.strip_prefix(&format!("namespace=\"{NAMESPACE}\",pod=\""))?;
        let (pod, rest) = rest.split_once('"')?;
        Some(((pod.to_owned(), rest.trim_start_matches(',').to_owned()), value.parse().ok()?))
    };
    page.lines().filter_map(line).collect()
}

/// The page, once it is as wanted.
fn until(agent: &Agent, wanted: impl Fn(&str) -> bool) -> String {
    let began = Instant::now();
    loop {
        let (_, page) = agent.page("/metrics");
        if wanted(&page) {
            return page;
        }
        let overhead: Vec<_> = page.lines().filter(|line| line.contains("overhead")).collect();
        assert!(began.elapsed() < LONG, "{overhead:#?}");
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
}

/// Two runtimes at once, an init container that has ended, a container that was restarted, and processes that share their
/// pod's namespace, which all pods here do.
pub(super) fn pods_of_two_runtimes() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let none = LinuxContainerResources::default;
        let mut sandboxes = Vec::new();
        for handler in ["runc", "crun"] {
            sandboxes.push(containerd.run_pod(handler, handler).await);
            // 8 MiB of page cache of a file that stays, for the container does; its cgroup does not.
            let init = ["/bin/busybox", "dd", "if=/dev/zero", "of=/left", "bs=1M", "count=8"];
            containerd.run_job("init", &init, none()).await;
            containerd.run_container("main", none()).await;
        }
        let sets = ["overhead.watch=true", "overhead.interval=1s", "overhead.reads_per_second=1000"];
        let agent = Agent::ready(&sets);
        let residue = |page: &str| of_pods(page, "enforcer_pod_overhead_residue_bytes");
        let page = until(&agent, |page| {
            let left = residue(page);
            left.len() == 2 && left.values().all(|bytes| *bytes >= 4.0 * MIB)
        });
        let terms = of_pods(&page, "enforcer_pod_overhead_bytes");
        let helpers = of_pods(&page, "enforcer_pod_overhead_helpers");
        for pod in ["runc", "crun"] {
            let of = |term: &str| terms[&(pod.to_owned(), format!("term=\"{term}\""))];
            println!("{pod}: {terms:?} {:?}", residue(&page));
            assert!((1.0 * MIB..64.0 * MIB).contains(&of("helper_anon")), "{terms:?}");
            assert!(of("pod_kernel") > 0.0 && of("pod_kernel") < 8.0 * MIB, "{terms:?}");
            // What was left is in no term.
            assert!(of("pod_file") < 4.0 * MIB, "{terms:?} {:?}", residue(&page));
            assert!((helpers[&(pod.to_owned(), String::new())] - 1.0).abs() < f64::EPSILON, "{helpers:?}");
        }
        for name in ["enforcer_overhead_reads_total", "enforcer_overhead_reader_cpu_seconds_total"] {
            let value = page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
            assert!(value.is_some_and(|value| value > 0.0), "{name}");
        }
        for sandbox in sandboxes {
            containerd.tell("StopPodSandbox", &sandbox).await;
            containerd.tell("RemovePodSandbox", &sandbox).await;
            containerd.forget(&sandbox);
        }
        until(&agent, |page| of_pods(page, "enforcer_pod_overhead_bytes").is_empty());
        containerd.end().await;
        agent.end();
    });
}
