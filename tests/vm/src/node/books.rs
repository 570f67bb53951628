//! What the runtime knows, and what it answers.

use super::process::Process;
use super::{NAMESPACE, info, tree};
use crate::scratch::MOUNT;
use enforcer::cri::message::{
    CONTAINER_CREATED, CONTAINER_EXITED, CONTAINER_RUNNING, Container, ContainerEventResponse,
    ContainerMetadata, ContainerResources, ContainerStatus, ContainerStatusRequest, ContainerStatusResponse,
    IdFilter, ImageSpec, LinuxContainerResources, ListContainersRequest, ListContainersResponse,
    ListPodSandboxRequest, ListPodSandboxResponse, PodSandbox, PodSandboxMetadata, PodSandboxStatus,
    PodSandboxStatusRequest, PodSandboxStatusResponse, SANDBOX_READY, UpdateContainerResourcesRequest,
    UpdateContainerResourcesResponse, VersionResponse,
};
use enforcer::resize::effects::merged;
use enforcer_test_cri::Reply;
use prost::Message;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tokio::sync::mpsc;

/// Events that wait for whoever listens; containerd keeps 1,000.
const EVENTS_MAX: usize = 1000;
const IMAGE: &str = "registry.example/testing/sleeper:1.2.3";
/// Codes of gRPC.
const UNKNOWN: u32 = 2;
const NOT_FOUND: u32 = 5;
const UNIMPLEMENTED: u32 = 12;

/// `ContainerEventType` of CRI.
#[derive(Debug, Clone, Copy)]
enum Happened {
    Created = 0,
    Started = 1,
    Stopped = 2,
    Deleted = 3,
}

#[derive(Debug)]
struct Pod {
    metadata: PodSandboxMetadata,
    labels: BTreeMap<String, String>,
    /// Below the mount.
    cgroup: PathBuf,
    process: Process,
}

#[derive(Debug)]
struct Kept {
    sandbox: String,
    name: String,
    scope: PathBuf,
    cgroups_path: String,
    limits: LinuxContainerResources,
    state: i32,
    process: Option<Process>,
}

/// The runtime's books.
#[derive(Debug, Default)]
pub(super) struct Books {
    pods: BTreeMap<String, Pod>,
    containers: BTreeMap<String, Kept>,
    listener: Option<mpsc::Sender<Vec<u8>>>,
    events_lost: u64,
    /// A container whose limit somebody raises to so many bytes once the runtime is asked about it while it is lower than
    /// the runtime's own and has no brake.
    rival: Option<(String, u64)>,
    updates: u64,
}

impl Books {
    pub(super) fn raise_when_committed(&mut self, id: &str, bytes: u64) {
        self.rival = Some((id.into(), bytes));
    }

    pub(super) fn updates(&self) -> u64 {
        self.updates
    }

    /// Whether the rival has been there.
    pub(super) fn is_raised(&self) -> bool {
        self.rival.is_none()
    }

    fn act_as_rival(&mut self, asked: &str) {
        let Some((id, bytes)) = self.rival.take_if(|(id, _)| id == asked) else { return };
        let kept = &self.containers[asked];
        let folder = Path::new(MOUNT).join(&kept.scope);
        let read = |file: &str| std::fs::read_to_string(folder.join(file)).expect("it is there");
        let is_lower =
            read("memory.max").trim().parse().is_ok_and(|max: i64| max < kept.limits.memory_limit_in_bytes);
        if is_lower && read("memory.high").trim() == "max" {
            std::fs::write(folder.join("memory.max"), bytes.to_string()).expect("the rival's limit");
        } else {
            self.rival = Some((id, bytes));
        }
    }

    pub(super) fn add_pod(
        &mut self,
        id: &str,
        name: &str,
        uid: &str,
        labels: &[(&str, &str)],
        process: Process,
    ) {
        let metadata = PodSandboxMetadata {
            name: name.into(),
            uid: uid.into(),
            namespace: NAMESPACE.into(),
            attempt: 0,
        };
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let pod = Pod { metadata, labels: labels.collect(), cgroup: tree::pod(uid), process };
        self.pods.insert(id.into(), pod);
        self.tell(id, Happened::Started);
    }

    pub(super) fn add(&mut self, id: &str, sandbox: &str, name: &str, limits: &LinuxContainerResources) {
        let pod = &self.pods[sandbox];
        let kept = Kept {
            sandbox: sandbox.into(),
            name: name.into(),
            scope: tree::scope(&pod.cgroup, id),
            cgroups_path: cgroups_path(&pod.metadata.uid, id),
            limits: limits.clone(),
            state: CONTAINER_CREATED,
            process: None,
        };
        self.containers.insert(id.into(), kept);
        self.tell(id, Happened::Created);
    }

    pub(super) fn started(&mut self, id: &str, process: Process) {
        let kept = self.kept_mut(id);
        kept.process = Some(process);
        kept.state = CONTAINER_RUNNING;
        self.tell(id, Happened::Started);
    }

    /// Its process, to be ended, and its cgroup.
    pub(super) fn ending(&mut self, id: &str) -> (Option<Process>, PathBuf) {
        let kept = self.kept_mut(id);
        (kept.process.take(), kept.scope.clone())
    }

    pub(super) fn ended(&mut self, id: &str) {
        self.kept_mut(id).state = CONTAINER_EXITED;
        self.tell(id, Happened::Stopped);
    }

    pub(super) fn remove(&mut self, id: &str) {
        let kept = self.containers.remove(id).unwrap_or_else(|| panic!("no container {id}"));
        assert_ne!(kept.state, CONTAINER_RUNNING, "{id} runs");
        self.tell(id, Happened::Deleted);
    }

    /// Its process, to be ended, and its cgroup.
    pub(super) fn remove_pod(&mut self, id: &str) -> (Process, PathBuf) {
        let pod = self.pods.remove(id).unwrap_or_else(|| panic!("no pod {id}"));
        self.tell(id, Happened::Deleted);
        (pod.process, pod.cgroup)
    }

    /// Containers of a pod, and whether each runs.
    pub(super) fn of_pod(&self, sandbox: &str) -> Vec<(String, bool)> {
        let own = self.containers.iter().filter(|(_, kept)| kept.sandbox == sandbox);
        own.map(|(id, kept)| (id.clone(), kept.state == CONTAINER_RUNNING)).collect()
    }

    pub(super) fn sandboxes(&self) -> Vec<String> {
        self.pods.keys().cloned().collect()
    }

    pub(super) fn uid(&self, sandbox: &str) -> String {
        self.pods[sandbox].metadata.uid.clone()
    }

    pub(super) fn scope(&self, id: &str) -> PathBuf {
        self.containers[id].scope.clone()
    }

    pub(super) fn running(&self) -> usize {
        self.containers.values().filter(|kept| kept.state == CONTAINER_RUNNING).count()
    }

    pub(super) fn events_lost(&self) -> u64 {
        self.events_lost
    }

    pub(super) fn info_bytes(&self, id: &str) -> usize {
        self.status(id).map_or(0, |said| said.info.values().map(String::len).sum())
    }

    fn kept_mut(&mut self, id: &str) -> &mut Kept {
        self.containers.get_mut(id).unwrap_or_else(|| panic!("no container {id}"))
    }

    fn tell(&mut self, id: &str, what: Happened) {
        let Some(listener) = &self.listener else { return };
        let event = ContainerEventResponse {
            container_id: id.into(),
            container_event_type: what as i32,
            ..ContainerEventResponse::default()
        };
        match listener.try_send(event.encode_to_vec()) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => self.events_lost += 1,
            Err(mpsc::error::TrySendError::Closed(_)) => self.listener = None,
        }
    }

    /// The answer to a call.
    pub(super) fn reply(&mut self, call: &str, request: &[u8]) -> Reply {
        match call {
            "Version" => Reply::of(&VersionResponse {
                version: "0.1.0".into(),
                runtime_name: "containerd".into(),
                runtime_version: "1.7.24".into(),
                runtime_api_version: "v1".into(),
            }),
            "ListContainers" => {
                let wanted = ListContainersRequest::decode(request).unwrap_or_default().filter;
                let all = self.containers.iter().filter(|(id, _)| is_wanted(wanted.as_ref(), id));
                Reply::of(&ListContainersResponse { containers: all.map(listed).collect() })
            }
            "ListPodSandbox" => {
                let wanted = ListPodSandboxRequest::decode(request).unwrap_or_default().filter;
                let all = self.pods.iter().filter(|(id, _)| is_wanted(wanted.as_ref(), id));
                Reply::of(&ListPodSandboxResponse { items: all.map(listed_pod).collect() })
            }
            "ContainerStatus" => {
                let asked = ContainerStatusRequest::decode(request).unwrap_or_default();
                self.act_as_rival(&asked.container_id);
                self.status(&asked.container_id)
                    .map_or(Reply::Status(NOT_FOUND, "no such container"), |status| Reply::of(&status))
            }
            "PodSandboxStatus" => {
                let asked = PodSandboxStatusRequest::decode(request).unwrap_or_default();
                self.pod_status(&asked.pod_sandbox_id)
                    .map_or(Reply::Status(NOT_FOUND, "no such sandbox"), |status| Reply::of(&status))
            }
            "UpdateContainerResources" => {
                let asked = UpdateContainerResourcesRequest::decode(request).unwrap_or_default();
                self.updates += 1;
                self.update(&asked.container_id, &asked.linux.unwrap_or_default())
            }
            "GetContainerEvents" => {
                let (listener, events) = mpsc::channel(EVENTS_MAX);
                self.listener = Some(listener);
                Reply::Stream(events)
            }
            _ => Reply::Status(UNIMPLEMENTED, "not in this script"),
        }
    }

    fn status(&self, id: &str) -> Option<ContainerStatusResponse> {
        let kept = self.containers.get(id)?;
        let linux = Some(kept.limits.clone());
        let status = ContainerStatus {
            id: id.into(),
            metadata: Some(ContainerMetadata { name: kept.name.clone(), attempt: 0 }),
            state: kept.state,
            image: Some(ImageSpec { image: IMAGE.into(), ..ImageSpec::default() }),
            image_ref: IMAGE.into(),
            resources: Some(ContainerResources { linux }),
            ..ContainerStatus::default()
        };
        let pid = kept.process.as_ref().map_or(0, Process::pid);
        let text = info::container(id, &kept.sandbox, pid, &kept.cgroups_path, &kept.limits);
        Some(ContainerStatusResponse { status: Some(status), info: BTreeMap::from([("info".into(), text)]) })
    }

    fn pod_status(&self, id: &str) -> Option<PodSandboxStatusResponse> {
        let pod = self.pods.get(id)?;
        let status = PodSandboxStatus {
            id: id.into(),
            metadata: Some(pod.metadata.clone()),
            state: SANDBOX_READY,
            labels: pod.labels.clone(),
            ..PodSandboxStatus::default()
        };
        let path = cgroups_path(&pod.metadata.uid, id);
        let text = info::container(id, id, pod.process.pid(), &path, &LinuxContainerResources::default());
        Some(PodSandboxStatusResponse { status: Some(status), info: BTreeMap::from([("info".into(), text)]) })
    }

    fn update(&mut self, id: &str, sent: &LinuxContainerResources) -> Reply {
        let Some(kept) = self.containers.get_mut(id) else {
            return Reply::Status(NOT_FOUND, "no such container");
        };
        let limits = merged(&kept.limits, sent);
        if kept.state == CONTAINER_RUNNING && tree::set(&Path::new(MOUNT).join(&kept.scope), &limits).is_err()
        {
            return Reply::Status(UNKNOWN, "the cgroup's files can't be written");
        }
        kept.limits = limits;
        Reply::of(&UpdateContainerResourcesResponse {})
    }
}

fn cgroups_path(uid: &str, id: &str) -> String {
    format!("{}:cri-containerd:{id}", tree::slice(uid))
}

fn is_wanted(filter: Option<&IdFilter>, id: &str) -> bool {
    filter.is_none_or(|filter| filter.id.is_empty() || id.starts_with(&filter.id))
}

fn listed((id, kept): (&String, &Kept)) -> Container {
    Container {
        id: id.clone(),
        pod_sandbox_id: kept.sandbox.clone(),
        metadata: Some(ContainerMetadata { name: kept.name.clone(), attempt: 0 }),
        image: Some(ImageSpec { image: IMAGE.into(), ..ImageSpec::default() }),
        image_ref: IMAGE.into(),
        state: kept.state,
        ..Container::default()
    }
}

fn listed_pod((id, pod): (&String, &Pod)) -> PodSandbox {
    PodSandbox {
        id: id.clone(),
        metadata: Some(pod.metadata.clone()),
        state: SANDBOX_READY,
        labels: pod.labels.clone(),
        ..PodSandbox::default()
    }
}
