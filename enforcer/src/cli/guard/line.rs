//! One verdict, for people and for scripts.

use crate::cgroup::{Mount, shown};
use crate::cli::json;
use crate::guard::{Reason, Verdict};
use crate::probe::Judged;
use enforcer_gate::{Bytes, CgroupId, Limit};
use serde::Serialize;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

#[derive(Serialize)]
struct Fields<'a> {
    verdict: &'a str,
    reason: &'a str,
    /// How the value came, or why it can't be had.
    source: &'a str,
    mode: &'a str,
    cgroup: String,
    cgroup_id: u64,
    file: &'a str,
    /// As the kernel takes it; absent where it can't be had or is no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked: Option<Limit>,
    text: String,
    limit: Limit,
    usage: Bytes,
    margin: Bytes,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<Bytes>,
    writer: Writer,
    syscall: u64,
    /// `CLOCK_MONOTONIC`
    at_ns: u64,
}

#[derive(Serialize)]
struct Writer {
    pid: u32,
    tid: u32,
    comm: String,
    cgroup: String,
}

/// Text from a container, made fit to print.
fn text(bytes: &[u8]) -> String {
    shown(OsStr::from_bytes(bytes))
}

/// A cgroup's path, or its number where it has none any more.
pub(super) fn path(mount: &Mount, cgroup: Option<CgroupId>) -> String {
    let Some(cgroup) = cgroup else { return "an unknown cgroup".into() };
    match mount.path_of(cgroup) {
        Ok(Some(path)) => shown(path),
        Ok(None) | Err(_) => format!("cgroup {}", cgroup.get()),
    }
}

/// The verdict as a line, its end included.
pub(super) fn line(judged: &Judged, mount: &Mount, as_json: bool) -> String {
    let (cgroup, writers) = (path(mount, judged.cgroup), path(mount, judged.writer.cgroup));
    if as_json {
        return json::line(&Fields {
            verdict: judged.verdict.name(),
            reason: judged.reason.name(),
            source: judged.source.name(),
            mode: judged.mode.name(),
            cgroup,
            cgroup_id: judged.cgroup.map_or(0, CgroupId::get),
            file: judged.file.name(),
            asked: judged.asked,
            text: text(judged.text.as_bytes()),
            limit: judged.limit,
            usage: judged.usage,
            margin: judged.margin,
            lease: judged.lease,
            writer: Writer {
                pid: judged.writer.tgid,
                tid: judged.writer.pid,
                comm: text(judged.writer.comm.as_bytes()),
                cgroup: writers,
            },
            syscall: judged.syscall,
            at_ns: judged.at_ns,
        });
    }
    format!(
        "{}: {cgroup} {} {} -> {}, {} in use: {}; by {} ({}) in {writers}\n",
        judged.verdict.name(),
        judged.file.name(),
        judged.limit,
        asked(judged),
        judged.usage,
        why(judged),
        text(judged.writer.comm.as_bytes()),
        judged.writer.tgid,
    )
}

fn asked(judged: &Judged) -> String {
    match judged.asked {
        Some(limit) => limit.to_string(),
        None if judged.reason == Reason::NoValue => format!("\"{}\"", text(judged.text.as_bytes())),
        None => "?".into(),
    }
}

/// The reason with what it takes to understand it.
fn why(judged: &Judged) -> String {
    let reason = judged.reason.name();
    let about = match (judged.reason, judged.lease) {
        (Reason::NoLease, _) => format!(" (it must stay {} above usage)", judged.margin),
        (Reason::UnderLease | Reason::Leased, Some(lease)) => format!(" (down to {lease})"),
        (Reason::Unavailable | Reason::UnavailableLeased, _) => format!(" ({})", judged.source.name()),
        (Reason::NoValue, _) => " (the kernel answers)".into(),
        _ => String::new(),
    };
    let disarmed = if judged.verdict == Verdict::Disarmed { ", let through for want of a beat" } else { "" };
    format!("{reason}{about}{disarmed}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::{GuardMode, Source};
    use crate::probe::{LimitKind, Task, Text};

    fn judged(verdict: Verdict, reason: Reason) -> Judged {
        let writer = Task { pid: 1, tgid: 1, comm: Text::new(b"sh"), cgroup: None };
        Judged {
            at_ns: 1,
            cgroup: None,
            file: LimitKind::MemoryMax,
            writer,
            asked: None,
            text: Text::new(b"12x\x1b[2J\n"),
            limit: Limit::Max,
            usage: Bytes::from_mib(24),
            margin: Bytes::from_mib(1),
            lease: None,
            mode: GuardMode::Enforce,
            verdict,
            reason,
            source: Source::TooLong,
            syscall: 1,
        }
    }

    #[test]
    fn each_reason_says_what_it_takes_to_understand_it() {
        let lease = Some(Bytes::from_mib(32));
        for (judged, text) in [
            (judged(Verdict::Denied, Reason::NoLease), "no lease (it must stay 1Mi above usage)"),
            (
                Judged { lease, ..judged(Verdict::Denied, Reason::UnderLease) },
                "under the lease (down to 32Mi)",
            ),
            (judged(Verdict::Denied, Reason::Unavailable), "value unavailable (too long a text)"),
            (judged(Verdict::Allowed, Reason::NoValue), "no value (the kernel answers)"),
            (judged(Verdict::Allowed, Reason::Blind), "counters unreadable"),
            (
                judged(Verdict::Disarmed, Reason::LeaseExpired),
                "lease expired, let through for want of a beat",
            ),
        ] {
            assert_eq!(why(&judged), text);
        }
    }

    #[test]
    fn what_was_written_is_told_as_far_as_it_is_known() {
        assert_eq!(asked(&judged(Verdict::Allowed, Reason::NoValue)), "\"12x\\u{1b}[2J\\n\"");
        assert_eq!(asked(&judged(Verdict::Denied, Reason::Unavailable)), "?");
        let known = Judged { asked: Some(Limit::Max), ..judged(Verdict::Denied, Reason::NoLease) };
        assert_eq!(asked(&known), "max");
    }
}
