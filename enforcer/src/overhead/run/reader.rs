//! One look at the node and at all pods.

use super::OverheadError;
use crate::{
    cgroup::{CgroupError, Mount, shown},
    overhead::{
        account::{Readings, Usage, account},
        cpu::{self, Cpu, Times},
        helpers::{Process, Sandbox, Table},
        model::{Flag, Helper, HelperMemory, NodeSample, PodSample},
        pods::Pod,
        sample::{Proc, cpu_used, usage},
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
        Ok(NodeSample { step, pods, made, available, on_cpus, known, unsettled: false })
    }

    /// What CPU time every pod has used, in their order; `None` for one of which it can't be read.
    pub(super) fn used(&self, pods: &[Pod]) -> Result<Used, OverheadError> {
        let table = self.proc.table().map_err(OverheadError::Proc)?;
        let at = Instant::now();
        Ok(Used { at, pods: pods.iter().map(|pod| self.times(pod, &table)).collect() })
    }

    fn times(&self, pod: &Pod, table: &Table) -> Option<Times> {
        let mut times = Times::default();
        for (pid, _) in table.of(&sandbox(pod)).helpers {
            let process = table.get(pid).filter(|process| !process.cgroup.starts_with(&pod.cgroup));
            let Some(started) = process.map(|process| process.started) else { continue };
            // One that ends meanwhile is missing, which is told.
            if let Some(used) = self.proc.used(pid, started) {
                times.helpers.insert((pid, started), used);
            }
        }
        times.apps = cpu_used(&self.mount, pod.scope.as_deref()?).ok()?;
        times.pod = cpu_used(&self.mount, &pod.cgroup).ok()?;
        Some(times)
    }

    /// Every pod, with the CPU time that was used between two readings of these pods.
    pub(super) fn pods(
        &self,
        step: usize,
        pods: &[Pod],
        (before, after): (&Used, &Used),
    ) -> Result<Vec<PodSample>, OverheadError> {
        let table = self.proc.table().map_err(OverheadError::Proc)?;
        let span = after.at.duration_since(before.at).as_micros();
        let span = Micros::new(u64::try_from(span).unwrap_or(u64::MAX));
        let times = before.pods.iter().zip(&after.pods);
        let of = |(pod, (before, after)): (&Pod, (&Option<Times>, &Option<Times>))| {
            let used =
                before.as_ref().zip(after.as_ref()).map(|(before, after)| cpu::between(before, after, span));
            self.pod(step, pod, &table, used)
        };
        Ok(pods.iter().zip(times).map(of).collect())
    }

    fn pod(&self, step: usize, pod: &Pod, table: &Table, used: Option<(Cpu, Vec<Flag>)>) -> PodSample {
        let mut readings = Readings::default();
        if let Some((cpu, flags)) = used {
            readings.cpu = Some(cpu);
            readings.flags = flags;
        }
        let found = table.of(&sandbox(pod));
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

fn sandbox(pod: &Pod) -> Sandbox {
    Sandbox {
        id: pod.sandbox.clone(),
        first: pod.first,
        containers: vec![pod.container.clone()],
        processes: vec![pod.process],
        cgroup: pod.cgroup.clone(),
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
