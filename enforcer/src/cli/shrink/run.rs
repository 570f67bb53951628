//! Carries a shrink out.

use super::{
    Options,
    display::{Display, Mode},
    observer::Watcher,
    options::session,
};
use crate::{
    actuate::{StateDir, check_free},
    cgroup::{Cgroup, Sampler, shown},
    cli::{Exit, Failure, certificate, failure, json, options as common, print, screen::Screen, stop},
    node::{Need, Release, pressure_killer},
    probe::{Probe, ProbeOptions},
    quantity::exact,
    shrink::{Bus, BusError, Plan, ShrinkError, WATCHES, now, refused_at_once, run as drive},
    systemd,
    trace::{Header, Kind, Summary, TRACE_VERSION, Writer},
};
use enforcer_gate::{Bytes, Certificate, Policy, Request, Verdict};
use serde::Serialize;
use std::{
    io::{IsTerminal as _, Write as _},
    path::Path,
};

const WHAT: &str = "can't shrink";
const NEEDS: [Need; 5] =
    [Need::Root, Need::CgroupV2Memory, Need::WritableCgroups, Need::MemoryReclaim, Need::Btf];

#[derive(Serialize)]
struct Report<'a> {
    cgroup: String,
    cgroup_id: u64,
    /// As asked; the certificate has it in whole pages.
    asked: Bytes,
    exit: u8,
    /// A killed run left its limits on it, which a dry run leaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    unsettled: Option<bool>,
    /// What the kernel programs could not watch, and what that costs.
    lost: &'a [String],
    /// Entries of the trace that were lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_dropped: Option<u64>,
    certificate: &'a Certificate,
}

pub(in crate::cli) fn run(options: &Options) -> Result<Exit, Failure> {
    let path = options.cgroup.as_path();
    let policy = common::checked(options.policy(&common::node_policy()))?;
    let cgroup = common::open(WHAT, path, &NEEDS)?;
    // Where there is nothing to shrink (the root, a threaded cgroup), that is said before anything is made.
    let mut sampler = Sampler::new(&cgroup).map_err(|error| Failure::cgroup(WHAT, path, &error))?;
    // A dry run changes nothing, and makes no folder.
    let state = (!options.dry_run).then(|| StateDir::open(&options.state_dir.state_dir));
    let state_dir = state.transpose().map_err(|error| failure::actuate(WHAT, path, &error))?;
    // Loading the kernel programs takes its time: who must not begin is told at once.
    let free = if options.dry_run { Ok(()) } else { check_free(&cgroup) };
    free.map_err(|error| failure::actuate(WHAT, path, &error))?;
    let killer = pressure_killer(&cgroup).map_err(|error| Failure::cgroup(WHAT, path, &error))?;
    let trace = options.trace.as_deref().map(|file| record(file, &cgroup, &policy)).transpose()?;
    if !options.json.json && options.to != options.to.page_floor() {
        let (asked, whole) = (options.to.get(), exact(options.to.page_floor()));
        // Where standard error is closed nobody wants to know.
        let _ = writeln!(std::io::stderr(), "{asked} bytes are rounded down to whole pages: {whole}");
    }
    let mode = match (options.json.json, std::io::stderr().is_terminal()) {
        (true, _) => Mode::Off,
        (false, true) => Mode::Terminal,
        (false, false) => Mode::Lines,
    };
    let note = |lines| format!("{lines} lines of progress left out\n");
    let screen = Screen::start(std::io::stderr(), note)
        .map_err(|error| Failure::new(Exit::Failed, WHAT, path, &error, ""))?;
    let mut watcher = Watcher { display: Display::new(mode), screen, trace };
    let request = Request { target: options.to, dry_run: options.dry_run, pressure_killer: killer };
    // Limits that a killed run left are not those that were found: they are settled first, which the shrink itself does.
    let as_found = state_dir.as_ref().is_none_or(StateDir::is_empty);
    let refused =
        if as_found { refused_at_once(&request, &policy, &mut sampler, &mut watcher) } else { Ok(None) };
    let mut lost = Vec::new();
    let result = match refused {
        Ok(None) => {
            drop(sampler);
            let session = session(&policy);
            let plan = Plan { cgroup: cgroup.clone(), request, policy, state_dir, session };
            carry_out(plan, &mut watcher, &mut lost)
        }
        Ok(Some(refused)) => Ok(refused),
        Err(error) => Err(error),
    };
    // The limits are settled.
    stop::end_at_once();
    // Progress that is lost is no reason to fail.
    let _ = watcher.screen.end(watcher.display.end(), None);
    // The trace is whole also where the shrink could not be carried through.
    let summary = watcher.trace.map(|trace| trace.finish(now())).transpose();
    let certificate = result.map_err(|error| explain(path, &error))?;
    // What became of the cgroup is told also where the trace is lost.
    let (summary, cut) = match summary {
        Ok(summary) => (summary, None),
        Err(error) => (None, Some(error)),
    };
    let exit = if cut.is_some() { Exit::Failed } else { exit(&certificate.verdict) };
    let told = report(options, &cgroup, &certificate, summary, &lost, exit);
    match cut {
        None => told.map(|()| exit),
        Some(error) => {
            let todo = failure::of_the_process(&error).unwrap_or_else(|| {
                "the shrink itself ended as said; name a new file where there is room".into()
            });
            let mut failure = Failure::new(exit, "can't record the shrink of", path, &error, todo);
            failure.reasons.extend(told.err().into_iter().flat_map(|also| also.reasons));
            Err(failure)
        }
    }
}

fn carry_out(plan: Plan, watcher: &mut Watcher, lost: &mut Vec<String>) -> Result<Certificate, ShrinkError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| ShrinkError::Io { what: "can't start the event loop", source })?;
    if let Some(text) = watcher.display.loading() {
        watcher.screen.show(text);
    }
    let result = runtime.block_on(async {
        let probe = Probe::load(&ProbeOptions::only(WATCHES)).map_err(BusError::from)?;
        let unseen = probe.hooks().iter().filter(|hook| hook.in_use.is_none());
        lost.extend(unseen.filter_map(|hook| Some(format!("{}: {}", hook.need, hook.lost?))));
        let (bus, _task) = Bus::start(probe);
        drive(plan, &bus, watcher).await
    });
    // Where it was stopped while it waited for others, it need not wait for them in order to end.
    runtime.shutdown_background();
    result
}

fn record(file: &Path, cgroup: &Cgroup, policy: &Policy) -> Result<Writer, Failure> {
    let header = Header {
        trace_version: TRACE_VERSION,
        kind: Kind::Shrink,
        enforcer: env!("CARGO_PKG_VERSION").into(),
        kernel: Release::running().text,
        cgroup: shown(cgroup.path()),
        cgroup_id: cgroup.id(),
        policy: policy.clone(),
    };
    Writer::create(file, &header).map_err(|error| failure::trace("can't record to", file, &error))
}

fn report(
    options: &Options,
    cgroup: &Cgroup,
    certificate: &Certificate,
    trace: Option<Summary>,
    lost: &[String],
    exit: Exit,
) -> Result<(), Failure> {
    let is_left = options.dry_run && common::is_left(&options.state_dir.state_dir, cgroup);
    let text = if options.json.json {
        json::line(&Report {
            cgroup: shown(cgroup.path()),
            cgroup_id: cgroup.id().get(),
            asked: options.to,
            exit: exit.code(),
            lost,
            unsettled: options.dry_run.then_some(is_left),
            trace_dropped: trace.map(|summary| summary.dropped),
            certificate,
        })
    } else {
        let mut text = certificate::render(cgroup.path(), certificate);
        text.push_str(if is_left { common::LEFT } else { "" });
        text.extend(lost.iter().map(|lost| format!("note: not watched: {lost}\n")));
        text.extend(kept_by_systemd(cgroup, certificate));
        text
    };
    print(&text)
}

/// A limit that systemd does not know of ends when it next applies what it does.
fn kept_by_systemd(cgroup: &Cgroup, certificate: &Certificate) -> Option<String> {
    let unit = systemd::unit_of(cgroup.path()).filter(|_| systemd::runs())?;
    let is_new = certificate.verdict == Verdict::Committed;
    is_new.then(|| {
        let (unit, bytes) = (shown(unit), certificate.target.get());
        format!(
            "note: systemd writes its own MemoryMax of {unit} again when it next applies it; to keep this one: \
             systemctl set-property --runtime {unit} MemoryMax={bytes}\n"
        )
    })
}

fn exit(verdict: &Verdict) -> Exit {
    match verdict {
        Verdict::Committed | Verdict::Feasible => Exit::Done,
        Verdict::Refused(_) | Verdict::RolledBack(_) => Exit::Refused,
        Verdict::Failed(_) => Exit::Failed,
    }
}

fn explain(path: &Path, error: &ShrinkError) -> Failure {
    match error {
        ShrinkError::Cgroup(error) => Failure::cgroup(WHAT, path, error),
        ShrinkError::Actuate(error) => failure::actuate(WHAT, path, error),
        ShrinkError::Policy(_) => Failure::new(Exit::Usage, WHAT, path, error, ""),
        ShrinkError::Bus(BusError::Probe(error)) => failure::probe(WHAT, path, error),
        ShrinkError::Bus(BusError::Stopped) | ShrinkError::Io { .. } | ShrinkError::NoCertificate => {
            let todo = failure::of_the_process(error).unwrap_or_default();
            Failure::new(Exit::Failed, WHAT, path, &failure::chain(error), todo)
        }
    }
}
