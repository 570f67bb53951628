//! Finds what a command line names as `pod/NAMESPACE/NAME[:CONTAINER]`.

use super::{Exit, Failure, failure, options};
use crate::{
    cgroup::{Cgroup, Mount, shown},
    cri::{self, Client, CriError},
    inventory::{
        Container, ContainerState, Inventory, Listing, Locator, Pod, Resolved, Survey, Target, in_force,
    },
    probe::LimitKind,
};
use enforcer_gate::Limit;
use std::{path::PathBuf, sync::Arc, time::Duration};

/// Names that an error lists.
const LISTED_MAX: usize = 16;

/// A container of a pod, or a pod as a whole.
pub(super) struct Found {
    pub(super) node: Node,
    pub(super) pod: Pod,
    pub(super) container: Option<Container>,
}

/// The way to the runtime and to the node's cgroups.
pub(super) struct Node {
    pub(super) runtime: tokio::runtime::Runtime,
    pub(super) client: Client,
    pub(super) mount: Arc<Mount>,
}

/// Asks the runtime. A pod stands for its one container that runs; one that has several stands for itself if `whole` and
/// if its own memory limit is finite.
pub(super) fn find(what: &str, text: &str, cri: &options::Cri, whole: bool) -> Result<Found, Failure> {
    let usage = |why: &dyn std::fmt::Display, todo: &str| Failure::new(Exit::Usage, what, text, why, todo);
    let wanted =
        Target::parse(text).map_err(|error| usage(&error, "enforcer ps lists pods and containers"))?;
    let of_runtime = |error: &CriError| Failure { on: shown(text), ..failure::cri(what, error) };
    let socket = cri::find(cri.cri.as_deref()).map_err(|error| of_runtime(&error))?;
    failure::require(what, text, &options::TO_READ)?;
    let mount = Arc::new(Mount::discover().map_err(|error| Failure::cgroup(what, text, &error))?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Exit::Failed, what, text, &error, ""))?;
    let asked: Result<(Client, Listing), CriError> = runtime.block_on(async {
        let client = Client::connect(&socket, Duration::from_micros(cri.deadline.get())).await?;
        let listing = Survey::new(client.clone(), Locator::new(Arc::clone(&mount))).all().await?;
        Ok((client, listing))
    });
    let (client, listing) = asked.map_err(|error| of_runtime(&error))?;
    let mut inventory = Inventory::default();
    inventory.replace(listing);
    let resolved = wanted
        .resolve(&inventory)
        .map_err(|error| usage(&error, "enforcer ps --all lists pods and containers"))?;
    let (pod, container) = match resolved {
        Resolved::Container(pod, container) if container.state == ContainerState::Running => {
            (pod.clone(), Some(container.clone()))
        }
        Resolved::Container(_, container) => {
            let why = match container.state {
                ContainerState::Exited => "it has ended",
                ContainerState::Created => "it was not started yet",
                ContainerState::Running | ContainerState::Unknown => "the runtime does not know how it is",
            };
            return Err(Failure::new(Exit::Failed, what, text, &why, "enforcer ps --all says more"));
        }
        Resolved::Pod(pod) => {
            let running = inventory.containers_of(&pod.sandbox);
            let running: Vec<_> =
                running.filter(|container| container.state == ContainerState::Running).collect();
            match running[..] {
                [one] => (pod.clone(), Some(one.clone())),
                [] => {
                    let why = "no container of it runs";
                    return Err(Failure::new(Exit::Failed, what, text, &why, "enforcer ps --all says more"));
                }
                _ if whole && is_limited(&mount, pod) => (pod.clone(), None),
                _ => {
                    let mut names: Vec<_> = running.iter().map(|container| shown(&container.name)).collect();
                    names.sort_unstable();
                    names.truncate(LISTED_MAX);
                    let why = format!("several containers of it run: {}", names.join(", "));
                    return Err(usage(&why, &format!("name one: {text}:{}", names[0])));
                }
            }
        }
    };
    Ok(Found { node: Node { runtime, client, mount }, pod, container })
}

/// Whether the pod's own `memory.max` is a number.
fn is_limited(mount: &Arc<Mount>, pod: &Pod) -> bool {
    let limit = pod.cgroup.as_ref().and_then(|cgroup| {
        Cgroup::open_in(mount, &cgroup.path).ok()?.limit(LimitKind::MemoryMax.name()).ok()
    });
    matches!(limit, Some(Limit::Bytes(_)))
}

impl Found {
    /// The cgroup in which its memory limit acts, below the mount.
    pub(super) fn cgroup(&self, what: &str) -> Result<PathBuf, Failure> {
        let failed = |on: &str, why: &dyn std::fmt::Display| {
            Failure::new(Exit::Failed, what, on, why, "enforcer ps says more")
        };
        let Some(container) = &self.container else {
            let cgroup = self.pod.cgroup.as_ref();
            let cgroup = cgroup.ok_or_else(|| failed(&self.pod.name, &"the pod's cgroup can't be told"))?;
            return Ok(cgroup.path.clone());
        };
        let home = container.home.as_ref().map_err(|why| failed(&container.name, why))?;
        let force = in_force(&self.node.mount, home);
        Ok(force.map_err(|error| Failure::cgroup(what, &container.name, &error))?.cgroup)
    }
}
