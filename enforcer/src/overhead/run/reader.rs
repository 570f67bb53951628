//! One look at the node and at all pods.

use super::OverheadError;
use crate::{
    cgroup::Mount,
    overhead::{
        account::account,
        cpu::{self, Cpu, Times},
        helpers::{Process, Sandbox},
        look::{self, Subject},
        model::{Flag, HelperMemory, NodeSample, PodSample},
        pods::Pod,
        sample::{Proc, peak, usage},
    },
};
use enforcer_gate::{Bytes, Micros};
use std::{collections::BTreeMap, path::Path, sync::Arc};
use tokio::{net::UnixStream, time::Instant};

/// Programs that bring a kubelet with them.
const KUBELETS: [&str; 5] = ["kubelet", "k3s", "k3s-server", "rke2", "kubelite"];

/// What pods have used up to one moment.
#[derive(Debug)]
pub(super) struct Used {
    at: Instant,
    pods: Vec<Option<Times>>,
}

/// Looks at the node.
#[derive(Debug)]
pub(super) struct Reader {
    proc: Proc,
    mount: Arc<Mount>,
    /// What ran before the first pod was made, by what it is shown as: process number and start.
    before: Vec<(&'static str, u32, u64)>,
}

impl Reader {
    /// Before the first pod is made.
    pub(super) async fn new(socket: &Path, mount: Arc<Mount>) -> Result<Self, OverheadError> {
        let proc = Proc::default();
        let table = proc.table().map_err(OverheadError::Proc)?;
        if let Some(kubelet) = table.iter().find(|process| KUBELETS.contains(&name(process).as_str())) {
            return Err(OverheadError::Kubelet { pid: kubelet.pid });
        }
        let daemon = daemon(socket).await;
        let own = std::process::id();
        let before = table.iter().filter(|process| !process.program.as_os_str().is_empty());
        let before = before.map(|process| {
            let name = match process.pid {
                pid if Some(pid) == daemon => "runtime",
                1 => "init",
                pid if pid == own => "enforcer",
                _ => "others",
            };
            (name, process.pid, process.started)
        });
        Ok(Self { proc, mount, before: before.collect() })
    }

    /// The node, with all that is known and no pod's overhead.
    pub(super) fn node(&mut self, pods: &[Pod]) -> Result<NodeSample, OverheadError> {
        let mut known: BTreeMap<String, Bytes> = BTreeMap::new();
        let mut add = |name: &str, bytes: Bytes| {
            let sum = known.entry(name.into()).or_default();
            *sum = sum.saturating_add(bytes);
        };
        // One that has ended uses nothing.
        for (name, pid, started) in &self.before {
            let memory = self.proc.memory(*pid, *started).unwrap_or_default();
            add(name, kept(memory));
        }
        add("app", Bytes::ZERO);
        for pod in pods {
            let used = pod.scope.as_deref().map(|scope| usage(&self.mount, scope));
            if let Some(Ok(used)) = used {
                add("app", used.kept());
            }
        }
        let (available, on_cpus) = self.proc.available().map_err(OverheadError::Proc)?;
        let (step, pods, made) = (0, 0, 0);
        Ok(NodeSample { step, pods, made, available, on_cpus, known, unsettled: false, probes: 0 })
    }

    /// What CPU time every pod has used, in their order; `None` for one of which it can't be read.
    pub(super) fn used(&self, pods: &[Pod]) -> Result<Used, OverheadError> {
        let table = self.proc.table().map_err(OverheadError::Proc)?;
        let at = Instant::now();
        Ok(Used {
            at,
            pods: pods
                .iter()
                .map(|pod| look::times(&self.proc, &self.mount, &table, &subject(pod)))
                .collect(),
        })
    }

    /// What a pod that was just made has used since then, and the most that its cgroup had.
    pub(super) fn since_the_start(
        &self,
        pod: &Pod,
        began: Instant,
    ) -> Result<(Option<Cpu>, Option<Bytes>), OverheadError> {
        let used = self.used(std::slice::from_ref(pod))?;
        let none = Used { at: began, pods: vec![Some(Times::default())] };
        let cpu = between(&none, &used).into_iter().next().flatten().map(|(cpu, _)| cpu);
        // Nothing that ran in its container has been reaped yet.
        let helpers = used.pods.iter().flatten().flat_map(|times| times.helpers.values());
        let reaped = helpers.fold(Micros::ZERO, |sum, used| sum.saturating_add(used.reaped));
        let cpu = cpu.map(|cpu| Cpu { reaped, ..cpu });
        Ok((cpu, peak(&self.mount, &pod.cgroup).ok()))
    }

    /// Every pod, without CPU time.
    pub(super) fn pods(&self, step: usize, pods: &[Pod]) -> Result<Vec<PodSample>, OverheadError> {
        let table = self.proc.table().map_err(OverheadError::Proc)?;
        let of = |pod: &Pod| {
            account(step, &pod.sandbox, look::memory(&self.proc, &self.mount, &table, &subject(pod)))
        };
        Ok(pods.iter().map(of).collect())
    }
}

/// What each pod used between two readings of the same pods; `None` for one of which one or the other could not be read.
pub(super) fn between(before: &Used, after: &Used) -> Vec<Option<(Cpu, Vec<Flag>)>> {
    let span = after.at.duration_since(before.at).as_micros();
    let span = Micros::new(u64::try_from(span).unwrap_or(u64::MAX));
    let times = before.pods.iter().zip(&after.pods);
    times.map(|(before, after)| Some(cpu::between(before.as_ref()?, after.as_ref()?, span))).collect()
}

fn subject(pod: &Pod) -> Subject {
    let sandbox = Sandbox {
        id: pod.sandbox.clone(),
        first: pod.first,
        containers: vec![pod.container.clone()],
        processes: vec![pod.process],
        cgroup: pod.cgroup.clone(),
    };
    Subject { sandbox, apps: pod.scope.clone().into_iter().collect() }
}

fn name(process: &Process) -> String {
    process.program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// What of a process the node misses.
fn kept(memory: HelperMemory) -> Bytes {
    let HelperMemory { anon, file: _, shmem, page_tables, stacks } = memory;
    [anon, shmem, page_tables, stacks].into_iter().sum()
}

/// Who listens on the socket, as far as the kernel tells.
async fn daemon(socket: &Path) -> Option<u32> {
    let stream = UnixStream::connect(socket).await.ok()?;
    u32::try_from(stream.peer_cred().ok()?.pid()?).ok()
}
