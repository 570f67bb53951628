//! What the guard said of a write, in the gate's units.

use super::event::{Task, bytes, cgroup, limit};
use enforcer_abi::{ASKED_LEN, GuardMode, GuardVerdict, LimitKind, Reason, Source, Text, Verdict};
use enforcer_gate::{Bytes, CgroupId, Limit};

/// The guard judged a write to a limit file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judged {
    /// When, in nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// The cgroup whose limit it is; `None` where it could not be read.
    pub cgroup: Option<CgroupId>,
    /// Which file.
    pub file: LimitKind,
    /// Who writes.
    pub writer: Task,
    /// The limit asked for; `None` where it can't be had, or where the kernel sets nothing.
    pub asked: Option<Limit>,
    /// The text as written, cut: untrusted.
    pub text: Text<ASKED_LEN>,
    /// The limit in force.
    pub limit: Limit,
    /// Usage at that moment, of memory or, for `memory.swap.max`, of swap.
    pub usage: Bytes,
    /// How far a new limit must stay above usage.
    pub margin: Bytes,
    /// The lowest limit that a lease allows; `None` without one that holds.
    pub lease: Option<Bytes>,
    /// The cgroup's mode.
    pub mode: GuardMode,
    /// What became of the write.
    pub verdict: Verdict,
    /// Why.
    pub reason: Reason,
    /// How the value came, or why it can't be had.
    pub source: Source,
    /// Number of the writer's system call.
    pub syscall: u64,
}

impl From<&GuardVerdict> for Judged {
    fn from(record: &GuardVerdict) -> Self {
        let reason = Reason::from_number(record.reason).unwrap_or(Reason::Blind);
        let has_value = !matches!(
            reason,
            Reason::NoValue | Reason::Unavailable | Reason::UnavailableLeased | Reason::Blind
        );
        Self {
            at_ns: record.header.time_ns(),
            cgroup: cgroup(record.cgroup),
            file: LimitKind::from_number(record.file).unwrap_or(LimitKind::MemoryMax),
            writer: (&record.writer).into(),
            asked: has_value.then(|| limit(record.asked)),
            text: record.text,
            limit: limit(record.limit),
            usage: bytes(record.usage),
            margin: bytes(record.margin),
            lease: (record.lease_minimum > 0).then(|| bytes(record.lease_minimum)),
            mode: GuardMode::from_number(record.mode).unwrap_or(GuardMode::Off),
            verdict: Verdict::from_number(record.verdict).unwrap_or(Verdict::Allowed),
            reason,
            source: Source::from_number(record.source).unwrap_or(Source::OtherCall),
            syscall: record.syscall,
        }
    }
}
