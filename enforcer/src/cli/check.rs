//! `enforcer check`: what this node supports.

use super::{
    Exit, Failure, failure, json,
    options::Json,
    table::{Align, table},
};
use crate::{
    cgroup::shown,
    node::{Facts, Finding, State, judge},
    probe::{self, HookStatus, Probe, ProbeOptions},
};
use serde::Serialize;
use std::fmt::Write as _;

/// Says what this node supports, what is lost without the rest, and what to do
///
/// Looks at the kernel, the rights of this process, the cgroup file systems and the kernel programs' hooks.
/// Changes nothing. Exit code 69 where something is missing without which no limit can be changed.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    json: Json,
}

/// `EPERM` in words.
const NOT_PERMITTED: &str = "not permitted";
const ALLOW: &str = "allow programs of these kinds: look for kernel lockdown, a container profile, a sandbox or a \
                     hypervisor's kernel that refuses them";
const NEWER: &str = "nothing has to be done; another kernel may have the better hook";

#[derive(Serialize)]
struct Report {
    /// Nothing is missing.
    supported: bool,
    node: Vec<Finding>,
    /// Why no kernel program could be loaded; empty where they were.
    programs: String,
    hooks: Vec<Hook>,
}

/// What the kernel tells us of one thing.
#[derive(Serialize)]
struct Hook {
    need: String,
    state: State,
    /// The hook in use.
    in_use: Option<&'static str>,
    lost: &'static str,
    /// Better ones that were passed over.
    tried: Vec<Tried>,
}

#[derive(Serialize)]
struct Tried {
    hook: &'static str,
    why: String,
}

#[expect(clippy::unnecessary_wraps, reason = "the same shape as the other commands")]
pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let node = judge(&Facts::gather());
    let (programs, hooks) = match Probe::load(&ProbeOptions::default()) {
        Ok(probe) => (String::new(), probe.hooks().iter().map(hook).collect()),
        Err(error) => (failure::chain(&error), Vec::new()),
    };
    let supported = programs.is_empty() && node.iter().all(|finding| finding.state != State::Missing);
    let report = Report { supported, node, programs, hooks };
    super::print(&if options.json.json { json::line(&report) } else { render(&report) });
    Ok(if supported { Exit::Done } else { Exit::Unsupported })
}

fn hook(status: &HookStatus) -> Hook {
    let tried = |tried: &probe::Tried| Tried { hook: tried.name, why: shown(&tried.why) };
    Hook {
        need: status.need.to_string(),
        state: if status.lost.is_none() { State::Ok } else { State::Degraded },
        in_use: status.in_use,
        lost: status.lost.unwrap_or_default(),
        tried: status.tried.iter().map(tried).collect(),
    }
}

fn render(report: &Report) -> String {
    let node = report
        .node
        .iter()
        .map(|finding| [word(finding.state).into(), finding.need.title().into(), finding.found.clone()]);
    let hooks = report.hooks.iter().map(|hook| {
        let in_use = hook.in_use.unwrap_or("no hook");
        [word(hook.state).into(), hook.need.clone(), in_use.into()]
    });
    let mut text = table(0, [Align::Left; 3], &node.chain(hooks).collect::<Vec<_>>());
    for finding in report.node.iter().filter(|finding| finding.state != State::Ok) {
        let Finding { state, need, found, lost, todo } = finding;
        text.push_str(&lacking(*state, need.title(), found, lost, todo));
    }
    if !report.programs.is_empty() {
        let lost = "no limit is lowered without them: a shrink going wrong would be noticed too late";
        let todo = "see above for what is missing, and the message for what refused them";
        text.push_str(&lacking(State::Missing, "kernel programs", &report.programs, lost, todo));
    }
    for hook in report.hooks.iter().filter(|hook| hook.state != State::Ok) {
        let found = hook.in_use.map_or("no hook".into(), |name| format!("{name} in use"));
        let refused = hook.tried.iter().any(|tried| tried.why.contains(NOT_PERMITTED));
        text.push_str(&lacking(
            hook.state,
            &hook.need,
            &found,
            hook.lost,
            if refused { ALLOW } else { NEWER },
        ));
        for Tried { hook, why } in &hook.tried {
            // Writing to a String can't fail.
            let _ = writeln!(text, "  why not {hook}: {why}");
        }
    }
    let missing = report.node.iter().filter(|finding| finding.state == State::Missing).count()
        + usize::from(!report.programs.is_empty());
    text + &match missing {
        0 => "\nthis node can do the job\n".into(),
        1 => "\nthis node can't do the job: one thing is missing\n".into(),
        more => format!("\nthis node can't do the job: {more} things are missing\n"),
    }
}

fn lacking(state: State, need: &str, found: &str, lost: &str, todo: &str) -> String {
    format!("\n{} {need}: {found}\n  lost: {lost}\n  do:   {todo}\n", word(state))
}

const fn word(state: State) -> &'static str {
    match state {
        State::Ok => "ok",
        State::Degraded => "degraded",
        State::Missing => "MISSING",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Need;

    fn finding(need: Need, state: State, words: [&str; 3]) -> Finding {
        let [found, lost, todo] = words.map(String::from);
        Finding { need, state, found, lost, todo }
    }

    #[test]
    fn a_report_says_what_is_lost_and_what_to_do() {
        let node = vec![
            finding(Need::Root, State::Ok, ["user 0", "", ""]),
            finding(Need::Btf, State::Missing, ["no file", "programs", "another kernel"]),
        ];
        let tried = vec![Tried { hook: "fentry", why: "no such function".into() }];
        let hooks = vec![Hook {
            need: "OOM kills".into(),
            state: State::Degraded,
            in_use: Some("kprobe"),
            lost: "names",
            tried,
        }];
        let text = render(&Report { supported: false, node, programs: String::new(), hooks });
        assert_eq!(
            text,
            "ok        root       user 0\n\
             MISSING   BTF        no file\n\
             degraded  OOM kills  kprobe\n\
             \nMISSING BTF: no file\n  lost: programs\n  do:   another kernel\n\
             \ndegraded OOM kills: kprobe in use\n  lost: names\n  \
             do:   nothing has to be done; another kernel may have the better hook\n  \
             why not fentry: no such function\n\
             \nthis node can't do the job: one thing is missing\n"
        );
    }

    #[test]
    fn refused_programs_count_as_missing() {
        let report = Report {
            supported: false,
            node: Vec::new(),
            programs: "not permitted".into(),
            hooks: Vec::new(),
        };
        let text = render(&report);
        assert!(text.starts_with("\nMISSING kernel programs: not permitted\n"), "{text}");
        assert!(text.ends_with("one thing is missing\n"), "{text}");
    }
}
