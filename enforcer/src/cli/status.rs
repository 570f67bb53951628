//! `enforcer status`: how the agent of this node does.

use super::{
    Exit, Failure,
    ask::Admin,
    json, kube,
    options::Json,
    table::{Align, table},
};
use crate::{
    admin::{
        Client,
        model::{Flight, Happening, Part, PartState, Status},
    },
    cgroup::printable,
    utc::utc,
};
use std::fmt::Write as _;

const WHAT: &str = "can't tell how the agent does";

/// How the agent of this node does: its parts, what is in flight, what was lost, what happened lately
///
/// Exits with 0 where every part that is on does its work, and with 1 where one has failed or is not there yet. With --node
/// no agent is asked but the API server: what each pod of a node counts for, and what the node has.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 every part that is on does its work, 1 one has failed or is not there yet, or the answer makes no sense, \
                        64 wrong usage, 69 no agent runs, or none that answers in time or lets this user in."
)]
pub(super) struct Options {
    /// The node as the scheduler counts it: the greatest of desired, allocated and actual requests of each pod, against what
    /// the node has for pods; without a name the node of `NODE_NAME`, else this host
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    node: Option<String>,
    #[command(flatten)]
    access: kube::Access,
    #[command(flatten)]
    admin: Admin,
    #[command(flatten)]
    json: Json,
}

pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    if let Some(node) = &options.node {
        return kube::of_node(&options.access, node, options.json.json);
    }
    let status = options.admin.ask(WHAT, Client::status)?;
    super::print(&if options.json.json { json::line(&status) } else { render(&status) })?;
    Ok(if status.parts.iter().all(works) { Exit::Done } else { Exit::Failed })
}

fn works(part: &Part) -> bool {
    match part.state {
        PartState::Ready | PartState::Degraded | PartState::Off => true,
        PartState::Starting | PartState::Failed => false,
    }
}

fn render(status: &Status) -> String {
    let Status { version, pid, uptime, kernel, paused, parts, pods, containers, in_flight, recent, lost } =
        status;
    let mut text = format!(
        "enforcer {} (process {pid}), up {uptime}, Linux {}; pods: {pods}, containers: {containers}\n",
        printable(version),
        printable(kernel)
    );
    if *paused {
        text.push_str(PAUSED);
    }
    section(&mut text, "parts", &table(2, [Align::Left; 3], &parts.iter().map(part).collect::<Vec<_>>()));
    section(&mut text, "in flight", &flights(in_flight));
    let row = |(what, count): (&String, &u64)| [count.to_string(), printable(what)];
    section(
        &mut text,
        "lost",
        &table(2, [Align::Right, Align::Left], &lost.iter().map(row).collect::<Vec<_>>()),
    );
    section(&mut text, "lately", &happenings(recent, 2));
    text
}

/// Said wherever it holds.
pub(super) const PAUSED: &str = "paused: no limit is changed until enforcer resume\n";

fn section(text: &mut String, title: &str, rows: &str) {
    if !rows.is_empty() {
        // Writing to a String can't fail.
        let _ = write!(text, "{title}\n{rows}");
    }
}

fn part(part: &Part) -> [String; 3] {
    [printable(&part.name), part.state.name().into(), printable(&part.why)]
}

fn flights(flights: &[Flight]) -> String {
    let row = |flight: &Flight| {
        let Flight { target, to, from, state, since, by } = flight;
        let text = format!("{}, for {since}, by {}", printable(state), printable(by));
        [printable(target), format!("{from} -> {to}"), text]
    };
    table(2, [Align::Left; 3], &flights.iter().map(row).collect::<Vec<_>>())
}

/// What happened, a line each.
pub(super) fn happenings(happenings: &[Happening], indent: usize) -> String {
    let row = |happening: &Happening| {
        let Happening { at_us, target, kind, text } = happening;
        let text = match target.as_str() {
            "" => printable(text),
            target => format!("{}: {}", printable(target), printable(text)),
        };
        [utc(*at_us), kind.name().into(), text]
    };
    table(indent, [Align::Left; 3], &happenings.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::fixture;

    #[test]
    fn for_people() {
        let lost = [("events of the kernel".to_owned(), 17)].into();
        let status = Status { lost, paused: true, ..fixture::status() };
        assert_eq!(
            render(&status),
            "enforcer 0.1.0 (process 42), up 2h2m, Linux 6.12.1; pods: 1, containers: 1\n\
             paused: no limit is changed until enforcer resume\n\
             parts\n  \
               inventory  ready\n  \
               kernel     ready\n  \
               guard      off\n  \
               policy     ready\n\
             in flight\n  \
               pod/shop/web-1:main  256Mi -> 128Mi  trial, for 3s, by policy\n\
             lost\n  \
               17  events of the kernel\n\
             lately\n  \
               2026-11-30T00:51:50Z  oom      pod/shop/web-1:main: sh (process 77) was killed: 64Mi of 64Mi\n  \
               2026-11-30T00:52:20Z  agent    the container runtime is back\n  \
               2026-11-30T00:52:50Z  verdict  pod/shop/web-1:main: committed at 128Mi\n"
        );
    }

    #[test]
    fn what_there_is_nothing_of_is_left_out_and_nothing_hostile_is_printed() {
        let hostile = "\u{1b}[2J\n\u{202e}";
        let why = Part { name: hostile.into(), state: PartState::Failed, why: hostile.into() };
        let flight =
            Flight { target: hostile.into(), state: hostile.into(), by: hostile.into(), ..fixture::flight() };
        let mut status = Status { in_flight: vec![], recent: vec![], ..fixture::status() };
        assert!(!render(&status).contains("flight") && !render(&status).contains("lately"));
        status.parts.push(why);
        status.in_flight.push(flight);
        status.kernel = hostile.into();
        status.lost.insert(hostile.into(), 1);
        status.recent.push(Happening {
            target: hostile.into(),
            text: hostile.into(),
            ..fixture::status().recent[0].clone()
        });
        let text = render(&status);
        assert!(!text.contains(['\u{1b}', '\u{202e}']) && text.lines().count() == 13, "{text}");
    }

    #[test]
    fn a_part_that_does_not_work_shows_in_the_exit_code() {
        for (state, does) in [
            (PartState::Ready, true),
            (PartState::Degraded, true),
            (PartState::Off, true),
            (PartState::Starting, false),
            (PartState::Failed, false),
        ] {
            assert_eq!(works(&Part { name: "a".into(), state, why: String::new() }), does);
        }
    }
}
