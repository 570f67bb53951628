//! Asks the runtime what there is, and the kernel where it is.

use super::{
    Event, Listing, Locator, cgroups_path, home, intake,
    locate::Wanted,
    model::{Container, ContainerState, NoHome, Pod, PodState},
    verbose::verbose,
};
use crate::cri::{Client, CriError, deadline_passed};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::time::timeout;

/// Looks at a container whose process is not where it should be: once more for one that ends or starts just then.
const LOOKS_MAX: usize = 2;
/// What a whole listing may take, in deadlines of one call.
pub const CALLS_MAX: u32 = 6;

/// Looks at the runtime through one connection.
#[derive(Debug, Clone)]
pub struct Survey {
    client: Client,
    locator: Locator,
}

impl Survey {
    /// Through this connection.
    pub fn new(client: Client, locator: Locator) -> Self {
        Self { client, locator }
    }

    /// The connection.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Everything that there is, within [`CALLS_MAX`] times the deadline of a call.
    pub async fn all(&self) -> Result<Listing, CriError> {
        self.all_but(|_| None).await
    }

    /// The same, without a question about a container that `kept` has; it is told what the listing says of one that runs.
    pub async fn all_but(
        &self,
        kept: impl FnMut(&Container) -> Option<Arc<Container>>,
    ) -> Result<Listing, CriError> {
        let span = self.client.deadline() * CALLS_MAX;
        let all = timeout(span, self.listing(kept)).await;
        all.unwrap_or_else(|_| Err(deadline_passed(self.client.socket(), "ContainerStatus of all", span)))
    }

    async fn listing(
        &self,
        mut kept: impl FnMut(&Container) -> Option<Arc<Container>>,
    ) -> Result<Listing, CriError> {
        let mut listing = Listing::default();
        // In this order a container's pod is there, unless it was removed meanwhile.
        for said in self.client.list_containers(None).await? {
            let Some(container) = intake::container(said) else {
                listing.lost.unnamed += 1;
                continue;
            };
            if container.state == ContainerState::Running
                && let Some(kept) = kept(&container)
            {
                listing.containers.push(Container::clone(&kept));
                continue;
            }
            let (container, refused) = self.settled(container).await?;
            listing.lost.without_status += u64::from(refused);
            listing.containers.extend(container);
        }
        let scopes = scopes(&listing.containers);
        for said in self.client.list_pod_sandbox(None).await? {
            let Some((pod, left_out)) = intake::pod(said) else {
                listing.lost.unnamed += 1;
                continue;
            };
            listing.lost.marks += left_out;
            let scope = scopes.get(&pod.sandbox).map(PathBuf::as_path);
            listing.pods.push(self.placed(pod, scope).await?);
        }
        Ok(listing)
    }

    /// How the container or sandbox with this id is now, or that it is no more: an event names both by an id alone.
    pub async fn one(&self, id: &str) -> Result<Vec<Event>, CriError> {
        let containers = self.client.list_containers(Some(id)).await?;
        if let Some(container) = containers.into_iter().find_map(intake::container) {
            let (container, _) = self.settled(container).await?;
            return Ok(vec![container.map_or_else(|| Event::ContainerGone(id.into()), Event::Container)]);
        }
        let pods = self.client.list_pod_sandbox(Some(id)).await?;
        match pods.into_iter().find_map(intake::pod) {
            Some((pod, _)) => Ok(vec![Event::Pod(self.placed(pod, None).await?)]),
            None => Ok(vec![Event::ContainerGone(id.into()), Event::PodGone(id.into())]),
        }
    }

    /// Adds process, cgroups and limits to a container that runs; without one where it was removed meanwhile. `true`: the
    /// runtime refuses to say more of it.
    async fn settled(&self, mut container: Container) -> Result<(Option<Container>, bool), CriError> {
        for _ in 0..LOOKS_MAX {
            if container.state != ContainerState::Running {
                break;
            }
            let said = match self.client.container_status(&container.id).await {
                Ok(Some(said)) => said,
                Ok(None) => return Ok((None, false)),
                Err(error) => return may_be_left_out(error).map(|()| (Some(container), true)),
            };
            let verbose = verbose(&said.info);
            let status = said.status.unwrap_or_default();
            container.state = intake::state(status.state);
            if container.state != ContainerState::Running {
                container = Container { pid: None, home: Err(NoHome::NotRunning), ..container };
                break;
            }
            let resources = status.resources.and_then(|all| all.linux).or(verbose.resources);
            container.limits = resources.map(intake::limits).unwrap_or_default();
            container.pid = verbose.pid;
            let word = verbose.cgroups_path.as_deref().and_then(cgroups_path::scope);
            container.home = self.home(&container.id, &container.sandbox, verbose.pid, word.as_deref());
            if !matches!(container.home, Err(NoHome::Gone | NoHome::Elsewhere(_))) {
                break;
            }
        }
        Ok((Some(container), false))
    }

    fn home(
        &self,
        id: &str,
        sandbox: &str,
        pid: Option<u32>,
        word: Option<&Path>,
    ) -> Result<super::Home, NoHome> {
        let pid = pid.ok_or(NoHome::NoProcess)?;
        self.locator.home(Wanted { id, sandbox, pid, word })
    }

    /// Adds its cgroup to a pod: that above one of its containers, whose scope is given, or above its sandbox.
    async fn placed(&self, mut pod: Pod, scope: Option<&Path>) -> Result<Pod, CriError> {
        let mut paths: Vec<_> = scope.map(Path::to_owned).into_iter().collect();
        if paths.is_empty() && pod.state == PodState::Ready {
            let said = match self.client.pod_sandbox_status(&pod.sandbox).await {
                Ok(said) => said.map(|said| verbose(&said.info)).unwrap_or_default(),
                Err(error) => {
                    may_be_left_out(error)?;
                    return Ok(pod);
                }
            };
            let word = said.cgroups_path.as_deref().and_then(cgroups_path::scope);
            let home = self.home(&pod.sandbox, &pod.sandbox, said.pid, word.as_deref());
            // A sandbox without a process still has its word.
            paths.extend(home.ok().map(|home| home.scope.path).or(word));
        }
        let above = paths.iter().find_map(|path| home::pod(path, &pod.uid));
        pod.cgroup = above.and_then(|path| self.locator.located(path).ok());
        Ok(pod)
    }
}

/// The scope of the first container of each sandbox that has one.
fn scopes(containers: &[Container]) -> BTreeMap<String, PathBuf> {
    let mut scopes = BTreeMap::new();
    for container in containers {
        if let Ok(home) = &container.home {
            scopes.entry(container.sandbox.clone()).or_insert_with(|| home.scope.path.clone());
        }
    }
    scopes
}

/// What the runtime says of one container must not hide all others; a runtime that can't be asked is another matter.
fn may_be_left_out(error: CriError) -> Result<(), CriError> {
    match error {
        CriError::Failed { .. } | CriError::NotFound { .. } | CriError::TooLong { .. } => Ok(()),
        CriError::NoSocket { .. }
        | CriError::BadAddress { .. }
        | CriError::Connect { .. }
        | CriError::Deadline { .. }
        | CriError::Broken { .. }
        | CriError::Unimplemented { .. } => Err(error),
    }
}
