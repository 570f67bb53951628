//! `enforcer guard log`: what the guard told.

use super::line::{asked, limit_text, why};
use super::report::describe_lost;
use crate::cli::{
    Exit, Failure,
    records::{ShowOptions, Shown, is_below, named},
    table::Align,
};
use crate::guard::Verdict;
use crate::guard::log::{Began, STORE_DEFAULT, Stored, VerdictRecord};
use crate::utc::utc;
use clap::Args;
use std::path::PathBuf;

/// Columns of a row.
const COLUMNS: usize = 9;

const SHOWN: Shown<'_, Stored, COLUMNS> = Shown {
    what: "can't show the guard's verdicts in",
    maker: "enforcer guard without one",
    nothing: "no verdict was kept",
    head: ["TIME", "VERDICT", "CGROUP", "FILE", "LIMIT", "ASKED", "IN USE", "WRITER", "WHY"],
    // Sizes are numbers.
    align: [
        Align::Left,
        Align::Left,
        Align::Left,
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Left,
        Align::Left,
    ],
    row,
};

/// Shows what enforcer guard told, also of guards that have ended
///
/// One row for each verdict: when, what became of the write, whose limit it was, which limit stood and was asked for,
/// what was in use, who wrote, and why the guard said so. Rows between them say when a guard began and ended, and what
/// was lost. Exit code 1 where there is no store.
#[derive(Debug, Default, Args)]
pub(super) struct Options {
    /// Where the verdicts are
    #[arg(long, value_name = "DIR", default_value = STORE_DEFAULT)]
    store: PathBuf,
    #[command(flatten)]
    show: ShowOptions,
    /// Only those for this cgroup or one below it
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,
    /// Only writes that were refused, or would have been in the mode enforce
    #[arg(long)]
    denied: bool,
}

pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let from_us = options.show.since_us();
    SHOWN.run(&options.store, &options.show, |stored| wants(options, from_us, stored))
}

/// Whether a record is wanted. When a guard stood, and that something was lost, is always worth knowing.
fn wants(options: &Options, from_us: u64, stored: &Stored) -> bool {
    match stored {
        Stored::Verdict(record) => record.wall_us >= from_us && concerns(options, record),
        Stored::Began(began) => began.wall_us >= from_us,
        Stored::Lost(lost) => lost.wall_us >= from_us,
        Stored::Ended(ended) => ended.wall_us >= from_us,
    }
}

fn concerns(options: &Options, record: &VerdictRecord) -> bool {
    let is_unsafe = matches!(record.known_verdict(), Some(Verdict::Denied | Verdict::WouldDeny));
    options.cgroup.as_ref().is_none_or(|wanted| is_below(&record.cgroup, wanted))
        && (is_unsafe || !options.denied)
}

#[expect(clippy::unnecessary_wraps, reason = "other records have some that are for scripts only")]
fn row(stored: &Stored) -> Option<[String; COLUMNS]> {
    Some(match stored {
        Stored::Verdict(record) => verdict(record),
        Stored::Began(began) => note(began.wall_us, describe_began(began)),
        Stored::Lost(lost) => note(lost.wall_us, describe_lost(lost)),
        Stored::Ended(ended) => note(ended.wall_us, format!("the guard {} ended: {}", ended.pid, ended.why)),
    })
}

fn verdict(record: &VerdictRecord) -> [String; COLUMNS] {
    let cgroup = named(record.place.as_ref(), record.container.as_deref(), record.pod.as_deref());
    [
        utc(record.wall_us),
        record.verdict.clone(),
        cgroup.unwrap_or_else(|| record.cgroup.clone()),
        record.file.clone(),
        limit_text(record.limit),
        asked(record),
        record.usage.to_string(),
        format!("{}[{}]", record.writer.comm, record.writer.pid),
        why(record),
    ]
}

fn note(wall_us: u64, text: String) -> [String; COLUMNS] {
    let mut row: [String; COLUMNS] = std::array::from_fn(|_| String::new());
    (row[0], row[1], row[COLUMNS - 1]) = (utc(wall_us), "-".into(), text);
    row
}

fn describe_began(began: &Began) -> String {
    let standing = &began.standing;
    let below = standing.below.iter().map(|folder| format!("all below {folder}"));
    let mut places: Vec<String> = standing.cgroups.iter().cloned().chain(below).collect();
    if standing.unlisted > 0 {
        places.push(format!("{} more", standing.unlisted));
    }
    let (pid, mode) = (began.pid, &standing.mode);
    if places.is_empty() {
        // The agent's: what it covers changes with the pods.
        return format!("the guard {pid} began ({mode}), and covers nothing yet");
    }
    let (files, margin) = (standing.files.join(", "), standing.margin);
    format!("the guard {pid} began ({mode}): {files} of {}, at least {margin} above usage", places.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::Reason;
    use crate::guard::log::fixture::{began, verdict};
    use crate::guard::log::{Ended, Lost};

    #[test]
    fn verdicts_are_picked_by_time_place_and_outcome() {
        let denied = verdict(Verdict::Denied, Reason::NoLease);
        let stored = |record: &VerdictRecord| Stored::Verdict(Box::new(record.clone()));
        let would = verdict(Verdict::WouldDeny, Reason::NoLease);
        let leased = verdict(Verdict::Allowed, Reason::Leased);
        let newer = VerdictRecord { verdict: "postponed".into(), ..denied.clone() };
        let everything = Options::default();
        let only_denied = Options { denied: true, ..Options::default() };
        let here = Options { cgroup: Some("kubepods/pod1".into()), ..Options::default() };
        let there = Options { cgroup: Some("/sys/fs/cgroup/kubepods/pod2".into()), ..Options::default() };
        for (options, from_us, record, expected) in [
            (&everything, 0, &leased, true),
            (&everything, denied.wall_us, &denied, true),
            (&everything, denied.wall_us + 1, &denied, false),
            (&only_denied, 0, &denied, true),
            (&only_denied, 0, &would, true),
            (&only_denied, 0, &leased, false),
            (&only_denied, 0, &newer, false),
            (&here, 0, &denied, true),
            (&there, 0, &denied, false),
        ] {
            assert_eq!(wants(options, from_us, &stored(record)), expected, "{options:?} {record:?}");
        }
    }

    #[test]
    fn when_a_guard_stood_is_shown_whatever_is_asked_for() {
        let options = Options { denied: true, cgroup: Some("nobody".into()), ..Options::default() };
        for stored in [
            Stored::Began(began()),
            Stored::Lost(Lost { wall_us: 7, dropped: 1, unstored: 0 }),
            Stored::Ended(Ended { wall_us: 7, pid: 1, why: "told to stop".into() }),
        ] {
            assert!(wants(&options, 7, &stored) && !wants(&options, 8, &stored), "{stored:?}");
        }
    }

    #[test]
    fn rows_say_it_all() {
        let record = verdict(Verdict::Denied, Reason::NoLease);
        let row = row(&Stored::Verdict(Box::new(record))).expect("a row");
        assert_eq!(row[1..4], ["denied", "/sys/fs/cgroup/kubepods/pod1", "memory.max"]);
        assert_eq!(row[7..], ["sh\\u{1b}[12]", "no lease (it must stay 1Mi above usage)"]);
        let row = super::row(&Stored::Began(began())).expect("a row");
        assert_eq!(
            row[8],
            "the guard 9 began (enforce): memory.max of /sys/fs/cgroup/a, all below /sys/fs/cgroup/b, 3 more, \
             at least 1Mi above usage"
        );
        let mut empty = began();
        empty.standing.cgroups.clear();
        empty.standing.below.clear();
        empty.standing.unlisted = 0;
        let row = super::row(&Stored::Began(empty)).expect("a row");
        assert_eq!(row[8], "the guard 9 began (enforce), and covers nothing yet");
    }
}
