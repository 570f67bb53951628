//! One write, for people and for scripts.

use crate::cgroup::shown;
use crate::cli::{failure::chain, json};
use crate::drift::{self, Cause, Drift, Expected, MendError, Outcome, Report, Way};
use crate::probe::{LimitKind, LimitValue};
use crate::utc::utc;
use enforcer_gate::CgroupId;
use nix::errno::Errno;
use serde::Serialize;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

#[derive(Serialize)]
struct Fields<'a> {
    event: &'static str,
    /// When the write ended, or began where it has not.
    time: String,
    /// `CLOCK_MONOTONIC`
    at_ns: u64,
    took_us: u64,
    cgroup: String,
    cgroup_id: u64,
    file: &'a str,
    old: String,
    /// What the file holds now; absent where the write has not returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    new: Option<String>,
    /// The text as written.
    asked: String,
    /// Why the kernel refused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    drift: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<String>,
    writer: Writer,
}

#[derive(Serialize)]
struct Writer {
    pid: u32,
    tid: u32,
    comm: String,
    cgroup: String,
}

#[derive(Serialize)]
struct Found {
    event: &'static str,
    cgroup: String,
    file: &'static str,
    new: String,
    expected: String,
    drift: &'static str,
}

#[derive(Serialize)]
struct Mended {
    event: &'static str,
    cgroup: String,
    file: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    new: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    through: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

#[derive(Serialize)]
struct Dropped {
    event: &'static str,
    dropped: u64,
}

/// Text from a container, made fit to print.
fn text(bytes: &[u8]) -> String {
    shown(OsStr::from_bytes(bytes.trim_ascii_end()))
}

fn path(path: Option<&PathBuf>, id: Option<CgroupId>) -> String {
    match (path, id) {
        (Some(path), _) => shown(path),
        (None, Some(id)) => format!("cgroup {}", id.get()),
        (None, None) => "an unknown cgroup".into(),
    }
}

const fn drift_name(drift: Drift) -> &'static str {
    match drift {
        Drift::No => "no",
        Drift::New => "new",
        Drift::Known => "known",
    }
}

fn should(expected: &Expected, value: fn(LimitValue) -> String) -> String {
    match expected {
        Expected::Value(expected) => value(*expected),
        Expected::Shares(shares) => format!("the weight of {shares} shares"),
    }
}

fn raw(value: LimitValue) -> String {
    drift::raw(value).to_string()
}

/// For people; an empty set of CPUs is no word that could be read.
fn readable(value: LimitValue) -> String {
    match drift::shown(value).to_string() {
        empty if empty.is_empty() => "none".into(),
        text => text,
    }
}

/// A report as a line, its end included. `wall_ns`: what to add to `CLOCK_MONOTONIC`.
pub(super) fn line(report: &Report, wall_ns: u64, as_json: bool) -> String {
    let Report { write, about, outcome } = report;
    let (cgroup, writers) = (
        path(about.cgroup.as_ref(), Some(write.cgroup)),
        path(about.writer_cgroup.as_ref(), write.writer.cgroup),
    );
    let (comm, asked) = (text(write.writer.comm.as_bytes()), text(write.asked.as_bytes()));
    let time = utc(write.at_ns.saturating_add(wall_ns) / 1000);
    let ended = match outcome {
        Outcome::Running => None,
        Outcome::Ended { end, cause, drift } => Some((end, *cause, *drift)),
    };
    if as_json {
        return json::line(&Fields {
            event: if ended.is_some() { "written" } else { "running" },
            time,
            at_ns: write.at_ns,
            took_us: write.at_ns.saturating_sub(write.begin_ns) / 1000,
            cgroup,
            cgroup_id: write.cgroup.get(),
            file: write.file.name(),
            old: raw(write.old),
            new: ended.map(|(end, ..)| raw(end.new)),
            asked,
            error: ended.and_then(|(end, ..)| end.result.err()).map(error),
            cause: ended.map(|(_, cause, _)| cause.name()),
            drift: ended.map(|(.., drift)| drift_name(drift)),
            expected: about.expected.as_ref().map(|expected| should(expected, raw)),
            writer: Writer { pid: write.writer.tgid, tid: write.writer.pid, comm, cgroup: writers },
        });
    }
    let by = format!("\"{asked}\" by {comm} ({}) in {writers}", write.writer.tgid);
    let what = format!("{time} {cgroup} {} {}", write.file.name(), readable(write.old));
    match ended {
        None => format!("{what} -> ?: {by}: the write has not returned\n"),
        Some((end, cause, drift)) => {
            let result = end.result.err().map_or_else(String::new, |code| format!(", {}", error(code)));
            let expected = about.expected.as_ref().map(|expected| should(expected, readable));
            let ends = end_of(cause, drift, expected);
            format!("{what} -> {}: {by}{result}: {ends}\n", readable(end.new))
        }
    }
}

/// The end of a line: what it comes down to.
fn end_of(cause: Cause, drift: Drift, expected: Option<String>) -> String {
    match (drift, expected) {
        (Drift::New, Some(expected)) => format!("{}; DRIFT, expected {expected}", cause.name()),
        (Drift::Known, Some(expected)) => format!("{}; known drift, expected {expected}", cause.name()),
        (Drift::No, _) | (_, None) => cause.name().into(),
    }
}

fn error(code: i32) -> String {
    let errno = Errno::from_raw(code);
    format!("{errno:?} ({})", errno.desc())
}

/// What differed before anybody wrote.
pub(super) fn found(
    cgroup: &Path,
    file: LimitKind,
    value: LimitValue,
    expected: &Expected,
    as_json: bool,
) -> String {
    if as_json {
        return json::line(&Found {
            event: "found",
            cgroup: shown(cgroup),
            file: file.name(),
            new: raw(value),
            expected: should(expected, raw),
            drift: drift_name(Drift::New),
        });
    }
    let (value, expected) = (readable(value), should(expected, readable));
    format!("{} {} is {value} already: DRIFT, expected {expected}\n", shown(cgroup), file.name())
}

/// What came of putting a limit back.
pub(super) fn mended(
    cgroup: &Path,
    file: LimitKind,
    done: Result<(Way, LimitValue), MendError>,
    as_json: bool,
) -> String {
    let (cgroup, file) = (shown(cgroup), file.name());
    let why = done.as_ref().err().map(|error| chain(error));
    if as_json {
        let done = done.ok();
        return json::line(&Mended {
            event: if done.is_some() { "mended" } else { "not mended" },
            cgroup,
            file,
            new: done.map(|(_, value)| raw(value)),
            through: done.map(|(way, _)| through(way)),
            why,
        });
    }
    match done {
        Ok((way, value)) => {
            format!("mended: {cgroup} {file} is {} again, through {}\n", readable(value), through(way))
        }
        Err(_) => format!("not mended: {cgroup} {file}: {}\n", why.unwrap_or_default()),
    }
}

const fn through(way: Way) -> &'static str {
    match way {
        Way::Systemd => "systemd",
        Way::File => "the file",
    }
}

/// How many records had no room.
pub(super) fn dropped(count: u64, as_json: bool) -> String {
    if as_json {
        return json::line(&Dropped { event: "dropped", dropped: count });
    }
    format!("{count} begins or ends of writes were not told: they came too fast\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drift::{About, Who, parse, parse_expected};
    use crate::probe::{LimitWrite, Task, Text, WriteEnd};

    fn report(outcome: Outcome) -> Report {
        let value = |text| parse(LimitKind::MemoryMax, text).unwrap();
        let write = LimitWrite {
            at_ns: 2_500_000,
            begin_ns: 500_000,
            cgroup: CgroupId::new(5),
            file: LimitKind::MemoryMax,
            writer: Task { pid: 8, tgid: 7, comm: Text::new(b"s\x1b[2J"), cgroup: Some(CgroupId::new(6)) },
            asked: Text::new(b"64M\n"),
            old: value("max"),
            end: None,
        };
        let about = About {
            cgroup: Some("/sys/fs/cgroup/a\n".into()),
            writer_cgroup: None,
            who: Who::Other,
            expected: Some(parse_expected("memory.max=128Mi").unwrap().1),
        };
        Report { write, about, outcome }
    }

    fn ended(result: Result<u64, i32>) -> Outcome {
        let new = parse(LimitKind::MemoryMax, "64Mi").unwrap();
        Outcome::Ended { end: WriteEnd { new, result }, cause: Cause::Unknown, drift: Drift::New }
    }

    #[test]
    fn a_line_has_it_all_and_no_raw_text() {
        let start = "1970-01-01T00:00:01Z /sys/fs/cgroup/a\\n memory.max max -> ";
        let by = "\"64M\" by s\\u{1b}[2J (7) in cgroup 6";
        let wall_ns = 1_000_000_000;
        assert_eq!(
            line(&report(ended(Ok(4))), wall_ns, false),
            format!("{start}64Mi: {by}: unknown; DRIFT, expected 128Mi\n")
        );
        assert_eq!(
            line(&report(ended(Err(libc::EINVAL))), wall_ns, false),
            format!("{start}64Mi: {by}, EINVAL (Invalid argument): unknown; DRIFT, expected 128Mi\n")
        );
        assert_eq!(
            line(&report(Outcome::Running), wall_ns, false),
            format!("{start}?: {by}: the write has not returned\n")
        );
    }

    #[test]
    fn a_script_gets_the_same() {
        let json: serde_json::Value = serde_json::from_str(&line(&report(ended(Ok(4))), 0, true)).unwrap();
        for (key, value) in [
            ("event", "written"),
            ("old", "max"),
            ("new", "67108864"),
            ("asked", "64M"),
            ("cause", "unknown"),
            ("drift", "new"),
            ("expected", "134217728"),
        ] {
            assert_eq!(json[key], value, "{key}");
        }
        assert_eq!((&json["took_us"], &json["writer"]["pid"]), (&2000.into(), &7.into()));
        let json: serde_json::Value =
            serde_json::from_str(&line(&report(Outcome::Running), 0, true)).unwrap();
        assert_eq!((&json["event"], &json["new"]), (&"running".into(), &serde_json::Value::Null));
    }
}
