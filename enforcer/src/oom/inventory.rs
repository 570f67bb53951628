//! The cgroups of the node, also those that are gone. No I/O: told by the kernel's events and by who looked.

use crate::probe::{CgroupLife, LifeEvent};
use enforcer_gate::CgroupId;
use std::{
    collections::{BTreeMap, VecDeque},
    ffi::OsString,
    os::unix::ffi::OsStringExt as _,
    path::PathBuf,
};

/// Cgroups that are known at most. More are not taken in, and counted.
const KNOWN_MAX: usize = 65_536;
/// Removed cgroups that are remembered; the oldest is forgotten first.
const GONE_MAX: usize = 8192;
/// Deepest path.
const DEPTH_MAX: usize = 128;

/// What is known of one cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    parent: Option<CgroupId>,
    name: OsString,
    /// The name was longer than an event holds.
    cut: bool,
    /// When it was made (`CLOCK_MONOTONIC`), if that was seen.
    pub made_ns: Option<u64>,
    /// It was removed.
    pub gone: bool,
}

/// Every cgroup that was seen.
#[derive(Debug, Default)]
pub struct Inventory {
    known: BTreeMap<CgroupId, Known>,
    gone: VecDeque<CgroupId>,
    surplus: u64,
}

impl Inventory {
    /// Somebody saw this cgroup in the tree. The root has no parent and no name.
    pub fn seen(&mut self, id: CgroupId, parent: Option<CgroupId>, name: OsString) {
        let made_ns = self.known.get(&id).and_then(|known| known.made_ns);
        self.insert(id, Known { parent, name, cut: false, made_ns, gone: false });
    }

    /// The kernel told of a cgroup.
    pub fn told(&mut self, life: &CgroupLife) {
        match life.event {
            LifeEvent::Mkdir => {
                // One that was also seen in the tree has its whole name from there.
                if let Some(known) = self.known.get_mut(&life.cgroup) {
                    known.made_ns = Some(life.at_ns);
                    return;
                }
                let name = life.name.as_bytes();
                let known = Known {
                    parent: Some(life.parent),
                    name: OsString::from_vec(name.to_vec()),
                    cut: name.len() >= crate::probe::NAME_LEN - 1,
                    made_ns: Some(life.at_ns),
                    gone: false,
                };
                self.insert(life.cgroup, known);
            }
            LifeEvent::Rmdir => {
                let Some(known) = self.known.get_mut(&life.cgroup) else { return };
                known.gone = true;
                self.gone.push_back(life.cgroup);
                if self.gone.len() > GONE_MAX
                    && let Some(oldest) = self.gone.pop_front()
                {
                    self.known.remove(&oldest);
                }
            }
            LifeEvent::Release => {}
        }
    }

    fn insert(&mut self, id: CgroupId, known: Known) {
        if self.known.len() >= KNOWN_MAX && !self.known.contains_key(&id) {
            self.surplus = self.surplus.saturating_add(1);
            return;
        }
        self.known.insert(id, known);
    }

    /// What is known of a cgroup.
    pub fn get(&self, id: CgroupId) -> Option<&Known> {
        self.known.get(&id)
    }

    /// Its path below the mount; empty for the root, `None` where a part of it is not known.
    pub fn path(&self, id: CgroupId) -> Option<PathBuf> {
        let lineage = self.lineage(id);
        let top = self.known.get(lineage.last()?)?;
        let whole = top.parent.is_none() && !lineage.iter().any(|id| self.known[id].cut);
        let names = lineage.iter().rev().map(|id| &self.known[id].name);
        whole.then(|| names.filter(|name| !name.is_empty()).collect())
    }

    /// A cgroup and those above it, as far as they are known, itself first.
    pub fn lineage(&self, id: CgroupId) -> Vec<CgroupId> {
        let up = |id: &CgroupId| self.known.get(id)?.parent.filter(|parent| self.known.contains_key(parent));
        let first = self.known.contains_key(&id).then_some(id);
        std::iter::successors(first, up).take(DEPTH_MAX).collect()
    }

    /// Cgroups that there was no room for.
    pub fn surplus(&self) -> u64 {
        self.surplus
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Text;
    use std::path::Path;

    fn id(id: u64) -> CgroupId {
        CgroupId::new(id)
    }

    fn life(event: LifeEvent, cgroup: u64, parent: u64, name: &[u8]) -> CgroupLife {
        CgroupLife {
            at_ns: 9,
            cgroup: id(cgroup),
            parent: id(parent),
            level: 1,
            event,
            name: Text::new(name),
        }
    }

    fn rooted() -> Inventory {
        let mut inventory = Inventory::default();
        inventory.seen(id(1), None, "".into());
        inventory
    }

    #[test]
    fn paths_come_from_events_also_of_what_is_gone() {
        let mut inventory = rooted();
        inventory.told(&life(LifeEvent::Mkdir, 2, 1, b"pods"));
        inventory.told(&life(LifeEvent::Mkdir, 3, 2, b"a"));
        for event in [LifeEvent::Rmdir, LifeEvent::Release] {
            inventory.told(&life(event, 3, 2, b"a"));
        }
        assert_eq!(inventory.path(id(3)).as_deref(), Some(Path::new("pods/a")));
        assert_eq!(inventory.path(id(1)).as_deref(), Some(Path::new("")));
        assert_eq!(inventory.lineage(id(3)), [id(3), id(2), id(1)]);
        let known = inventory.get(id(3)).unwrap();
        assert_eq!((known.gone, known.made_ns), (true, Some(9)));
    }

    #[test]
    fn a_path_with_a_gap_is_no_path() {
        let mut inventory = rooted();
        inventory.told(&life(LifeEvent::Mkdir, 3, 2, b"a"));
        assert_eq!((inventory.path(id(3)), inventory.path(id(4))), (None, None));
        inventory.told(&life(LifeEvent::Mkdir, 5, 1, &[b'x'; 300]));
        assert_eq!(inventory.path(id(5)), None, "a name that was cut");
        inventory.seen(id(5), Some(id(1)), "x".repeat(200).into());
        assert_eq!(inventory.path(id(5)).unwrap().as_os_str().len(), 200);
    }

    #[test]
    fn a_loop_ends() {
        let mut inventory = rooted();
        inventory.told(&life(LifeEvent::Mkdir, 2, 3, b"a"));
        inventory.told(&life(LifeEvent::Mkdir, 3, 2, b"b"));
        assert_eq!(inventory.path(id(2)), None);
    }

    #[test]
    fn it_is_bounded() {
        let mut inventory = rooted();
        for number in 0..KNOWN_MAX as u64 + 10 {
            inventory.told(&life(LifeEvent::Mkdir, number + 2, 1, b"a"));
        }
        assert_eq!((inventory.known.len(), inventory.surplus()), (KNOWN_MAX, 11));
        for number in 0..KNOWN_MAX as u64 {
            inventory.told(&life(LifeEvent::Rmdir, number + 2, 1, b"a"));
        }
        assert!(inventory.known.len() <= GONE_MAX + 1, "{}", inventory.known.len());
    }
}
