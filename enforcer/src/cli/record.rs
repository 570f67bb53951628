//! `enforcer record`: readings of a cgroup into a trace.

use super::{
    Exit, Failure, failure, json,
    options::{self, Json},
    stop::StopSignals,
};
use crate::{
    cgroup::{CgroupError, Sampler, shown},
    node::Release,
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
/// of a process. Ctrl-C ends it early, with a trace that is whole.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The cgroup: absolute, or below the cgroup mount
    cgroup: PathBuf,
    /// How long, from the first reading to the last; 1ms at least
    #[arg(long, value_name = "TIME", value_parser = options::duration)]
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
    /// Ctrl-C or SIGTERM came before the time was over.
    interrupted: bool,
}

/// How a recording comes to its end.
enum End {
    Over,
    Gone,
    Interrupted,
    Failed(CgroupError),
}

pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let Options { cgroup: path, out, .. } = options;
    let policy = options::checked(thresholds(&options::node_policy(), options.interval))?;
    let cgroup = options::open(WHAT, path, &options::TO_READ)?;
    let fail = |error: &CgroupError| Failure::cgroup(WHAT, path, error);
    let mut sampler = Sampler::new(&cgroup).map_err(|error| fail(&error))?;
    let header = Header {
        trace_version: TRACE_VERSION,
        kind: Kind::Samples,
        enforcer: env!("CARGO_PKG_VERSION").into(),
        kernel: Release::running().text,
        cgroup: shown(cgroup.path()),
        cgroup_id: cgroup.id(),
        policy,
    };
    let write = |error| failure::trace(WHAT, path, &error);
    // Before the writing thread starts, which takes it over.
    let stop = StopSignals::hold().map_err(|error| Failure::new(Exit::Failed, WHAT, path, &error, ""))?;
    let mut writer = Writer::create(out, &header).map_err(write)?;
    let begun = Clock::now();
    let mut due = Instant::ZERO;
    let now = || Instant::new(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
    // From the first reading on: the first and the last are so far apart.
    let mut end = None;
    let ended = loop {
        let taken = match sampler.sample() {
            Ok(sample) => {
                let taken = now();
                writer.add(taken, Event::Sample(Box::new(sample)));
                taken
            }
            Err(CgroupError::Gone { .. }) => break End::Gone,
            Err(error) => break End::Failed(error),
        };
        let end = *end.get_or_insert(taken.after(options.duration));
        if taken >= end {
            break End::Over;
        }
        due = due.after(options.interval).max(taken);
        let next = due.min(end);
        if stop.came_within(Duration::from_micros(next.since(now()).get())) {
            break End::Interrupted;
        }
    };
    // Another one ends it at once: the disk may hang.
    drop(stop);
    let summary = writer.finish(now()).map_err(write)?;
    let (gone, interrupted) = match ended {
        End::Over => (false, false),
        End::Gone => (true, false),
        End::Interrupted => (false, true),
        End::Failed(error) => return Err(fail(&error)),
    };
    let report =
        Report { out: shown(out), samples: summary.entries, dropped: summary.dropped, gone, interrupted };
    if options.json.json {
        super::print(&json::line(&report))?;
    } else {
        super::print(&said(&report, path))?;
    }
    Ok(Exit::Done)
}

/// What a replay goes by: readings further apart than the gate would read are taken as they come, and three of them
/// are the least that it judges by.
fn thresholds(node: &Policy, interval: Micros) -> Policy {
    Policy {
        sample_interval: interval.min(Policy::SAMPLE_INTERVAL_MAX),
        observe_window: node.observe_window.max(interval.scaled(2, 1)),
        ..node.clone()
    }
}

fn said(report: &Report, cgroup: &Path) -> String {
    let Report { out, samples, dropped, gone, interrupted } = report;
    let lost = if *dropped > 0 { format!("; {dropped} lost, the disk was too slow") } else { String::new() };
    let gone = if *gone { "; the cgroup was removed meanwhile" } else { "" };
    let early = if *interrupted { "; stopped before its time" } else { "" };
    let read = super::certificate::readings(*samples);
    format!("{read} of {} in {out}{lost}{gone}{early}\n", shown(cgroup))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Entry, fixture, rehearse};
    use enforcer_gate::{Bytes, Verdict};
    use std::convert::Infallible;

    #[test]
    fn readings_of_any_interval_can_be_replayed() {
        for millis in [1, 100, 500, 1_000, 5_000, 60_000, 3_600_000] {
            let interval = Micros::from_millis(millis);
            let entries = (0..10_000).map(|n: u64| {
                let event = Event::Sample(Box::new(fixture::sample(Bytes::from_mib(20))));
                // As uneven as a real recorder.
                let at_us = Instant::new(n * interval.get() + n % 3 * (interval.get() / 8));
                Ok::<_, Infallible>((n + 2, Entry { at_us, event }))
            });
            let policy = thresholds(&Policy::default(), interval);
            policy.validate().expect("holds");
            let rehearsal = rehearse(entries, Bytes::from_mib(64), policy).expect("long enough");
            assert_eq!(rehearsal.certificate.verdict, Verdict::Feasible, "{interval}");
            let read = rehearsal.certificate.peak.expect("seen").samples;
            assert_eq!(read, rehearsal.samples, "{interval}: every reading counts");
        }
    }
}
