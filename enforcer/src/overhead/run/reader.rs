//! One look at the node and at all pods.

use super::OverheadError;
use crate::{
    cgroup::{CgroupError, Mount, shown},
    overhead::{
        account::{Readings, Usage, account},
        helpers::{Process, Sandbox, Table},
        model::{Flag, Helper, HelperMemory, NodeSample, PodSample},
        pods::Pod,
        sample::{Proc, usage},
    },
};
use enforcer_gate::Bytes;
use std::{collections::BTreeMap, path::Path, sync::Arc};
use tokio::net::UnixStream;

/// Programs that bring a kubelet with them.
const KUBELETS: [&str; 5] = ["kubelet", "k3s", "k3s-server", "rke2", "kubelite"];

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
        Ok(NodeSample { step, pods, made, available, on_cpus, known, unsettled: false })
    }

    /// Every pod.
    pub(super) fn pods(&self, step: usize, pods: &[Pod]) -> Result<Vec<PodSample>, OverheadError> {
        let table = self.proc.table().map_err(OverheadError::Proc)?;
        Ok(pods.iter().map(|pod| self.pod(step, pod, &table)).collect())
    }

    fn pod(&self, step: usize, pod: &Pod, table: &Table) -> PodSample {
        let mut readings = Readings::default();
        let sandbox = Sandbox {
            id: pod.sandbox.clone(),
            first: pod.first,
            containers: vec![pod.container.clone()],
            processes: vec![pod.process],
            cgroup: pod.cgroup.clone(),
        };
        let found = table.of(&sandbox);
        for (pid, why) in found.look_alikes {
            readings.flags.push(Flag::LookAlike { pid, why: why.into() });
        }
        for (pid, rule) in found.helpers {
            let Some(process) = table.get(pid) else { continue };
            let memory = match self.proc.memory(pid, process.started) {
                Ok(memory) => memory,
                Err(error) => {
                    readings.flags.push(error.flag(pid));
                    continue;
                }
            };
            readings.helpers.push(Helper {
                pid,
                program: shown(&process.program),
                rule,
                cgroup: shown(&process.cgroup),
                in_pod: process.cgroup.starts_with(&pod.cgroup),
                memory,
            });
        }
        let mut flags = Vec::new();
        let mut read = |path: &Path| -> Usage {
            usage(&self.mount, path).unwrap_or_else(|error| {
                flags.push(of(path, &error));
                Usage::default()
            })
        };
        // The containers first: what grows meanwhile makes the pod more and never less.
        readings.apps.extend(pod.scope.as_deref().map(&mut read));
        readings.pod = read(&pod.cgroup);
        readings.flags.append(&mut flags);
        account(step, &pod.sandbox, readings)
    }
}

fn of(path: &Path, error: &CgroupError) -> Flag {
    if error.is_gone() {
        return Flag::PodGone;
    }
    Flag::Unreadable { file: shown(path), why: error.to_string() }
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
