//! `enforcer check`: what this node supports.

use super::{
    Exit, Failure, failure, json,
    options::Json,
    output,
    table::{Align, table},
};
use crate::{
    cgroup::shown,
    guard::could_stand,
    node::{Facts, Finding, State, judge},
    probe::{HookStatus, Probe, ProbeError, ProbeOptions},
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

const PROGRAMS: &str = "kernel programs";
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
    programs: Programs,
    hooks: Vec<Hook>,
}

/// Whether the kernel programs could be loaded; all empty where they could.
#[derive(Serialize)]
struct Programs {
    state: State,
    why: String,
    lost: &'static str,
    #[serde(rename = "do")]
    todo: &'static str,
}

/// What the kernel tells us of one thing.
#[derive(Serialize)]
struct Hook {
    need: String,
    state: State,
    /// The hook in use.
    in_use: Option<&'static str>,
    lost: &'static str,
    /// What to do about it; empty where nothing is lost.
    #[serde(rename = "do")]
    todo: &'static str,
    /// Better ones that were passed over.
    tried: Vec<Tried>,
}

#[derive(Serialize)]
struct Tried {
    hook: &'static str,
    why: String,
}

pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let node = judge(&Facts::gather());
    output::loading(options.json.json);
    let (programs, hooks) = match Probe::load(&ProbeOptions::default()) {
        Ok(probe) => (LOADED, probe.hooks().iter().chain(&could_stand().ok()).map(hook).collect()),
        Err(error) => (refused(&node, &error), Vec::new()),
    };
    let supported = programs.state == State::Ok && node.iter().all(|finding| finding.state != State::Missing);
    let report = Report { supported, node, programs, hooks };
    super::print(&if options.json.json { json::line(&report) } else { render(&report) })?;
    Ok(if supported { Exit::Done } else { Exit::Unsupported })
}

const LOADED: Programs = Programs { state: State::Ok, why: String::new(), lost: "", todo: "" };

fn refused(node: &[Finding], error: &ProbeError) -> Programs {
    let missing = node.iter().any(|finding| finding.state == State::Missing);
    Programs {
        state: State::Missing,
        why: failure::chain(error),
        lost: "no limit is lowered without them: a shrink going wrong would be noticed too late",
        todo: if missing { "get what else is missing first" } else { ALLOW },
    }
}

fn hook(status: &HookStatus) -> Hook {
    let tried: Vec<_> =
        status.tried.iter().map(|tried| Tried { hook: tried.name, why: shown(&tried.why) }).collect();
    let todo = match status.lost {
        None => "",
        Some(_) if tried.iter().any(|tried| tried.why.contains(NOT_PERMITTED)) => ALLOW,
        Some(_) => NEWER,
    };
    Hook {
        need: status.need.to_string(),
        state: if status.lost.is_none() { State::Ok } else { State::Degraded },
        in_use: status.in_use,
        lost: status.lost.unwrap_or_default(),
        todo,
        tried,
    }
}

/// The verdict and the first thing to do, then everything that was looked at, then what each lack means.
fn render(report: &Report) -> String {
    let mut text = verdict(report);
    let node = report
        .node
        .iter()
        .map(|finding| [word(finding.state).into(), finding.need.title().into(), finding.found.clone()]);
    let loaded = if report.programs.state == State::Ok { "loaded" } else { "could not be loaded" };
    let programs = [[word(report.programs.state).into(), PROGRAMS.into(), loaded.into()]];
    let hooks = report.hooks.iter().map(|hook| {
        let in_use = hook.in_use.unwrap_or("no hook");
        [word(hook.state).into(), hook.need.clone(), in_use.into()]
    });
    text.push('\n');
    text.push_str(&table(0, [Align::Left; 3], &node.chain(programs).chain(hooks).collect::<Vec<_>>()));
    let mut of_state = |wanted| {
        for Finding { state, need, lost, todo, .. } in
            report.node.iter().filter(|found| found.state == wanted)
        {
            text.push_str(&lacking(*state, need.title(), lost, todo));
        }
    };
    of_state(State::Missing);
    of_state(State::Degraded);
    let Programs { state, why, lost, todo } = &report.programs;
    if *state != State::Ok {
        text.push_str(&lacking(*state, PROGRAMS, lost, todo));
        // Writing to a String can't fail, here and below.
        let _ = writeln!(text, "  why:  {why}");
    }
    let worse: Vec<_> = report.hooks.iter().filter(|hook| hook.state != State::Ok).collect();
    // What lacks the same is told of together.
    for alike in worse.chunk_by(|a, b| (a.lost, a.todo) == (b.lost, b.todo)) {
        let needs: Vec<_> = alike.iter().map(|hook| hook.need.as_str()).collect();
        text.push_str(&lacking(alike[0].state, &needs.join(", "), alike[0].lost, alike[0].todo));
        for Tried { hook, why } in alike.iter().flat_map(|hook| &hook.tried) {
            let _ = writeln!(text, "  why not {hook}: {why}");
        }
    }
    text
}

/// What is missing, and what to do first: the needs come in an order in which they can be met.
fn verdict(report: &Report) -> String {
    let missing = report.node.iter().filter(|finding| finding.state == State::Missing);
    let mut missing: Vec<_> = missing.map(|finding| (finding.need.title(), finding.todo.as_str())).collect();
    if report.programs.state != State::Ok {
        missing.push((PROGRAMS, report.programs.todo));
    }
    match missing.first() {
        None => "this node can do the job\n".into(),
        Some((_, todo)) => {
            let names: Vec<_> = missing.iter().map(|(name, _)| *name).collect();
            format!("this node can't do the job: it lacks {}\n  do first: {todo}\n", names.join(", "))
        }
    }
}

fn lacking(state: State, need: &str, lost: &str, todo: &str) -> String {
    format!("\n{} {need}\n  lost: {lost}\n  do:   {todo}\n", word(state))
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
    fn a_report_begins_with_the_verdict_and_ends_with_the_detail() {
        let node = vec![
            finding(Need::Root, State::Ok, ["user 0", "", ""]),
            finding(Need::Psi, State::Degraded, ["off", "the budget", "psi=1"]),
            finding(Need::Btf, State::Missing, ["no file", "programs", "another kernel"]),
        ];
        let hook = |need: &str, in_use| Hook {
            need: need.into(),
            state: State::Degraded,
            in_use,
            lost: "names",
            todo: NEWER,
            tried: vec![Tried { hook: "fentry", why: "no such function".into() }],
        };
        let hooks = vec![hook("OOM kills", Some("kprobe")), hook("reclaim", None)];
        let text = render(&Report { supported: false, node, programs: LOADED, hooks });
        assert_eq!(
            text,
            "this node can't do the job: it lacks BTF\n  do first: another kernel\n\n\
             ok        root             user 0\n\
             degraded  PSI              off\n\
             MISSING   BTF              no file\n\
             ok        kernel programs  loaded\n\
             degraded  OOM kills        kprobe\n\
             degraded  reclaim          no hook\n\
             \nMISSING BTF\n  lost: programs\n  do:   another kernel\n\
             \ndegraded PSI\n  lost: the budget\n  do:   psi=1\n\
             \ndegraded OOM kills, reclaim\n  lost: names\n  \
             do:   nothing has to be done; another kernel may have the better hook\n  \
             why not fentry: no such function\n  why not fentry: no such function\n"
        );
    }

    #[test]
    fn refused_programs_count_as_missing() {
        let error = || ProbeError::NotPermitted { what: "load".into() };
        let alone = refused(&[], &error());
        assert_eq!(alone.todo, ALLOW);
        let node = vec![finding(Need::Root, State::Missing, ["user 1", "all", "sudo"])];
        let programs = refused(&node, &error());
        let text = render(&Report { supported: false, node, programs, hooks: Vec::new() });
        assert!(
            text.starts_with(
                "this node can't do the job: it lacks root, kernel programs\n  do first: sudo\n\n"
            ),
            "{text}"
        );
        assert!(text.contains("MISSING  kernel programs  could not be loaded\n"), "{text}");
        assert!(text.contains("do:   get what else is missing first\n  why:  the kernel refuses"), "{text}");
    }

    #[test]
    fn hooks_say_what_to_do() {
        let status = |lost, why: &str| HookStatus {
            need: crate::probe::Need::OomKill,
            in_use: None,
            lost,
            tried: vec![crate::probe::Tried { name: "fentry", why: why.into() }],
        };
        for (lost, why, todo) in [
            (None, "", ""),
            (Some("all"), "no such function", NEWER),
            (Some("all"), "load: not permitted", ALLOW),
        ] {
            let fields = serde_json::to_value(hook(&status(lost, why))).expect("is JSON");
            assert_eq!(fields["do"], todo, "{fields}");
        }
    }
}
