//! `enforcer guard status`: the guards of this node, as the kernel shows them.

use crate::cgroup::Mount;
use crate::cli::{Exit, Failure, failure, json, print};
use crate::guard::log::cgroup_name;
use crate::guard::{Count, Cover, Found, GuardError, Held};
use crate::node::Need;
use enforcer_gate::{Bytes, CgroupId, Micros};
use serde::Serialize;
use std::fmt::Write as _;
use std::time::Duration;

const WHAT: &str = "can't tell what guards there are";

#[derive(Serialize)]
struct Report {
    /// At least one guard refuses, or tells of, unsafe writes.
    armed: bool,
    guards: Vec<OneGuard>,
}

#[derive(Serialize)]
struct OneGuard {
    program_id: u32,
    /// Of the process that keeps it alive, as it sees itself.
    pid: u64,
    /// The kernel asks it.
    attached: bool,
    armed: bool,
    /// Since the last sign of life; absent where it is disarmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    beat_age: Option<Micros>,
    guarded: Vec<Guarded>,
    leases: Vec<Lease>,
    counts: Vec<Counted>,
    /// Verdicts that could not be told.
    dropped: u64,
}

#[derive(Serialize)]
struct Guarded {
    cgroup: String,
    cgroup_id: u64,
    mode: &'static str,
    files: Vec<&'static str>,
    margin: Bytes,
    own: bool,
    below: bool,
}

#[derive(Serialize)]
struct Lease {
    cgroup: String,
    cgroup_id: u64,
    file: &'static str,
    minimum: Bytes,
    left: Micros,
}

#[derive(Serialize)]
struct Counted {
    verdict: &'static str,
    reason: &'static str,
    writes: u64,
}

pub(super) fn run(as_json: bool) -> Result<Exit, Failure> {
    failure::require(WHAT, "", &[Need::Root, Need::CgroupV2Memory])?;
    let mount = Mount::discover().map_err(|error| Failure::cgroup(WHAT, "", &error))?;
    let report = gather(&mount).map_err(|error| {
        let todo = "run it as root: sudo enforcer ...";
        let exit = if matches!(error, GuardError::List { .. }) { Exit::Unsupported } else { Exit::Failed };
        Failure::new(exit, WHAT, "", &failure::chain(&error), todo)
    })?;
    print(&if as_json { json::line(&report) } else { render(&report) })?;
    Ok(if report.armed { Exit::Done } else { Exit::Failed })
}

fn gather(mount: &Mount) -> Result<Report, GuardError> {
    let guards = Found::all()?.iter().map(|found| one(mount, found)).collect::<Result<Vec<_>, _>>()?;
    Ok(Report { armed: guards.iter().any(|guard| guard.armed), guards })
}

fn one(mount: &Mount, found: &Found) -> Result<OneGuard, GuardError> {
    let guarded = |(id, cover): &(CgroupId, Cover)| Guarded {
        cgroup: cgroup_name(mount, Some(*id)),
        cgroup_id: id.get(),
        mode: cover.mode.name(),
        files: cover.files.iter().map(|file| file.name()).collect(),
        margin: cover.margin,
        own: cover.own,
        below: cover.below,
    };
    let lease = |held: &Held| Lease {
        cgroup: cgroup_name(mount, Some(held.cgroup)),
        cgroup_id: held.cgroup.get(),
        file: held.file.name(),
        minimum: held.minimum,
        left: micros(held.left),
    };
    let counted = |count: &Count| Counted {
        verdict: count.verdict.name(),
        reason: count.reason.name(),
        writes: count.writes,
    };
    Ok(OneGuard {
        program_id: found.program,
        pid: found.pid(),
        attached: found.attached,
        armed: found.is_armed(),
        beat_age: found.beat_age().map(micros),
        guarded: found.covers()?.iter().map(guarded).collect(),
        leases: found.leases()?.iter().map(lease).collect(),
        counts: found.counts()?.iter().map(counted).collect(),
        dropped: found.dropped()?,
    })
}

fn micros(span: Duration) -> Micros {
    Micros::new(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
}

fn render(report: &Report) -> String {
    if report.guards.is_empty() {
        return "no guard: every limit goes through\n".into();
    }
    let mut text = String::new();
    for guard in &report.guards {
        let state = match (guard.armed, guard.attached, guard.beat_age) {
            (true, _, Some(age)) => format!("armed, last beat {age} ago"),
            (_, false, _) => "not attached: the kernel does not ask it".into(),
            (_, _, Some(age)) => format!("disarmed: no beat for {age}"),
            (_, _, None) => "disarmed".into(),
        };
        // Writing to a String can't fail, here and below.
        let _ = writeln!(text, "guard of process {} (program {}): {state}", guard.pid, guard.program_id);
        if guard.guarded.is_empty() {
            text.push_str("  covers nothing\n");
        }
        for cover in &guard.guarded {
            let below = if cover.below { "all below " } else { "" };
            let (files, margin) = (cover.files.join(", "), cover.margin);
            let _ =
                writeln!(text, "  {:<8} {below}{} ({files}), {margin} above usage", cover.mode, cover.cgroup);
        }
        for lease in &guard.leases {
            let Lease { cgroup, file, minimum, left, .. } = lease;
            let _ = writeln!(text, "  lease    {cgroup} {file} down to {minimum}, for {left} more");
        }
        for count in &guard.counts {
            let _ = writeln!(text, "  {:>8} {}: {}", count.writes, count.verdict, count.reason);
        }
        if guard.dropped > 0 {
            let _ = writeln!(text, "  {:>8} verdicts were not told: they came too fast", guard.dropped);
        }
    }
    text
}
