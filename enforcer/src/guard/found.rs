//! The guards of other processes, as the kernel shows them.

use super::maps::{
    COUNTS, Count, CountMap, DROPS, GUARDED, GuardedMap, LEASES, LIFE, LeaseMap, LifeMap, Plain, counts,
    dropped,
};
use super::{Cover, GuardError, Terms, lease, now_ns};
use aya::maps::{Map, MapData, MapInfo};
use aya::programs::{loaded_links, loaded_programs};
use enforcer_abi::{LimitKind, Program};
use enforcer_gate::{Bytes, CgroupId};
use std::time::Duration;

/// Most bytes of a name that the kernel keeps of a program or map.
const NAME_BYTES_MAX: usize = 15;

/// A guard in the kernel, whoever loaded it.
pub struct Found {
    /// The kernel's number of its program.
    pub program: u32,
    /// The program is attached: the kernel asks it.
    pub attached: bool,
    guarded: GuardedMap,
    leases: LeaseMap,
    life: LifeMap,
    counts: CountMap,
    drops: CountMap,
}

/// A lease in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// For which cgroup.
    pub cgroup: CgroupId,
    /// For which file.
    pub file: LimitKind,
    /// The lowest limit now.
    pub minimum: Bytes,
    /// How long it still holds.
    pub left: Duration,
}

impl Found {
    /// Every guard in the kernel that is not half gone. Needs `CAP_SYS_ADMIN`.
    pub fn all() -> Result<Vec<Self>, GuardError> {
        let attached: Vec<u32> = loaded_links().flatten().map(|link| link.program_id()).collect();
        let mut found = Vec::new();
        for program in loaded_programs() {
            // One that was unloaded since it was listed is not there; that nothing can be listed is another thing.
            let program = match program {
                Ok(program) => program,
                Err(error) if refused(&error) => return Err(GuardError::List { why: error.to_string() }),
                Err(_) => continue,
            };
            if program.name() != Program::GuardWrite.name().as_bytes() {
                continue;
            }
            let maps = program.map_ids().ok().flatten().unwrap_or_default();
            let attached = attached.contains(&program.id());
            found.extend(Self::open(program.id(), attached, &maps));
        }
        Ok(found)
    }

    fn open(program: u32, attached: bool, maps: &[u32]) -> Option<Self> {
        Some(Self {
            program,
            attached,
            guarded: open(maps, GUARDED)?,
            leases: open(maps, LEASES)?,
            life: open(maps, LIFE)?,
            counts: open(maps, COUNTS)?,
            drops: open(maps, DROPS)?,
        })
    }

    /// Whether unsafe writes are refused (or told of) now.
    pub fn is_armed(&self) -> bool {
        self.attached && self.life().is_some_and(|life| life.is_armed(now_ns()))
    }

    /// How long ago its user space last showed life; `None` for one that is disarmed.
    pub fn beat_age(&self) -> Option<Duration> {
        let beat = self.life().map(|life| life.beat_ns).filter(|beat| *beat != 0)?;
        Some(Duration::from_nanos(now_ns().saturating_sub(beat)))
    }

    /// The process id of its user space, as it sees itself; 0 before it was first armed.
    pub fn pid(&self) -> u64 {
        self.life().map_or(0, |life| life.pid)
    }

    fn life(&self) -> Option<enforcer_abi::GuardLife> {
        self.life.get(&0, 0).ok().map(|Plain(life)| life)
    }

    /// What it guards.
    pub fn covers(&self) -> Result<Vec<(CgroupId, Cover)>, GuardError> {
        self.guarded
            .iter()
            .map(|entry| entry.map(|(id, Plain(guarded))| (CgroupId::new(id), Cover::from(&guarded))))
            .collect::<Result<_, _>>()
            .map_err(GuardError::map(GUARDED))
    }

    /// The leases in force.
    pub fn leases(&self) -> Result<Vec<Held>, GuardError> {
        let now = now_ns();
        let mut held = Vec::new();
        for entry in &self.leases {
            let (Plain(key), Plain(lease)) = entry.map_err(GuardError::map(LEASES))?;
            let file = u32::try_from(key.file).ok().and_then(LimitKind::from_number);
            if let (Some(file), Some(minimum)) = (file, lease.minimum_at(now)) {
                held.push(Held {
                    cgroup: CgroupId::new(key.cgroup),
                    file,
                    minimum: enforcer_gate::Pages::new(minimum).into(),
                    left: Duration::from_nanos(lease.expires_ns.saturating_sub(now)),
                });
            }
        }
        Ok(held)
    }

    /// How many writes were judged how, since it was loaded.
    pub fn counts(&self) -> Result<Vec<Count>, GuardError> {
        counts(&self.counts)
    }

    /// Verdicts that had no room in the ring buffer, since it was loaded.
    pub fn dropped(&self) -> Result<u64, GuardError> {
        dropped(&self.drops)
    }
}

/// Leases of one limit with every guard of the node, ended when this is dropped.
pub struct Granted {
    cgroup: CgroupId,
    file: LimitKind,
    with: Vec<Found>,
}

impl Drop for Granted {
    fn drop(&mut self) {
        for found in &mut self.with {
            lease::revoke(&mut found.leases, self.cgroup, self.file);
        }
    }
}

/// Lets a limit of this cgroup go as low as the terms say with every guard that is attached on this node.
///
/// That there is none is no error; a guard that can't be told is one that refuses the write.
pub fn grant_everywhere(cgroup: CgroupId, file: LimitKind, terms: Terms) -> Result<Granted, GuardError> {
    let mut granted = Granted { cgroup, file, with: Vec::new() };
    for mut found in Found::all()?.into_iter().filter(|found| found.attached) {
        lease::grant(&mut found.leases, cgroup, file, terms)?;
        granted.with.push(found);
    }
    Ok(granted)
}

fn refused(error: &(dyn std::error::Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .filter_map(|error| error.downcast_ref::<std::io::Error>())
        .any(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
}

fn open<M: TryFrom<Map>>(ids: &[u32], name: &str) -> Option<M> {
    let wanted = &name.as_bytes()[..name.len().min(NAME_BYTES_MAX)];
    let id = ids.iter().find(|id| MapInfo::from_id(**id).is_ok_and(|info| info.name() == wanted))?;
    let map = Map::from_map_data(MapData::from_id(*id).ok()?).ok()?;
    M::try_from(map).ok()
}
