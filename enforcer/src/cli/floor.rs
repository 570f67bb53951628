//! `enforcer floor`: what a cgroup can't do without.

use super::{
    Exit, Failure, certificate, json,
    options::{self, Json},
    table::{Align, table},
    target,
};
use crate::{
    cgroup::{Cgroup, CgroupError, Sampler, shown},
    inventory::Target,
    observe::{ObserveError, observe},
};
use enforcer_gate::{
    AncestorLimit, Bytes, Certificate, Floor, Headroom, Limit, Micros, PAGE_SIZE, Policy, Sample,
};
use serde::Serialize;
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

const WHAT: &str = "can't tell the floor of";
const OWN: &str = "this process's own cgroup";
const NAME_ONE: &str = "name another: enforcer floor CGROUP; find /sys/fs/cgroup -name memory.max lists those that \
                        have a limit, and /proc/PID/cgroup has that of a process";

/// Shows usage, the limits up the tree, the floor by term and the safe minimum
///
/// Reads the cgroup for --window and changes nothing. The floor is what stays charged whatever reclaim does; the
/// safe minimum is the lowest memory.max that the gate would let in now.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The cgroup, absolute or below the cgroup mount; or a container, as pod/NAMESPACE/NAME[:CONTAINER]: where its limit
    /// acts. This process's own cgroup by default, unless that is the root, which has no limit
    #[arg(value_name = "TARGET")]
    target: Option<PathBuf>,
    /// How long to look; longer sees higher peaks
    #[arg(long, value_name = "TIME", value_parser = options::window)]
    #[arg(default_value = options::default(|policy| policy.observe_window))]
    window: Micros,
    #[command(flatten)]
    state_dir: options::StateDirectory,
    #[command(flatten)]
    cri: options::Cri,
    #[command(flatten)]
    json: Json,
}

#[derive(Serialize)]
struct Report<'a> {
    cgroup: String,
    cgroup_id: u64,
    usage: Bytes,
    max: Limit,
    high: Limit,
    ancestors: &'a [AncestorLimit],
    safe_minimum: Option<Bytes>,
    floor: Option<Floor>,
    peak_floor: Option<Floor>,
    growth_per_second: Bytes,
    headroom_at_safe_minimum: Option<Headroom>,
    window: Micros,
    samples: u64,
    populated: bool,
    frozen: bool,
    frozen_below: Option<&'a str>,
    /// A killed run left its limits on it.
    unsettled: bool,
    policy: &'a Policy,
}

pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let container = options.target.as_deref().and_then(Path::to_str).filter(|text| Target::is_meant(text));
    let container =
        container.map(|text| target::find(WHAT, text, &options.cri, true)?.cgroup(WHAT)).transpose()?;
    let named = container.as_deref().or(options.target.as_deref());
    super::failure::require(WHAT, named.unwrap_or(Path::new(OWN)), &options::TO_READ)?;
    let path = named.map_or_else(|| options::own(WHAT), |path| Ok(path.into()))?;
    let cgroup = options::open(WHAT, &path, &options::TO_READ)?;
    let policy = Policy { observe_window: options.window, ..options::node_policy() };
    let policy = options::checked(policy)?;
    let fail = |error: ObserveError| match error {
        ObserveError::Cgroup(error) => Failure::cgroup(WHAT, &path, &error),
        ObserveError::Policy(_) | ObserveError::NoCertificate => {
            Failure::new(Exit::Failed, WHAT, &path, &error, "")
        }
    };
    let mut sampler = Sampler::new(&cgroup).map_err(|error| {
        if named.is_none() && matches!(error, CgroupError::NoMemoryFiles { .. }) {
            return Failure::new(Exit::Usage, WHAT, OWN, &error, NAME_ONE);
        }
        fail(error.into())
    })?;
    // The lowest target: what is refused for it carries the same floor and safe minimum as any other.
    let evidence = observe(&mut sampler, Bytes::new(PAGE_SIZE), policy).map_err(fail)?;
    let last = sampler.sample().map_err(|error| fail(error.into()))?;
    let unsettled = options::is_left(&options.state_dir.state_dir, &cgroup);
    let report = report(&cgroup, &evidence, &last, unsettled);
    super::print(&if options.json.json { json::line(&report) } else { render(&cgroup, &report) })?;
    Ok(Exit::Done)
}

fn report<'a>(cgroup: &Cgroup, evidence: &'a Certificate, last: &'a Sample, unsettled: bool) -> Report<'a> {
    let peak = evidence.peak;
    let headroom = |safe| Headroom::at(safe, evidence.growth_per_second, &evidence.policy);
    Report {
        cgroup: shown(cgroup.path()),
        cgroup_id: cgroup.id().get(),
        usage: last.current,
        max: last.max,
        high: last.high,
        ancestors: &last.ancestors,
        safe_minimum: evidence.safe_minimum,
        floor: evidence.floor,
        peak_floor: peak.map(|peak| peak.floor),
        growth_per_second: evidence.growth_per_second,
        headroom_at_safe_minimum: evidence.safe_minimum.map(headroom),
        window: peak.map_or(Micros::ZERO, |peak| peak.window),
        samples: peak.map_or(0, |peak| peak.samples),
        populated: last.populated,
        frozen: last.frozen,
        frozen_below: last.frozen_below.as_deref(),
        unsettled,
        policy: &evidence.policy,
    }
}

fn render(cgroup: &Cgroup, report: &Report<'_>) -> String {
    let mut text = format!("{}\n", shown(cgroup.absolute()));
    let mut rows = vec![[
        "limits up the tree".into(),
        "memory.current".into(),
        "memory.max".into(),
        "memory.high".into(),
    ]];
    let level = |path: String, current: Bytes, max: Limit, high: Limit| {
        [path, current.to_string(), max.to_string(), high.to_string()]
    };
    rows.push(level("this cgroup".into(), report.usage, report.max, report.high));
    for ancestor in report.ancestors {
        rows.push(level(shown(&ancestor.path), ancestor.current, ancestor.max, ancestor.high));
    }
    text.push_str(&table(2, [Align::Left, Align::Right, Align::Right, Align::Right], &rows));
    if let Some(tightest) = report.ancestors.iter().find(|ancestor| ancestor.max < report.max) {
        // Writing to a String can't fail, here and below.
        let _ = writeln!(text, "  note: the tighter limit is that of {}", shown(&tightest.path));
    }
    if let (Some(peak), Some(last)) = (&report.peak_floor, &report.floor) {
        text.push_str(&certificate::floor(peak, last));
    }
    if let (Some(headroom), Some(safe)) = (&report.headroom_at_safe_minimum, report.safe_minimum) {
        text.extend(report.peak_floor.map(|peak| certificate::sum(&peak, headroom, safe)));
    }
    let _ = writeln!(text, "  observed {}, {}", report.window, certificate::readings(report.samples));
    if report.unsettled {
        let _ = write!(text, "  {}", options::LEFT);
    }
    if !report.populated {
        let _ = writeln!(text, "  note: no process lives in it");
    }
    if report.frozen {
        let _ = writeln!(text, "  note: it is frozen, so no window can see what it needs");
    } else if let Some(path) = report.frozen_below {
        let _ = writeln!(text, "  note: {} is frozen, so no window can see what it needs", shown(path));
    }
    text
}
