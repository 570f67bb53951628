//! What a person can do about an OOM, in one sentence. No I/O.

use super::record::{CgroupName, OomRecord, Owner, WriteBefore};
use crate::names::{Place, Role};
use enforcer_gate::{Bytes, CgroupId, Limit, Micros};

/// A cgroup that is younger than this was starting up.
const START_UP: Micros = Micros::from_secs(30);

/// The sentence: the cause with what to do about it, then what it took.
pub(super) fn says(record: &OomRecord) -> String {
    let parts = [Some(cause(record)), extent(record), start_up(record)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn cause(record: &OomRecord) -> String {
    if record.victims.iter().all(|victim| victim.exiting) && !record.victims.is_empty() {
        return "the process was exiting already: nothing new was killed, and there is nothing to do".into();
    }
    match record.owner {
        Owner::Node if record.constraint == "cpuset" || record.constraint == "memory_policy" => format!(
            "the memory nodes that the {} allows were full: allow more of them, or move something away",
            record.constraint.replace('_', " ")
        ),
        Owner::Node => {
            "the node ran out of memory and no cgroup's limit was hit: look for what uses more than \
                        it requests, or reserve more for the system"
                .into()
        }
        Owner::Unknown => {
            "whose limit was hit is not known here (enforcer check says why): compare the limits \
                           from the victim's cgroup up"
                .into()
        }
        Owner::Cgroup { id, usage, limit, .. } => by_cgroup(record, id, usage, limit),
    }
}

fn by_cgroup(record: &OomRecord, id: CgroupId, usage: Bytes, limit: Limit) -> String {
    let what = word(record, id);
    let is_max = |write: &&WriteBefore| write.cgroup == id && write.file == "memory.max";
    if let Some(write) = record.writes.iter().find(is_max) {
        let who = format!("{}[{}]", write.writer.comm, write.writer.pid);
        if write.during {
            return format!(
                "{who} wrote {} to memory.max of the {what} while {} were in use, and the kernel killed to make \
                 that true: reclaim first, as enforcer shrink does",
                write.asked, usage
            );
        }
        // The first limit of a new cgroup lowers nothing.
        let is_first = write.old == Limit::Max && age(record, id).is_some_and(|age| age < START_UP);
        if write.new.is_some_and(|new| new < write.old) && !is_first {
            return format!(
                "{who} lowered memory.max of the {what} from {} to {} {} before: raise it again, or lower it with \
                 enforcer shrink",
                size(write.old),
                size(write.new.unwrap_or(Limit::Max)),
                write.before_us
            );
        }
    }
    if let Some((lower, own)) = inside(record, id, limit) {
        let lag = match (own, place(record, id).map(|place| place.role)) {
            (Limit::Bytes(_), Some(Role::Pod)) => ", which lags behind it",
            (Limit::Bytes(_) | Limit::Max, _) => "",
        };
        return format!(
            "the {what} limit of {}, not the {}'s {}, was the one hit: raise the limit of the {what}{lag}",
            size(limit),
            word(record, lower),
            size(own)
        );
    }
    let most = most(record).map(|(term, share)| format!(", {share} of it {term}")).unwrap_or_default();
    format!(
        "the {what}'s own limit of {} was hit with {} in use{most}: raise it, or find what grew",
        size(limit),
        usage
    )
}

/// The lowest limit below the owner on the way to the victim, where it is higher than the owner's.
fn inside(record: &OomRecord, owner: CgroupId, limit: Limit) -> Option<(CgroupId, Limit)> {
    let victim = record.victims.first()?;
    if victim.task.cgroup == Some(owner) {
        return None;
    }
    let below = record.limits.iter().take_while(|at| at.cgroup != owner);
    let lowest = below.min_by_key(|at| at.limit).map(|at| (at.cgroup, at.limit));
    // The cgroup may be gone; the kernel told its limit with the victim.
    let (cgroup, own) = lowest.or_else(|| Some((victim.task.cgroup?, victim.limit)))?;
    (own > limit).then_some((cgroup, own))
}

/// What most of the memory was, where one kind was more than half of it.
fn most(record: &OomRecord) -> Option<(&'static str, Bytes)> {
    let terms = &record.stat.as_ref()?.terms;
    let of = |term: &str| terms.get(term).copied().unwrap_or(Bytes::ZERO);
    let Owner::Cgroup { usage, .. } = record.owner else { return None };
    let kinds = [
        ("tmpfs and shared memory", of("shmem")),
        ("memory of the processes", of("anon")),
        ("kernel memory", of("kernel")),
        ("sockets", of("sock")),
        ("file pages not yet written", of("file_dirty").saturating_add(of("file_writeback"))),
    ];
    let (term, bytes) = kinds.into_iter().max_by_key(|(_, bytes)| *bytes)?;
    (bytes.scaled(2, 1) > usage).then_some((term, bytes))
}

/// Who fell and who did not.
fn extent(record: &OomRecord) -> Option<String> {
    let first = record.victims.first()?;
    let count = record.victims.len() + record.victims_lost as usize;
    if record.group.is_some() {
        return Some(format!("memory.oom.group took all {count} processes"));
    }
    if first.exiting {
        return None;
    }
    let what = first.task.cgroup.map_or("cgroup", |id| word(record, id));
    if first.first_of_namespace == Some(true) {
        return Some(format!("the victim was the first process of the {what}, which ends with it"));
    }
    match record.survivors {
        Some(0) | None => None,
        Some(1) => Some(format!("one other process lives on in the {what}")),
        Some(others) => Some(format!("{others} other processes live on in the {what}")),
    }
}

fn start_up(record: &OomRecord) -> Option<String> {
    let id = record.victims.first()?.task.cgroup?;
    let age = age(record, id).filter(|age| *age < START_UP)?;
    Some(format!("it was {age} old"))
}

fn age(record: &OomRecord, id: CgroupId) -> Option<Micros> {
    record.cgroup(id)?.age_us
}

fn place(record: &OomRecord, id: CgroupId) -> Option<&Place> {
    record.cgroup(id).and_then(|cgroup: &CgroupName| cgroup.place.as_ref())
}

fn word(record: &OomRecord, id: CgroupId) -> &'static str {
    place(record, id).map_or("cgroup", Place::word)
}

/// `175Mi`, or `no limit`.
fn size(limit: Limit) -> String {
    match limit {
        Limit::Bytes(bytes) => bytes.to_string(),
        Limit::Max => "no limit".into(),
    }
}
