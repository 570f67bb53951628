//! `enforcer check`: what this node supports.

use super::{
    Exit, Failure, json,
    options::Json,
    table::{Align, table},
};
use crate::node::{Facts, Finding, State, judge};
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

#[derive(Serialize)]
struct Report {
    /// Nothing is missing.
    supported: bool,
    node: Vec<Finding>,
}

#[expect(clippy::unnecessary_wraps, reason = "the same shape as the other commands")]
pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let node = judge(&Facts::gather());
    let supported = node.iter().all(|finding| finding.state != State::Missing);
    let report = Report { supported, node };
    if options.json.json {
        super::print(&json::line(&report));
    } else {
        super::print(&render(&report));
    }
    Ok(if supported { Exit::Done } else { Exit::Unsupported })
}

fn render(report: &Report) -> String {
    let rows: Vec<_> = report
        .node
        .iter()
        .map(|finding| [word(finding.state).into(), finding.need.title().into(), finding.found.clone()])
        .collect();
    let mut text = table(0, [Align::Left; 3], &rows);
    for finding in report.node.iter().filter(|finding| finding.state != State::Ok) {
        // Writing to a String can't fail.
        let _ = write!(
            text,
            "\n{} {}: {}\n  lost: {}\n  do:   {}\n",
            word(finding.state),
            finding.need.title(),
            finding.found,
            finding.lost,
            finding.todo
        );
    }
    let missing = report.node.iter().filter(|finding| finding.state == State::Missing).count();
    let last = match missing {
        0 => "this node can do the job".into(),
        1 => "this node can't do the job: one thing is missing".into(),
        more => format!("this node can't do the job: {more} things are missing"),
    };
    let _ = writeln!(text, "\n{last}");
    text
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

    #[test]
    fn a_report_says_what_is_lost_and_what_to_do() {
        let finding = |need, state, words: [&str; 3]| {
            let [found, lost, todo] = words.map(String::from);
            Finding { need, state, found, lost, todo }
        };
        let node = vec![
            finding(Need::Root, State::Ok, ["user 0", "", ""]),
            finding(Need::Btf, State::Missing, ["no file", "programs", "another kernel"]),
        ];
        let text = render(&Report { supported: false, node });
        assert_eq!(
            text,
            "ok       root  user 0\n\
             MISSING  BTF   no file\n\
             \nMISSING BTF: no file\n  lost: programs\n  do:   another kernel\n\
             \nthis node can't do the job: one thing is missing\n"
        );
    }
}
