//! What the agent knows of each container that runs. No I/O, no clock.

use super::{peaks::Peaks, reader::Read, reading::Reading};
use crate::{
    drift::{Expected, accepted},
    inventory::{Container, ContainerState, Home, Inventory, Pod},
    probe::{LimitKind, LimitValue},
};
use enforcer_gate::{Bytes, CgroupId, Instant, Limit, Micros, Policy, safe_minimum};
use std::{collections::BTreeMap, path::Path, sync::Arc};

/// How far back the peak of the floor reaches: what a container needed in this time it is taken to need again.
pub(super) const WINDOW: Micros = Micros::from_secs(600);
/// The shortest time that growth is a rate over.
const RATE_MIN: Micros = Micros::from_secs(1);

/// One container.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) pod: Arc<Pod>,
    pub(super) container: Arc<Container>,
    pub(super) reading: Option<Reading>,
    /// Why the last reading failed.
    pub(super) trouble: Option<String>,
    floors: Peaks,
    growth: Peaks,
    pub(super) oom_kills: u64,
    pub(super) last_verdict: String,
    /// The policy's word on it.
    pub(super) policy_state: String,
    /// The limit that a change of ours has put in force, and what the runtime was last heard to have: until it is heard
    /// to have something else.
    pub(super) ours: Option<(Bytes, Option<Limit>)>,
    /// A change is being carried out.
    pub(super) in_flight: bool,
    /// When the last change of ours ended: what was read before says nothing of the limit.
    changed: Option<Instant>,
}

impl Entry {
    fn new(pod: Arc<Pod>, container: Arc<Container>) -> Self {
        Self {
            pod,
            container,
            reading: None,
            trouble: None,
            floors: Peaks::over(WINDOW),
            growth: Peaks::over(WINDOW),
            oom_kills: 0,
            last_verdict: String::new(),
            policy_state: String::new(),
            ours: None,
            in_flight: false,
            changed: None,
        }
    }

    /// A change of ours has ended; it put this limit in force, if any.
    pub(super) fn ended(&mut self, now: Instant, committed: Option<Bytes>) {
        self.in_flight = false;
        self.changed = Some(now);
        if let Some(to) = committed {
            let said = self.container.limits.memory;
            self.ours = (said != Some(Limit::Bytes(to))).then_some((to, said));
        }
    }

    /// The last reading, if it tells how things are since the last change of ours.
    pub(super) fn fresh(&self) -> Option<&Reading> {
        self.reading.as_ref().filter(|reading| self.changed.is_none_or(|changed| reading.at > changed))
    }

    /// `pod/NAMESPACE/NAME:CONTAINER`
    pub(super) fn target(&self) -> String {
        format!("pod/{}/{}:{}", self.pod.namespace, self.pod.name, self.container.name)
    }

    /// The lowest limit that the gate would let in, by what was read within [`WINDOW`].
    pub(super) fn safe_minimum(&self, policy: &Policy) -> Option<Bytes> {
        let growth = self.growth.peak().unwrap_or_default();
        self.floors.peak().map(|peak| safe_minimum(peak, growth, policy))
    }

    fn read(&mut self, reading: Reading) {
        if let Some(before) = &self.reading {
            let span = reading.at.since(before.at);
            if span >= RATE_MIN {
                let grown = reading.floor.bytes.saturating_sub(before.floor.bytes);
                self.growth.add(reading.at, grown.scaled(1_000_000, span.get()));
            }
        }
        self.floors.add(reading.at, reading.floor.bytes);
        self.trouble = None;
        self.reading = Some(reading);
    }

    /// Whether this is the cgroup of its limit, its scope or its processes.
    pub(super) fn has(&self, cgroup: CgroupId) -> bool {
        let home = self.container.home.iter().flat_map(|home| [home.scope.id, home.processes.id]);
        home.chain(self.reading.iter().map(|reading| reading.cgroup.id)).any(|id| id == cgroup)
    }

    /// What a file of one of its cgroups should hold, as the runtime has it.
    fn expected(&self, cgroup: CgroupId, file: LimitKind) -> Option<Expected> {
        let home = self.container.home.as_ref().ok()?;
        let limits = &self.container.limits;
        let at_limit = self.reading.as_ref().is_some_and(|reading| reading.cgroup.id == cgroup);
        let value = match file {
            LimitKind::MemoryMax if at_limit => {
                let ours = self.ours.map(|(ours, _)| Limit::Bytes(ours));
                LimitValue::Memory(ours.or(limits.memory)?)
            }
            LimitKind::SwapMax if swap_acts(home) == cgroup => {
                let (Limit::Bytes(both), Limit::Bytes(memory)) = (limits.memory_and_swap?, limits.memory?)
                else {
                    return None;
                };
                LimitValue::Memory(Limit::Bytes(both.saturating_sub(memory)))
            }
            LimitKind::CpuMax if home.scope.id == cgroup => {
                LimitValue::Cpu { quota: Some(limits.cpu_quota?), period: limits.cpu_period? }
            }
            LimitKind::CpuWeight if home.scope.id == cgroup => {
                return limits.cpu_shares.map(Expected::Shares);
            }
            LimitKind::MemoryMax
            | LimitKind::SwapMax
            | LimitKind::CpuMax
            | LimitKind::CpuWeight
            | LimitKind::MemoryHigh
            | LimitKind::MemoryLow
            | LimitKind::MemoryMin
            | LimitKind::CpusetCpus
            | LimitKind::PidsMax => return None,
        };
        Some(Expected::Value(value))
    }

    /// Its memory limit, where that is not what the runtime has.
    pub(super) fn drift(&self) -> Option<(LimitValue, Expected)> {
        let reading = self.fresh().filter(|_| !self.in_flight)?;
        let expected = self.expected(reading.cgroup.id, LimitKind::MemoryMax)?;
        let value = LimitValue::Memory(reading.limit());
        accepted(&expected, value).is_none().then_some((value, expected))
    }
}

/// The cgroup inside of a container's scope that crun makes and puts the processes in.
const CRUNS: &str = "container";

/// Where a container's limit of swap acts. crun 1.21 sets `memory.max` of both its cgroups, but has systemd set the scope's
/// `memory.swap.max` to what the container may have of memory and swap together.
fn swap_acts(home: &Home) -> CgroupId {
    let inner = home.processes.path == home.scope.path.join(CRUNS);
    if inner { home.processes.id } else { home.scope.id }
}

/// What came of a look at the inventory.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Moved {
    /// Now to be read; also those whose cgroup is another one now.
    pub(super) born: Vec<(String, Home)>,
    /// No more.
    pub(super) gone: Vec<String>,
    /// All is as it was.
    pub(super) is_nothing: bool,
}

/// All containers that run, by id.
#[derive(Debug, Default)]
pub(super) struct Book {
    entries: BTreeMap<String, Entry>,
    /// Whose each cgroup is: those of its limit, its scope and its processes.
    by_cgroup: BTreeMap<CgroupId, String>,
}

impl Book {
    /// Takes in what the inventory has now.
    pub(super) fn sync(&mut self, inventory: &Inventory) -> Moved {
        let mut moved = Moved { is_nothing: true, ..Moved::default() };
        let mut there = BTreeMap::new();
        for (pod, container) in inventory.kept() {
            if container.state == ContainerState::Running {
                there.insert(container.id.as_str(), (pod, container));
            }
        }
        moved.gone = self.entries.keys().filter(|id| !there.contains_key(id.as_str())).cloned().collect();
        for id in &moved.gone {
            self.entries.remove(id);
        }
        moved.is_nothing = moved.gone.is_empty();
        for (id, (pod, container)) in there {
            let home = container.home.as_ref().ok();
            let Some(entry) = self.entries.get_mut(id) else {
                moved.born.extend(home.map(|home| (id.to_owned(), home.clone())));
                self.entries.insert(id.to_owned(), Entry::new(Arc::clone(pod), Arc::clone(container)));
                moved.is_nothing = false;
                continue;
            };
            if entry.ours.is_some_and(|(_, said)| container.limits.memory != said) {
                entry.ours = None;
            }
            if Arc::ptr_eq(&entry.pod, pod) && Arc::ptr_eq(&entry.container, container) {
                continue;
            }
            if home.is_some() && entry.container.home != container.home {
                moved.born.extend(home.map(|home| (id.to_owned(), home.clone())));
            }
            (entry.pod, entry.container) = (Arc::clone(pod), Arc::clone(container));
            moved.is_nothing = false;
        }
        if !moved.is_nothing {
            self.index();
        }
        moved
    }

    fn index(&mut self) {
        self.by_cgroup.clear();
        for (id, entry) in &self.entries {
            let home = entry.container.home.as_ref().ok();
            let of_home = home.into_iter().flat_map(|home| [home.scope.id, home.processes.id]);
            let of_limit = entry.reading.iter().map(|reading| reading.cgroup.id);
            self.by_cgroup.extend(of_home.chain(of_limit).map(|cgroup| (cgroup, id.clone())));
        }
    }

    /// A container was read. Of one that is gone it is nothing.
    pub(super) fn read(&mut self, read: Read) {
        let Some(entry) = self.entries.get_mut(&read.id) else { return };
        match read.result {
            Ok(reading) => {
                self.by_cgroup.insert(reading.cgroup.id, read.id);
                entry.read(reading);
            }
            Err(error) => {
                entry.trouble = Some(error.to_string());
                entry.floors.age(read.at);
                entry.growth.age(read.at);
            }
        }
    }

    pub(super) fn get(&self, id: &str) -> Option<&Entry> {
        self.entries.get(id)
    }

    pub(super) fn get_mut(&mut self, id: &str) -> Option<&mut Entry> {
        self.entries.get_mut(id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(id, entry)| (id.as_str(), entry))
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whose cgroup it is.
    pub(super) fn by_cgroup(&self, cgroup: CgroupId) -> Option<&Entry> {
        self.entries.get(self.by_cgroup.get(&cgroup)?)
    }

    /// Whose cgroup is at a path, below the mount.
    pub(super) fn at(&self, path: &Path) -> Option<&Entry> {
        self.entries.values().find(|entry| {
            let home = entry.container.home.as_ref().ok();
            let limit = entry.reading.as_ref().map(|reading| &reading.cgroup);
            home.into_iter()
                .flat_map(|home| [&home.scope, &home.processes])
                .chain(limit)
                .any(|at| at.path == path)
        })
    }

    /// What a limit file of the cgroup at a path, below the mount, should hold.
    pub(super) fn expected_at(&self, path: &Path, file: LimitKind) -> Option<Expected> {
        let entry = self.at(path).filter(|entry| !entry.in_flight)?;
        let limit = entry.reading.iter().map(|reading| &reading.cgroup);
        let home = entry.container.home.iter().flat_map(|home| [&home.scope, &home.processes]);
        let cgroup = home.chain(limit).find(|at| at.path == path)?.id;
        entry.expected(cgroup, file)
    }

    /// What a limit file should hold; nothing while a change of ours is being carried out.
    pub(super) fn expected(&self, cgroup: CgroupId, file: LimitKind) -> Option<Expected> {
        self.by_cgroup(cgroup).filter(|entry| !entry.in_flight)?.expected(cgroup, file)
    }
}

#[cfg(test)]
mod tests;
