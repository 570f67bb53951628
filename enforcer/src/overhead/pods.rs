//! Makes pods that are measured, and removes them: each carries a label, by which whatever is left is found.

use super::{
    driver::Driver,
    image::{ARCHITECTURE, Image, WORK},
    phase::Phase,
    registry::{NAME, Registry},
    run::OverheadError,
};
use crate::{
    cgroup::{Cgroup, Mount},
    cri::{
        Client, CriError,
        making::{
            CGROUPFS, CONTAINER, ContainerConfig, ContainerSecurity, Dns, LinuxContainer, LinuxSandbox, NODE,
            NamespaceOption, PodSandboxConfig, SandboxSecurity,
        },
        message::{
            ContainerMetadata, ImageSpec, LinuxContainerResources, PodSandboxMetadata,
            PodSandboxStatusResponse,
        },
    },
    inventory::{self, Locator, home, verbose::verbose},
    systemd,
};
use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

/// Every pod of a measurement has this label; its value is the run's id.
pub const LABEL: &str = "enforcer.dev/overhead";
/// Their namespace.
pub const NAMESPACE: &str = "enforcer-overhead";
/// Tries to remove all that is left: what is being made while the first is under way is there at the next.
const TRIES_MAX: usize = 5;
/// The kernel's usual period of a CPU quota.
const CPU_PERIOD_US: i64 = 100_000;
/// As a kubelet has them where a pod says nothing, but for the network, which takes no plug-in so.
const NAMESPACES: NamespaceOption = NamespaceOption { network: NODE, pid: CONTAINER };
const DRIVERS: [Driver; 2] = [Driver::Systemd, Driver::Cgroupfs];
/// What systemd may take to remove a slice, and between two looks at it.
const GONE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);

/// A pod that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Its sandbox.
    pub sandbox: String,
    /// The sandbox's first process, where the runtime tells it.
    pub first: Option<u32>,
    /// Its one container.
    pub container: String,
    /// The container's first process.
    pub process: u32,
    /// The pod's cgroup, below the mount.
    pub cgroup: PathBuf,
    /// The container's; `None` where it shares its sandbox's, as with a runtime that has a kernel of its own.
    pub scope: Option<PathBuf>,
}

/// What pods are wanted.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The run's id.
    pub run: &'a str,
    /// The runtime's handler; empty for the default one.
    pub handler: &'a str,
    /// The cgroup driver; `None` to be asked for.
    pub driver: Option<Driver>,
    /// The image; `None` for one made on the spot.
    pub image: Option<&'a str>,
    /// What the pods do.
    pub phase: Phase,
}

/// Makes pods.
#[derive(Debug)]
pub struct Maker {
    client: Client,
    locator: Locator,
    /// The run's id.
    pub run: String,
    handler: String,
    driver: Driver,
    image: String,
    /// The container's command line; empty for the image's own.
    command: Vec<String>,
    resources: Option<LinuxContainerResources>,
    made: u32,
}

impl Maker {
    /// For pods of this kind.
    pub async fn new(client: Client, mount: Arc<Mount>, wanted: Wanted<'_>) -> Result<Self, OverheadError> {
        let Wanted { run, handler, driver, image, phase } = wanted;
        let driver = match driver {
            Some(driver) => driver,
            None => detect(&client, handler).await?,
        };
        let (image, command) = if let Some(image) = image {
            // Its own program is the load.
            (fetched(&client, image).await?, Vec::new())
        } else {
            let work: &[&str] = if phase == Phase::Load { &WORK } else { &[] };
            (own_image(&client, run).await?, work.iter().copied().map(String::from).collect())
        };
        let resources = (phase == Phase::Load).then(|| LinuxContainerResources {
            cpu_period: CPU_PERIOD_US,
            cpu_quota: CPU_PERIOD_US / 10,
            ..LinuxContainerResources::default()
        });
        let (run, handler) = (run.into(), handler.into());
        let locator = Locator::new(mount);
        Ok(Self { client, locator, run, handler, driver, image, command, resources, made: 0 })
    }

    /// Pods that were made so far.
    pub fn made(&self) -> u32 {
        self.made
    }

    /// Makes a pod with one container that waits.
    pub async fn make(&mut self) -> Result<Pod, OverheadError> {
        self.made += 1;
        // Its form is that of a pod's UID, which is part of the cgroup's name.
        let uid = format!("{}-0000-4000-8000-{:012}", self.run, self.made);
        let config = self.sandbox(&uid);
        let sandbox = self.client.run_pod_sandbox(config.clone(), &self.handler).await?;
        let container = self.client.create_container(&sandbox, self.container(), config).await?;
        self.client.start_container(&container).await?;
        let first = self.client.pod_sandbox_status(&sandbox).await?;
        let first = first.and_then(|said: PodSandboxStatusResponse| verbose(&said.info).pid);
        let said = self.client.container_status(&container).await?;
        let process = said.and_then(|said| verbose(&said.info).pid);
        let lost = |why: String| OverheadError::NoCgroup { pod: uid.clone(), why };
        let process = process.ok_or_else(|| lost("the runtime does not tell its process".into()))?;
        let (parent, expected) = self.driver.pod(&uid);
        let wanted = inventory::Wanted { id: &container, sandbox: &sandbox, pid: process, word: None };
        let scope = match self.locator.home(wanted) {
            Ok(home) => Some(home.scope.path),
            Err(crate::inventory::NoHome::Sandbox) => None,
            Err(why) => return Err(lost(why.to_string())),
        };
        let inside = scope.as_deref().and_then(|scope| home::pod(scope, &uid));
        let cgroup = inside.map_or(expected, std::path::Path::to_path_buf);
        if let Err(error) = Cgroup::open_in(self.locator.mount(), &cgroup) {
            return Err(lost(format!("{error} (the runtime was told {parent})")));
        }
        Ok(Pod { sandbox, first, container, process, cgroup, scope })
    }

    fn sandbox(&self, uid: &str) -> PodSandboxConfig {
        let (parent, _) = self.driver.pod(uid);
        PodSandboxConfig {
            metadata: Some(PodSandboxMetadata {
                name: format!("{}-{}", self.run, self.made),
                uid: uid.into(),
                namespace: NAMESPACE.into(),
                attempt: 0,
            }),
            dns_config: Some(Dns { servers: vec!["127.0.0.1".into()] }),
            labels: BTreeMap::from([(LABEL.into(), self.run.clone())]),
            annotations: BTreeMap::new(),
            linux: Some(LinuxSandbox {
                cgroup_parent: parent,
                security_context: Some(SandboxSecurity { namespace_options: Some(NAMESPACES) }),
            }),
        }
    }

    fn container(&self) -> ContainerConfig {
        ContainerConfig {
            metadata: Some(ContainerMetadata { name: "wait".into(), attempt: 0 }),
            image: Some(ImageSpec { image: self.image.clone(), user_specified_image: String::new() }),
            command: self.command.clone(),
            labels: BTreeMap::from([(LABEL.into(), self.run.clone())]),
            linux: Some(LinuxContainer {
                resources: self.resources.clone(),
                security_context: Some(ContainerSecurity { namespace_options: Some(NAMESPACES) }),
            }),
        }
    }

    /// Removes a pod, with its cgroup.
    pub async fn remove(&self, pod: &Pod) -> Result<(), OverheadError> {
        remove(&self.client, &pod.sandbox).await?;
        drop_cgroup(self.locator.mount(), &pod.cgroup);
        Ok(())
    }
}

async fn detect(client: &Client, handler: &str) -> Result<Driver, OverheadError> {
    match client.cgroup_driver().await? {
        Some(CGROUPFS) => return Ok(Driver::Cgroupfs),
        Some(_) => return Ok(Driver::Systemd),
        None => {}
    }
    let info = client.status_info().await?;
    let fallback = || if systemd::runs() { Driver::Systemd } else { Driver::Cgroupfs };
    Ok(Driver::configured(&info, handler).unwrap_or_else(fallback))
}

async fn fetched(client: &Client, image: &str) -> Result<String, OverheadError> {
    if !client.has_image(image).await? {
        client.pull_image(image).await?;
    }
    Ok(image.into())
}

/// Has the runtime fetch the image from here.
async fn own_image(client: &Client, run: &str) -> Result<String, OverheadError> {
    let none = OverheadError::NoProgram { architecture: ARCHITECTURE.unwrap_or(std::env::consts::ARCH) };
    let image = Image::of_this_machine().ok_or(none)?;
    let registry = Registry::start(image, run).await.map_err(OverheadError::Registry)?;
    let reference = registry.reference();
    let pulled = client.pull_image(&reference).await;
    registry.end().await;
    pulled.map_err(OverheadError::Image)?;
    Ok(reference)
}

async fn remove(client: &Client, sandbox: &str) -> Result<(), CriError> {
    client.stop_pod_sandbox(sandbox).await?;
    client.remove_pod_sandbox(sandbox).await
}

/// What a clean-up found and did.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Cleaned {
    /// Pods that were removed.
    pub pods: usize,
    /// Images that were removed.
    pub images: usize,
}

/// Removes all pods and images of measurements; of one only, where its id is given.
pub async fn clean(client: &Client, mount: &Arc<Mount>, run: Option<&str>) -> Result<Cleaned, OverheadError> {
    let mut cleaned = Cleaned::default();
    let mut uids = Vec::new();
    for tried in 1.. {
        let pods = client.list_pod_sandbox(None).await?;
        let is_ours = |value: &String| run.is_none_or(|run| run == value);
        let ours: Vec<_> =
            pods.into_iter().filter(|pod| pod.labels.get(LABEL).is_some_and(is_ours)).collect();
        if ours.is_empty() {
            break;
        }
        if tried > TRIES_MAX {
            return Err(OverheadError::Left { pods: ours.len() });
        }
        for pod in ours {
            remove(client, &pod.id).await?;
            uids.extend(pod.metadata.map(|metadata| metadata.uid));
            cleaned.pods += 1;
        }
    }
    let of_pods = uids.iter().flat_map(|uid| DRIVERS.map(|driver| driver.pod(uid).1));
    let of_pods: Vec<PathBuf> = of_pods.collect();
    for path in &of_pods {
        drop_cgroup(mount, path);
    }
    gone(mount, &of_pods).await;
    drop_empty_parents(mount).await;
    for image in client.list_images().await? {
        for tag in image.repo_tags {
            let Some(of) = of_ours(&tag) else { continue };
            if run.is_none_or(|run| run == of) {
                client.remove_image(&tag).await?;
                cleaned.images += 1;
            }
        }
    }
    Ok(cleaned)
}

/// The run whose image has this name.
fn of_ours(tag: &str) -> Option<&str> {
    let (_, rest) = tag.strip_prefix("127.0.0.1:")?.split_once('/')?;
    rest.strip_prefix(NAME)?.strip_prefix(':')
}

/// Removes a pod's cgroup, which runtimes leave to the kubelet. One that is not empty stays.
fn drop_cgroup(mount: &Arc<Mount>, path: &std::path::Path) {
    let Ok(cgroup) = Cgroup::open_in(mount, path) else { return };
    let name = path.file_name().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
    let is_unit = systemd::unit_here(path).is_some();
    let stopped = is_unit && systemd::stop(name).unwrap_or(false);
    if !stopped {
        let _ = std::fs::remove_dir(cgroup.absolute());
    }
}

/// Waits, within bounds, until systemd has removed them: no event tells.
async fn gone(mount: &Arc<Mount>, paths: &[PathBuf]) {
    let begun = tokio::time::Instant::now();
    let is_there = |path: &PathBuf| Cgroup::open_in(mount, path).is_ok();
    while begun.elapsed() < GONE && paths.iter().any(is_there) {
        tokio::time::sleep(LOOK).await;
    }
}

/// Removes the cgroups above pods where nothing is in them any more, the inner ones first: a kubelet makes its own anew.
async fn drop_empty_parents(mount: &Arc<Mount>) {
    for path in
        ["kubepods.slice/kubepods-besteffort.slice", "kubepods.slice", "kubepods/besteffort", "kubepods"]
    {
        let path = PathBuf::from(path);
        let Ok(cgroup) = Cgroup::open_in(mount, &path) else { continue };
        let below = cgroup.read("cgroup.stat", crate::cgroup::parse::cgroup_stat_descendants);
        if below.is_ok_and(|below| below == 0) {
            drop_cgroup(mount, &path);
            gone(mount, &[path]).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_images_are_ours() {
        for (tag, run) in [
            ("127.0.0.1:40001/enforcer-overhead:ab12", Some("ab12")),
            ("127.0.0.1:40001/other:ab12", None),
            ("127.0.0.1:40001/enforcer-overheads:ab12", None),
            ("registry.k8s.io/enforcer-overhead:ab12", None),
            ("enforcer-overhead:1", None),
        ] {
            assert_eq!(of_ours(tag), run, "{tag}");
        }
    }
}
