//! What the guard says of itself, for people and for scripts. No I/O.

use super::options::Stand;
use super::posts::Post;
use crate::cgroup::{Cgroup, printable, shown};
use crate::cli::json;
use crate::guard::log::{Lost, News, Stored};
use serde::Serialize;

#[derive(Serialize)]
struct Posted {
    armed: bool,
    mode: &'static str,
    cgroups: usize,
    below: usize,
    margin: enforcer_gate::Bytes,
    files: Vec<&'static str>,
    /// Ancestors of what is guarded that are not guarded themselves.
    unguarded_above: Vec<String>,
}

#[derive(Serialize)]
struct Gone {
    gone: String,
    cgroup_id: u64,
}

#[derive(Serialize)]
struct Back {
    back: String,
    cgroup_id: u64,
}

#[derive(Serialize)]
struct Dropped {
    dropped: u64,
}

/// From here on nothing is kept.
#[derive(Serialize)]
struct Keeps {
    keeps: bool,
}

#[derive(Serialize)]
struct KeepsNothing<'a> {
    keeps_nothing: &'a str,
}

#[derive(Serialize)]
struct NotKept {
    not_kept: u64,
}

/// The first line: it stands.
pub(super) fn armed(options: &Stand, posts: &[Post], unguarded_above: Vec<String>) -> String {
    let cover = options.cover(true, false);
    let own = posts.iter().filter(|post| post.own).count();
    let below = posts.iter().filter(|post| post.below).count();
    let report = Posted {
        armed: true,
        mode: cover.mode.name(),
        cgroups: own,
        below,
        margin: cover.margin,
        files: cover.files.iter().map(|file| file.name()).collect(),
        unguarded_above,
    };
    if options.json.json {
        return json::line(&report);
    }
    let below = match report.below {
        0 => String::new(),
        1 => " and all below one more".into(),
        more => format!(" and all below {more} more"),
    };
    let cgroups = if own == 1 { "one cgroup".into() } else { format!("{own} cgroups") };
    format!(
        "armed ({}): {} of {cgroups}{below}, at least {} above usage; Ctrl-C ends it\n",
        report.mode,
        report.files.join(", "),
        report.margin,
    )
}

/// A cgroup that was made where another was is guarded.
pub(super) fn back(cgroup: &Cgroup, as_json: bool) -> String {
    let back = shown(cgroup.path());
    if as_json { json::line(&Back { back, cgroup_id: cgroup.id().get() }) } else { format!("back: {back}\n") }
}

/// A cgroup is guarded no longer.
pub(super) fn gone(cgroup: &Cgroup, as_json: bool) -> String {
    let gone = shown(cgroup.path());
    if as_json { json::line(&Gone { gone, cgroup_id: cgroup.id().get() }) } else { format!("gone: {gone}\n") }
}

/// Verdicts that had no room in the kernel's buffer; nothing where there were none.
pub(super) fn dropped(dropped: u64, as_json: bool) -> String {
    match (dropped, as_json) {
        (0, _) => String::new(),
        (dropped, true) => json::line(&Dropped { dropped }),
        (dropped, false) => format!("{dropped} verdicts were not told: they came too fast\n"),
    }
}

/// What became of the log.
pub(super) fn news(news: News, as_json: bool) -> String {
    match (news, as_json) {
        (News::Failing(why), true) => json::line(&KeepsNothing { keeps_nothing: &why }),
        (News::Failing(why), false) => {
            format!("verdicts are not kept: {}; the guard stands all the same\n", printable(&why))
        }
        (News::Keeping, true) => json::line(&Keeps { keeps: true }),
        (News::Keeping, false) => "verdicts are kept again\n".into(),
        (News::Lost(lost), true) => json::line(&Stored::Lost(lost)),
        (News::Lost(lost), false) => format!("{}\n", describe_lost(&lost)),
    }
}

/// Records that were not kept in all; nothing where there were none.
pub(super) fn not_kept(count: u64, as_json: bool) -> String {
    match (count, as_json) {
        (0, _) => String::new(),
        (not_kept, true) => json::line(&NotKept { not_kept }),
        (not_kept, false) => format!("{not_kept} records were not kept\n"),
    }
}

/// What was lost, in words.
pub(super) fn describe_lost(lost: &Lost) -> String {
    let dropped = (lost.dropped > 0).then(|| format!("{} verdicts came too fast to be told", lost.dropped));
    let unstored = (lost.unstored > 0).then(|| format!("{} records could not be kept", lost.unstored));
    dropped.into_iter().chain(unstored).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_is_said_once_and_in_whole() {
        let lost = Lost { wall_us: 1, dropped: 2, unstored: 3 };
        assert_eq!(describe_lost(&lost), "2 verdicts came too fast to be told; 3 records could not be kept");
        assert_eq!(describe_lost(&Lost { dropped: 0, ..lost }), "3 records could not be kept");
        assert_eq!((dropped(0, true), not_kept(0, false)), (String::new(), String::new()));
        assert_eq!(
            (dropped(1, true).as_str(), not_kept(4, true).as_str()),
            ("{\"dropped\":1}\n", "{\"not_kept\":4}\n")
        );
    }

    #[test]
    fn a_log_that_fails_is_told_with_its_reason() {
        let failing = || News::Failing("/v: can't write: No space left\u{1b}".into());
        assert_eq!(
            news(failing(), false),
            "verdicts are not kept: /v: can't write: No space left\\u{1b}; the guard stands all the same\n"
        );
        assert_eq!(news(News::Keeping, false), "verdicts are kept again\n");
        assert_eq!(news(News::Keeping, true), "{\"keeps\":true}\n");
        assert_eq!(news(failing(), true), "{\"keeps_nothing\":\"/v: can't write: No space left\\u001b\"}\n");
    }
}
