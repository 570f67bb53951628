//! From a whole OOM, what is known of its cgroups and what was looked at: the record. No I/O, no clock.

use super::{
    assemble::Finished,
    inventory::Inventory,
    record::{
        CgroupName, LimitAt, OomRecord, Owner, RECORD_VERSION, ReclaimBefore, StatFrom, StatThen, TaskName,
        Victim, WriteBefore,
    },
    sentence,
    writes::{self, Kept, Writes},
};
use crate::{
    cgroup::shown,
    names::Place,
    probe::{OomConstraint, OomKill, OomOwner, Stat, Task},
};
use enforcer_gate::{Bytes, CgroupId, Micros};
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::PathBuf,
};

/// What was looked at after an OOM.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// By cgroup.
    pub(super) cgroups: BTreeMap<CgroupId, SeenCgroup>,
    /// See [`OomRecord::survivors`].
    pub(super) survivors: Option<u32>,
    /// See [`OomRecord::limits`].
    pub(super) limits: Vec<LimitAt>,
    /// The owner's `memory.stat` and when it was read; `None` where it was not needed or not there.
    pub(super) stat: Option<(u64, BTreeMap<String, Bytes>)>,
}

/// One cgroup as it was looked at.
#[derive(Debug, Default)]
pub(super) struct SeenCgroup {
    pub(super) path: Option<PathBuf>,
    pub(super) gone: bool,
    pub(super) pod: Option<String>,
    pub(super) container: Option<String>,
}

/// What turns the kernel's time into others.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    /// Nanoseconds since 1970 when `CLOCK_MONOTONIC` was 0.
    pub(super) wall_ns: u64,
    /// Nanoseconds of `CLOCK_BOOTTIME` when `CLOCK_MONOTONIC` was 0.
    pub(super) boot_ns: u64,
    pub(super) boot_id: String,
}

/// The cgroups that an OOM is about, the first victim's and all above it among them.
pub(super) fn concerned(finished: &Finished, inventory: &Inventory) -> BTreeSet<CgroupId> {
    let mut ids: BTreeSet<CgroupId> = lineage(finished, inventory).into_iter().collect();
    for kill in &finished.kills {
        ids.extend(kill.victim.cgroup);
        ids.extend(kill.trigger.cgroup);
        ids.extend(kill.group);
        if let OomOwner::Cgroup { id, .. } = kill.owner {
            ids.insert(id);
        }
    }
    ids
}

/// The first victim's cgroup and those above it, the root left out.
pub(super) fn lineage(finished: &Finished, inventory: &Inventory) -> Vec<CgroupId> {
    let first = finished.kills.first().and_then(|kill| kill.victim.cgroup);
    let mut lineage = first.map(|id| inventory.lineage(id)).unwrap_or_default();
    if lineage.last().is_some_and(|top| inventory.path(*top).is_some_and(|path| path.as_os_str().is_empty()))
    {
        lineage.pop();
    }
    lineage
}

/// The record.
pub(super) fn tell(
    finished: &Finished,
    inventory: &Inventory,
    writes: &Writes,
    seen: &Seen,
    clock: &Clock,
) -> OomRecord {
    let first = finished.kills.first();
    let begin_ns = finished.begin_ns();
    let ids = concerned(finished, inventory);
    let mut record = OomRecord {
        version: RECORD_VERSION,
        wall_us: clock.wall_ns.saturating_add(finished.at_ns()) / 1000,
        boot_us: clock.boot_ns.saturating_add(finished.at_ns()) / 1000,
        boot_id: clock.boot_id.clone(),
        seq: finished.seq,
        owner: first.map_or(Owner::Unknown, |kill| owner(&kill.owner)),
        constraint: first.map_or(OomConstraint::None, |kill| kill.constraint).name().to_owned(),
        group: finished.kills.iter().find_map(|kill| kill.group),
        trigger: first.map(|kill| task(&kill.trigger)),
        victims: finished.kills.iter().map(victim).collect(),
        victims_lost: finished.missing,
        survivors: seen.survivors,
        limits: seen.limits.clone(),
        stat: stat(finished, begin_ns, seen),
        reclaim: finished.end.and_then(|end| end.past).map(|past| ReclaimBefore {
            count: past.count,
            took_us: past.took,
            reclaimed: past.reclaimed,
        }),
        writes: writes.before(finished.at_ns(), &ids).iter().map(|kept| write(kept, begin_ns)).collect(),
        cgroups: ids.iter().map(|id| name(*id, begin_ns, inventory, seen)).collect(),
        says: String::new(),
    };
    record.says = sentence::says(&record);
    record
}

fn owner(owner: &OomOwner) -> Owner {
    match *owner {
        OomOwner::Cgroup { id, usage, limit, max_events } => Owner::Cgroup { id, usage, limit, max_events },
        OomOwner::Node => Owner::Node,
        OomOwner::Unknown => Owner::Unknown,
    }
}

fn task(task: &Task) -> TaskName {
    TaskName {
        tid: task.pid,
        pid: task.tgid,
        comm: shown(OsStr::from_bytes(task.comm.as_bytes())),
        cgroup: task.cgroup,
    }
}

fn victim(kill: &OomKill) -> Victim {
    Victim {
        task: task(&kill.victim),
        anon: kill.anon,
        file: kill.file,
        shmem: kill.shmem,
        oom_score_adj: kill.oom_score_adj,
        usage: kill.victim_usage,
        limit: kill.victim_limit,
        exiting: kill.exiting,
        first_of_namespace: kill.first_of_namespace,
    }
}

/// Whether the kernel's counters explain the owner's usage; they may be behind.
pub(super) fn is_explained(finished: &Finished) -> bool {
    let usage = finished.kills.first().and_then(|kill| match kill.owner {
        OomOwner::Cgroup { usage, .. } => Some(usage),
        OomOwner::Node | OomOwner::Unknown => None,
    });
    let Some((end, usage)) = finished.end.zip(usage) else { return false };
    let parts = [Stat::Anon, Stat::File, Stat::Kernel, Stat::Sock];
    let sum: Bytes = parts.into_iter().filter_map(|term| end.stat[term as usize]).sum();
    sum >= usage.scaled(3, 4)
}

fn stat(finished: &Finished, begin_ns: u64, seen: &Seen) -> Option<StatThen> {
    if let Some((read_ns, terms)) = seen.stat.clone() {
        let after_us = Micros::new(read_ns.saturating_sub(begin_ns) / 1000);
        return Some(StatThen { from: StatFrom::File, after_us, terms });
    }
    let end = finished.end.as_ref();
    let terms: BTreeMap<_, _> = end
        .into_iter()
        .flat_map(|end| Stat::ALL.iter().zip(end.stat))
        .filter_map(|(term, value)| Some((term.name().to_owned(), value?)))
        .collect();
    let from = if is_explained(finished) { StatFrom::Kernel } else { StatFrom::KernelBehind };
    (!terms.is_empty()).then_some(StatThen { from, after_us: Micros::ZERO, terms })
}

fn write(kept: &Kept, begin_ns: u64) -> WriteBefore {
    let write = &kept.write;
    // What ended only after the OOM began was going on: its kills are part of the write.
    let during = write.end.is_none() || write.at_ns > begin_ns;
    let since_ns = if during { write.begin_ns } else { write.at_ns };
    WriteBefore {
        cgroup: write.cgroup,
        file: write.file.name().to_owned(),
        writer: task(&write.writer),
        ours: kept.ours,
        asked: shown(OsStr::from_bytes(write.asked.as_bytes().trim_ascii_end())),
        old: writes::limit(write.old),
        new: write.end.map(|end| writes::limit(end.new)),
        errno: write.end.and_then(|end| end.result.err()),
        during,
        before_us: Micros::new(begin_ns.saturating_sub(since_ns) / 1000),
    }
}

fn name(id: CgroupId, begin_ns: u64, inventory: &Inventory, seen: &Seen) -> CgroupName {
    let known = inventory.get(id);
    let looked = seen.cgroups.get(&id);
    let path = looked.and_then(|looked| looked.path.clone()).or_else(|| inventory.path(id));
    let made_ns = known.and_then(|known| known.made_ns);
    CgroupName {
        id,
        place: path.as_deref().map(Place::of),
        path: path.map(shown),
        age_us: made_ns.map(|made_ns| Micros::new(begin_ns.saturating_sub(made_ns) / 1000)),
        gone: looked.map_or(known.is_some_and(|known| known.gone), |looked| looked.gone),
        pod: looked.and_then(|looked| looked.pod.clone()),
        container: looked.and_then(|looked| looked.container.clone()),
    }
}
