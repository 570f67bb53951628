//! Carries a shrink out.

use super::{
    Options,
    guided::{Guided, Recorded, cut_short},
};
use crate::{
    actuate::{SessionOptions, StateDir, check_free},
    cgroup::{Cgroup, Sampler, shown},
    cli::{
        Exit, Failure, certificate, failure, json, kube, options as common, print,
        resize::{self, Order},
        target::{self, Found},
    },
    inventory::Target,
    node::{Need, pressure_killer},
    quantity::exact,
    resize::{Ask, Via},
    shrink::{BusError, Plan, ShrinkError, refused_at_once, run as drive},
    systemd,
    trace::Summary,
};
use enforcer_gate::{Bytes, Certificate, Limit, Request, Verdict};
use serde::Serialize;
use std::{io::Write as _, path::Path};

const WHAT: &str = "can't shrink";
pub(in crate::cli) const NEEDS: [Need; 5] =
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
    /// What to know besides.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
    /// Entries of the trace that were lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_dropped: Option<u64>,
    certificate: &'a Certificate,
}

pub(in crate::cli) fn run(options: &Options) -> Result<Exit, Failure> {
    let Some(via) = options.way.via() else { return by_kubelet(options) };
    match options.target.to_str().filter(|text| Target::is_meant(text)) {
        Some(text) => of_container(options, text, via),
        None => of_cgroup(options, options.target.as_path(), &[]),
    }
}

/// By a patch of `pods/resize`.
fn by_kubelet(options: &Options) -> Result<Exit, Failure> {
    kube::carry_out(&kube::Order {
        what: WHAT,
        target: &options.target.to_string_lossy(),
        ask: Ask { memory: Some(Limit::Bytes(options.to)), ..Ask::default() },
        only_down: true,
        dry_run: options.dry_run,
        following: &options.following,
        json: options.json.json,
    })
}

/// Of a container: through its runtime, or where its limit acts.
fn of_container(options: &Options, text: &str, via: Via) -> Result<Exit, Failure> {
    let found = target::find(WHAT, text, &options.cri, via == Via::Cgroup)?;
    if let Found { node, pod, container: Some(container) } = &found
        && via == Via::Cri
    {
        let order = Order {
            what: WHAT,
            target: text,
            ask: Ask { memory: Some(Limit::Bytes(options.to.page_floor())), ..Ask::default() },
            only_down: true,
            via: Via::Cri,
            dry_run: options.dry_run,
            thresholds: &options.thresholds,
            json: options.json.json,
        };
        tell_rounding(options.json.json, options.to);
        return resize::of_container(&order, node, pod, container);
    }
    let path = found.cgroup(WHAT)?;
    let notes = [format!(
        "the container runtime does not know of it, and puts its own limit back when it next updates {text}"
    )];
    of_cgroup(options, &path, &notes)
}

/// What the kernel makes of a number of bytes.
fn tell_rounding(json: bool, to: Bytes) {
    if !json && to != to.page_floor() {
        let (asked, whole) = (to.get(), exact(to.page_floor()));
        // Where standard error is closed nobody wants to know.
        let _ = writeln!(std::io::stderr(), "{asked} bytes are rounded down to whole pages: {whole}");
    }
}

fn of_cgroup(options: &Options, path: &Path, notes: &[String]) -> Result<Exit, Failure> {
    let policy = common::checked(options.thresholds.policy(&common::node_policy()))?;
    let cgroup = common::open(WHAT, path, &NEEDS)?;
    // Where there is nothing to shrink (the root, a threaded cgroup), that is said before anything is made.
    let mut sampler = Sampler::new(&cgroup).map_err(|error| Failure::cgroup(WHAT, path, &error))?;
    // A dry run changes nothing, and makes no folder.
    let state = (!options.dry_run).then(|| StateDir::open(&options.thresholds.state_dir.state_dir));
    let state_dir = state.transpose().map_err(|error| failure::actuate(WHAT, path, &error))?;
    // Loading the kernel programs takes its time: who must not begin is told at once.
    let free = if options.dry_run { Ok(()) } else { check_free(&cgroup) };
    free.map_err(|error| failure::actuate(WHAT, path, &error))?;
    let killer = pressure_killer(&cgroup).map_err(|error| Failure::cgroup(WHAT, path, &error))?;
    let mut guided =
        Guided::start(WHAT, &cgroup, &policy, options.thresholds.trace.as_deref(), options.json.json)?;
    tell_rounding(options.json.json, options.to);
    let request =
        Request { target: options.to, dry_run: options.dry_run, pressure_killer: killer, by_other: false };
    // Limits that a killed run left are not those that were found: they are settled first, which the shrink itself does.
    let as_found = state_dir.as_ref().is_none_or(StateDir::is_empty);
    let refused =
        if as_found { refused_at_once(&request, &policy, &mut sampler, guided.observer()) } else { Ok(None) };
    let result = match refused {
        Ok(None) => {
            drop(sampler);
            let session = SessionOptions::of(&policy);
            let plan = Plan { cgroup: cgroup.clone(), request, policy, state_dir, session, cancel: None };
            guided.carry_out(async |bus, watcher| drive(plan, bus, watcher).await)
        }
        Ok(Some(refused)) => Ok(refused),
        Err(error) => Err(error),
    };
    let Recorded { trace, lost, cut } = guided.end();
    let certificate = result.map_err(|error| explain(WHAT, path, &error))?;
    // What became of the cgroup is told also where the trace is lost.
    let exit = if cut.is_some() { Exit::Failed } else { exit(&certificate.verdict) };
    let told = report(options, &cgroup, &certificate, trace, &lost, notes, exit);
    match cut {
        None => told.map(|()| exit),
        Some(error) => Err(cut_short(exit, path, &error, told)),
    }
}

fn report(
    options: &Options,
    cgroup: &Cgroup,
    certificate: &Certificate,
    trace: Option<Summary>,
    lost: &[String],
    notes: &[String],
    exit: Exit,
) -> Result<(), Failure> {
    let state_dir = &options.thresholds.state_dir.state_dir;
    let is_left = options.dry_run && common::is_left(state_dir, cgroup);
    let notes = if certificate.verdict == Verdict::Committed { notes } else { &[] };
    let text = if options.json.json {
        json::line(&Report {
            cgroup: shown(cgroup.path()),
            cgroup_id: cgroup.id().get(),
            asked: options.to,
            exit: exit.code(),
            lost,
            notes,
            unsettled: options.dry_run.then_some(is_left),
            trace_dropped: trace.map(|summary| summary.dropped),
            certificate,
        })
    } else {
        let mut text = certificate::render(cgroup.path(), certificate);
        text.push_str(if is_left { common::LEFT } else { "" });
        text.extend(lost.iter().map(|lost| format!("note: not watched: {lost}\n")));
        text.extend(kept_by_systemd(cgroup, certificate));
        text.extend(notes.iter().map(|note| format!("note: {}\n", shown(note))));
        text
    };
    print(&text)
}

/// A limit that systemd does not know of ends when it next applies what it does.
fn kept_by_systemd(cgroup: &Cgroup, certificate: &Certificate) -> Option<String> {
    let unit = systemd::unit_here(cgroup.path())?;
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

pub(in crate::cli) fn explain(what: &str, path: &Path, error: &ShrinkError) -> Failure {
    match error {
        ShrinkError::Cgroup(error) => Failure::cgroup(what, path, error),
        ShrinkError::Actuate(error) => failure::actuate(what, path, error),
        ShrinkError::Policy(_) => Failure::new(Exit::Usage, what, path, error, ""),
        ShrinkError::Bus(BusError::Probe(error)) => failure::probe(what, path, error),
        ShrinkError::Bus(BusError::Stopped) | ShrinkError::Io { .. } | ShrinkError::NoCertificate => {
            let todo = failure::of_the_process(error).unwrap_or_default();
            Failure::new(Exit::Failed, what, path, &failure::chain(error), todo)
        }
    }
}
