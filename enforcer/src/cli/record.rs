//! `enforcer record`: readings of a cgroup into a trace.

use super::{
    Exit, Failure, json,
    options::{self, Json},
};
use crate::{
    cgroup::{CgroupError, Sampler, shown},
    node::Facts,
    trace::{Event, Header, Kind, TRACE_VERSION, Writer},
};
use enforcer_gate::{Instant, Micros, Policy};
use serde::Serialize;
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant as Clock},
};

const WHAT: &str = "can't record";

/// Records readings of a cgroup, for enforcer replay
///
/// Changes nothing. The trace is text, one JSON object a line; it holds figures and the cgroup's path, and no name
/// of a process.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The cgroup: absolute, or below the cgroup mount
    cgroup: PathBuf,
    /// How long
    #[arg(long, value_name = "TIME", value_parser = options::span)]
    duration: Micros,
    /// The trace, which must not exist yet
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Time between two readings, 1ms at least; what comes and goes between them is not seen
    #[arg(long, value_name = "TIME", value_parser = options::interval)]
    #[arg(default_value = options::default(|policy| policy.sample_interval))]
    interval: Micros,
    #[command(flatten)]
    json: Json,
}

#[derive(Serialize)]
struct Report {
    out: String,
    samples: u64,
    dropped: u64,
    /// The cgroup was removed before the time was over.
    gone: bool,
}

pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let Options { cgroup: path, out, .. } = options;
    let mut policy = options::node_policy();
    // A replay takes readings that are further apart than the gate would read as they come.
    policy.sample_interval = options.interval.min(Policy::SAMPLE_INTERVAL_MAX);
    let policy = options::checked(policy)?;
    let cgroup = options::open(WHAT, path, &options::TO_READ)?;
    let fail = |error: &CgroupError| Failure::cgroup(WHAT, path, error);
    let mut sampler = Sampler::new(&cgroup).map_err(|error| fail(&error))?;
    let header = Header {
        trace_version: TRACE_VERSION,
        kind: Kind::Samples,
        enforcer: env!("CARGO_PKG_VERSION").into(),
        kernel: Facts::gather().release.text,
        cgroup: shown(cgroup.path()),
        cgroup_id: cgroup.id(),
        policy,
    };
    let write = |error| Failure::new(Exit::Failed, WHAT, path, &error, "name a new file where there is room");
    let mut writer = Writer::create(out, &header).map_err(write)?;
    let begun = Clock::now();
    let now = || Instant::new(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
    let (end, mut next) = (Instant::ZERO.after(options.duration), Instant::ZERO);
    let gone = loop {
        match sampler.sample() {
            Ok(sample) => writer.add(now(), Event::Sample(Box::new(sample))),
            Err(CgroupError::Gone { .. }) => break true,
            Err(error) => return Err(fail(&error)),
        }
        next = next.after(options.interval).max(now());
        if next > end {
            break false;
        }
        std::thread::sleep(Duration::from_micros(next.since(now()).get()));
    };
    let summary = writer.finish(now()).map_err(write)?;
    let report = Report { out: shown(out), samples: summary.entries, dropped: summary.dropped, gone };
    if options.json.json {
        super::print(&json::line(&report));
    } else {
        super::print(&said(&report, path));
    }
    Ok(Exit::Done)
}

fn said(report: &Report, cgroup: &Path) -> String {
    let Report { out, samples, dropped, gone } = report;
    let lost = if *dropped > 0 { format!("; {dropped} lost, the disk was too slow") } else { String::new() };
    let gone = if *gone { "; the cgroup was removed meanwhile" } else { "" };
    format!("{samples} readings of {} in {out}{lost}{gone}\n", shown(cgroup))
}
