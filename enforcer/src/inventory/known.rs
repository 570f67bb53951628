//! The pods and containers that are known, and what changes among them. No I/O.

use super::model::{Container, Pod};
use crate::{labels::Labels, names::Place};
use enforcer_gate::CgroupId;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Pods that are kept; the kubelet runs 110 on a node by default. More are not taken in, and counted.
pub const PODS_MAX: usize = 8192;
/// Containers that are kept, ended ones included.
pub const CONTAINERS_MAX: usize = 65_536;

/// All that the runtime has at one time.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// Pods.
    pub pods: Vec<Pod>,
    /// Containers.
    pub containers: Vec<Container>,
    /// What it could not say, or said too much of.
    pub lost: Lost,
}

/// What a listing had to leave out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lost {
    /// Pods and containers whose id is none.
    pub unnamed: u64,
    /// Running containers whose status the runtime refused.
    pub without_status: u64,
    /// Labels and annotations.
    pub marks: u64,
}

/// News about one pod or container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// It is so now.
    Pod(Pod),
    /// The sandbox with this id is no more, nor is what was in it.
    PodGone(String),
    /// It is so now.
    Container(Container),
    /// The container with this id is no more.
    ContainerGone(String),
}

/// What became of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step<T> {
    /// It is new.
    Born(Arc<T>),
    /// It is no more: the runtime has forgotten it.
    Died(Arc<T>),
    /// Something of it is otherwise.
    Changed {
        /// As it was.
        before: Arc<T>,
        /// As it is.
        after: Arc<T>,
    },
}

/// A change of an inventory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Of a pod.
    Pod(Step<Pod>),
    /// Of a container.
    Container(Step<Container>),
}

/// Whose a cgroup is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found<'a> {
    /// A pod's own, or of something of a pod's that is no known container.
    Pod(&'a Pod),
    /// A container's own, or one below it.
    Container(&'a Container),
}

/// Pods and containers, by what they are asked for.
#[derive(Debug, Clone, Default)]
pub struct Inventory {
    pods: BTreeMap<String, Arc<Pod>>,
    containers: BTreeMap<String, Arc<Container>>,
    by_path: BTreeMap<PathBuf, Owner>,
    by_cgroup: BTreeMap<CgroupId, Owner>,
    surplus: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Owner {
    Pod(String),
    Container(String),
}

impl Inventory {
    /// Takes in a whole listing; what is not in it is no more. Deaths come first, and pods are there before what is in
    /// them.
    pub fn replace(&mut self, listing: Listing) -> Vec<Change> {
        let pods: BTreeMap<_, _> = listing.pods.into_iter().map(|pod| (pod.sandbox.clone(), pod)).collect();
        let containers: BTreeMap<_, _> =
            listing.containers.into_iter().map(|container| (container.id.clone(), container)).collect();
        let mut changes = Vec::new();
        let gone: Vec<_> =
            self.containers.keys().filter(|id| !containers.contains_key(*id)).cloned().collect();
        changes.extend(gone.iter().filter_map(|id| self.drop_container(id)));
        let gone: Vec<_> = self.pods.keys().filter(|id| !pods.contains_key(*id)).cloned().collect();
        changes.extend(gone.iter().filter_map(|id| self.drop_pod(id)));
        changes.extend(pods.into_values().filter_map(|pod| self.put_pod(pod)));
        changes.extend(containers.into_values().filter_map(|container| self.put_container(container)));
        changes
    }

    /// Takes in news about one.
    pub fn apply(&mut self, event: Event) -> Vec<Change> {
        match event {
            Event::Pod(pod) => self.put_pod(pod).into_iter().collect(),
            Event::Container(container) => self.put_container(container).into_iter().collect(),
            Event::ContainerGone(id) => self.drop_container(&id).into_iter().collect(),
            Event::PodGone(sandbox) => {
                let inside = self.containers_of(&sandbox).map(|container| container.id.clone());
                let inside: Vec<_> = inside.collect();
                let mut changes: Vec<_> = inside.iter().filter_map(|id| self.drop_container(id)).collect();
                changes.extend(self.drop_pod(&sandbox));
                changes
            }
        }
    }

    /// All pods, by sandbox.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values().map(Arc::as_ref)
    }

    /// All containers, by id.
    pub fn containers(&self) -> impl Iterator<Item = &Container> {
        self.containers.values().map(Arc::as_ref)
    }

    /// All containers whose pod is known, with that, for whoever keeps them.
    pub fn kept(&self) -> impl Iterator<Item = (&Arc<Pod>, &Arc<Container>)> {
        self.containers
            .values()
            .filter_map(|container| self.pods.get(&container.sandbox).map(|pod| (pod, container)))
    }

    /// The container with this id, for whoever keeps it.
    pub fn kept_container(&self, id: &str) -> Option<Arc<Container>> {
        self.containers.get(id).cloned()
    }

    /// The containers of a sandbox.
    pub fn containers_of(&self, sandbox: &str) -> impl Iterator<Item = &Container> {
        self.containers().filter(move |container| container.sandbox == sandbox)
    }

    /// The pod with this sandbox.
    pub fn pod(&self, sandbox: &str) -> Option<&Pod> {
        self.pods.get(sandbox).map(Arc::as_ref)
    }

    /// The container with this id.
    pub fn container(&self, id: &str) -> Option<&Container> {
        self.containers.get(id).map(Arc::as_ref)
    }

    /// Whose the cgroup with this id is: a container's scope, the one its processes are in, or a pod's. One that lies
    /// deeper has an id that is not known here: ask by path.
    pub fn by_cgroup(&self, cgroup: CgroupId) -> Option<Found<'_>> {
        self.owned(self.by_cgroup.get(&cgroup)?)
    }

    /// Whose the cgroup at `path` is, which is below the mount, with or without a slash in front: a container's own or
    /// any below it, or else a pod's.
    pub fn by_path(&self, path: &Path) -> Option<Found<'_>> {
        let path = path.strip_prefix("/").unwrap_or(path);
        let owner = path.ancestors().find_map(|above| self.by_path.get(above))?;
        self.owned(owner)
    }

    /// The names of what is in a cgroup, as far as they are known here; also of what has ended.
    pub fn labels(&self, place: &Place) -> Labels {
        let container = place.container.as_deref().and_then(|id| self.container(id));
        let by_container = container.and_then(|container| self.pod(&container.sandbox));
        let by_uid = || place.pod.as_deref().and_then(|uid| self.pods().find(|pod| pod.uid == uid));
        let pod = by_container.or_else(by_uid);
        Labels {
            pod: pod.map(|pod| format!("{}/{}", pod.namespace, pod.name)),
            container: container.map(|container| container.name.clone()),
            image: container.map(|container| container.image.clone()).filter(|image| !image.is_empty()),
        }
    }

    /// Pods and containers that there was no room for, counted each time.
    pub fn surplus(&self) -> u64 {
        self.surplus
    }

    fn owned(&self, owner: &Owner) -> Option<Found<'_>> {
        match owner {
            Owner::Pod(sandbox) => self.pod(sandbox).map(Found::Pod),
            Owner::Container(id) => self.container(id).map(Found::Container),
        }
    }

    fn put_pod(&mut self, pod: Pod) -> Option<Change> {
        let id = pod.sandbox.clone();
        let (before, after) = put(&mut self.pods, PODS_MAX, &mut self.surplus, &id, pod)?;
        let owner = Owner::Pod(id);
        self.disown(&owner, before.iter().flat_map(|pod| pod_cgroups(pod)));
        self.own(&owner, pod_cgroups(&after));
        Some(Change::Pod(step(before, after)))
    }

    fn put_container(&mut self, container: Container) -> Option<Change> {
        let id = container.id.clone();
        let (before, after) = put(&mut self.containers, CONTAINERS_MAX, &mut self.surplus, &id, container)?;
        let owner = Owner::Container(id);
        self.disown(&owner, before.iter().flat_map(|container| container_cgroups(container)));
        self.own(&owner, container_cgroups(&after));
        Some(Change::Container(step(before, after)))
    }

    fn drop_pod(&mut self, sandbox: &str) -> Option<Change> {
        let pod = self.pods.remove(sandbox)?;
        self.disown(&Owner::Pod(sandbox.into()), pod_cgroups(&pod));
        Some(Change::Pod(Step::Died(pod)))
    }

    fn drop_container(&mut self, id: &str) -> Option<Change> {
        let container = self.containers.remove(id)?;
        self.disown(&Owner::Container(id.into()), container_cgroups(&container));
        Some(Change::Container(Step::Died(container)))
    }

    fn own<'a>(&mut self, owner: &Owner, cgroups: impl Iterator<Item = &'a super::Located>) {
        for cgroup in cgroups {
            self.by_path.insert(cgroup.path.clone(), owner.clone());
            self.by_cgroup.insert(cgroup.id, owner.clone());
        }
    }

    /// Somebody else may have taken a path over; that stays.
    fn disown<'a>(&mut self, owner: &Owner, cgroups: impl Iterator<Item = &'a super::Located>) {
        for cgroup in cgroups {
            if self.by_path.get(&cgroup.path) == Some(owner) {
                self.by_path.remove(&cgroup.path);
            }
            if self.by_cgroup.get(&cgroup.id) == Some(owner) {
                self.by_cgroup.remove(&cgroup.id);
            }
        }
    }
}

/// Keeps a record: as it was before, and as it is. `None` where that is the same, or where there is no room, which is
/// counted.
fn put<T: PartialEq>(
    known: &mut BTreeMap<String, Arc<T>>,
    max: usize,
    surplus: &mut u64,
    id: &str,
    now: T,
) -> Option<(Option<Arc<T>>, Arc<T>)> {
    let before = known.get(id).cloned();
    if before.as_deref() == Some(&now) {
        return None;
    }
    if before.is_none() && known.len() >= max {
        *surplus = surplus.saturating_add(1);
        return None;
    }
    let after = Arc::new(now);
    known.insert(id.into(), Arc::clone(&after));
    Some((before, after))
}

fn pod_cgroups(pod: &Pod) -> impl Iterator<Item = &super::Located> {
    pod.cgroup.iter()
}

fn container_cgroups(container: &Container) -> impl Iterator<Item = &super::Located> {
    container.home.iter().flat_map(|home| [&home.scope, &home.processes])
}

fn step<T>(before: Option<Arc<T>>, after: Arc<T>) -> Step<T> {
    match before {
        Some(before) => Step::Changed { before, after },
        None => Step::Born(after),
    }
}

#[cfg(test)]
pub(super) mod tests;
