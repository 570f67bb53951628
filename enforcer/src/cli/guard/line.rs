//! One verdict, for people and for scripts. No I/O. Names in records are escaped already.

use crate::cli::json;
use crate::guard::log::VerdictRecord;
use crate::guard::{Reason, Verdict};
use enforcer_gate::Limit;

/// The verdict as a line, its end included.
pub(super) fn line(record: &VerdictRecord, as_json: bool) -> String {
    if as_json {
        return json::line(record);
    }
    format!(
        "{}: {} {} {} -> {}, {} in use: {}; by {} ({}) in {}\n",
        record.verdict,
        record.cgroup,
        record.file,
        limit_text(record.limit),
        asked(record),
        record.usage,
        why(record),
        record.writer.comm,
        record.writer.pid,
        record.writer.cgroup,
    )
}

/// The limit that was asked for, as far as it is known.
pub(super) fn asked(record: &VerdictRecord) -> String {
    match record.asked {
        Some(limit) => limit_text(limit),
        None if record.known_reason() == Some(Reason::NoValue) => format!("\"{}\"", record.text),
        None => "?".into(),
    }
}

/// As an amount. What the kernel takes as no limit is `max`, and what is more than any node has is told to the byte.
pub(super) fn limit_text(limit: Limit) -> String {
    match limit {
        Limit::Bytes(_) if limit.held() == Limit::Max => "max".into(),
        Limit::Bytes(bytes) if bytes.get() > LARGE => format!("{}B", bytes.get()),
        Limit::Bytes(_) | Limit::Max => limit.to_string(),
    }
}

const LARGE: u64 = 1 << 50;

/// The reason with what it takes to understand it.
pub(super) fn why(record: &VerdictRecord) -> String {
    let about = match (record.known_reason(), record.lease) {
        (Some(Reason::NoLease), _) => format!(" (it must stay {} above usage)", record.margin),
        (Some(Reason::UnderLease | Reason::Leased), Some(lease)) => {
            format!(" (down to {})", limit_text(Limit::Bytes(lease)))
        }
        (Some(Reason::Unavailable | Reason::UnavailableLeased), _) => format!(" ({})", record.source),
        (Some(Reason::NoValue), _) => " (the kernel answers)".into(),
        _ => String::new(),
    };
    let is_disarmed = record.known_verdict() == Some(Verdict::Disarmed);
    let disarmed = if is_disarmed { ", let through for want of a beat" } else { "" };
    format!("{}{about}{disarmed}", record.reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::log::fixture::verdict;
    use enforcer_gate::Bytes;

    #[test]
    fn each_reason_says_what_it_takes_to_understand_it() {
        let lease = Some(Bytes::from_mib(32));
        for (record, text) in [
            (verdict(Verdict::Denied, Reason::NoLease), "no lease (it must stay 1Mi above usage)"),
            (
                VerdictRecord { lease, ..verdict(Verdict::Denied, Reason::UnderLease) },
                "under the lease (down to 32Mi)",
            ),
            (verdict(Verdict::Denied, Reason::Unavailable), "value unavailable (too long a text)"),
            (verdict(Verdict::Allowed, Reason::NoValue), "no value (the kernel answers)"),
            (verdict(Verdict::Allowed, Reason::Blind), "counters unreadable"),
            (
                verdict(Verdict::Disarmed, Reason::LeaseExpired),
                "lease expired, let through for want of a beat",
            ),
            (
                VerdictRecord { reason: "too late".into(), ..verdict(Verdict::Denied, Reason::NoLease) },
                "too late",
            ),
        ] {
            assert_eq!(why(&record), text);
        }
    }

    #[test]
    fn what_is_no_limit_says_so_and_large_ones_are_exact() {
        for (bytes, text) in [
            (u64::MAX, "max"),
            (i64::MAX as u64, "max"),
            (i64::MAX as u64 - 4095, "max"),
            (i64::MAX as u64 - 4096, "9223372036854771711B"),
            ((1 << 60) + 4096, "1152921504606851072B"),
            (1 << 50, "1Pi"),
            (128 << 20, "128Mi"),
        ] {
            assert_eq!(limit_text(Limit::Bytes(Bytes::new(bytes))), text);
        }
        assert_eq!(limit_text(Limit::Max), "max");
    }

    #[test]
    fn what_was_written_is_told_as_far_as_it_is_known() {
        assert_eq!(asked(&verdict(Verdict::Allowed, Reason::NoValue)), "\"12x\\u{1b}[2J\\n\"");
        assert_eq!(asked(&verdict(Verdict::Denied, Reason::Unavailable)), "?");
        let known = VerdictRecord { asked: Some(Limit::Max), ..verdict(Verdict::Denied, Reason::NoLease) };
        assert_eq!(asked(&known), "max");
    }
}
