//! What the kernel programs told, in the gate's units. Times are nanoseconds of `CLOCK_MONOTONIC`.

use super::judged::Judged;
use enforcer_abi::{
    ASKED_LEN, COMM_LEN, LifeEvent, LimitKind, NAME_LEN, OomConstraint, OomFlags, PAGES_MAX, PIDS_MAX, Phase,
    ReclaimFlags, Record, STAT_UNKNOWN, Stat, Text,
};
use enforcer_gate::{Bytes, CgroupId, Instant, Limit, Micros, Pages};

/// A task, as it was when the event happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// The thread's id in the host's namespace.
    pub pid: u32,
    /// The process's id in the host's namespace.
    pub tgid: u32,
    /// The thread's name: untrusted text.
    pub comm: Text<COMM_LEN>,
    /// Its cgroup; `None` where it could not be read.
    pub cgroup: Option<CgroupId>,
}

/// Something that happened in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A process became the victim of an OOM.
    OomKill(OomKill),
    /// Reclaim in a watched cgroup began.
    ReclaimBegin(ReclaimBegin),
    /// Reclaim in a watched cgroup ended.
    ReclaimEnd(ReclaimEnd),
    /// A limit file is or was written.
    LimitWrite(LimitWrite),
    /// A cgroup came or went.
    CgroupLife(CgroupLife),
    /// The guard judged a write.
    Judged(Judged),
    /// An OOM is over.
    OomEnd(OomEnd),
}

/// Whose limit an OOM hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OomOwner {
    /// A cgroup's.
    Cgroup {
        /// Which.
        id: CgroupId,
        /// Its usage when the OOM began.
        usage: Bytes,
        /// Its `memory.max` when the OOM began.
        limit: Limit,
        /// How often its own limit had been hit (`max` of `memory.events.local`).
        max_events: u64,
    },
    /// None's: the node was out of memory.
    Node,
    /// Not known: the hook that tells is not attached.
    Unknown,
}

/// A process became the victim of an OOM. One event a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OomKill {
    /// When it was marked.
    pub at_ns: u64,
    /// The OOM: victims with the same number fell in the same one.
    pub seq: u64,
    /// The victim's place in its OOM, from 0.
    pub index: u32,
    /// The victim.
    pub victim: Task,
    /// Whose allocation, or write to a limit file, ran out of memory.
    pub trigger: Task,
    /// Whose limit was hit.
    pub owner: OomOwner,
    /// The cgroup whose `memory.oom.group` took all its processes.
    pub group: Option<CgroupId>,
    /// The victim was exiting already; nothing new was killed.
    pub exiting: bool,
    /// Usage of the victim's own cgroup.
    pub victim_usage: Bytes,
    /// `memory.max` of the victim's own cgroup.
    pub victim_limit: Limit,
    /// The victim's anonymous memory.
    pub anon: Bytes,
    /// The victim's file pages.
    pub file: Bytes,
    /// The victim's shared memory.
    pub shmem: Bytes,
    /// The victim's `oom_score_adj`.
    pub oom_score_adj: i32,
    /// What badness was measured against; zero for a victim that was exiting.
    pub total: Bytes,
    /// What the allocation was held to.
    pub constraint: OomConstraint,
    /// The victim is the first process of a PID namespace, so all others in that end with it; `None` where it is
    /// not known, or the namespace is the host's.
    pub first_of_namespace: Option<bool>,
}

/// Reclaim on a cgroup's behalf in the second before an OOM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReclaimPast {
    /// How many ended.
    pub count: u64,
    /// How long they took in all.
    pub took: Micros,
    /// What they freed.
    pub reclaimed: Bytes,
}

/// An OOM is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OomEnd {
    /// When.
    pub at_ns: u64,
    /// Which: as in [`OomKill::seq`].
    pub seq: u64,
    /// When it began.
    pub begin_ns: u64,
    /// How many victims it had.
    pub victims: u32,
    /// The second before it; `None` where that is not counted.
    pub past: Option<ReclaimPast>,
    /// The terms of the owner's `memory.stat` when the first victim was marked, by number of the [`Stat`]; `None`
    /// where one is not known. Behind the truth by what the CPUs have not handed up yet: little where the kernel
    /// printed the OOM to its log just before, up to two seconds where it held that back.
    pub stat: [Option<Bytes>; Stat::COUNT],
}

/// Why a reclaim ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReclaimCause {
    /// A limit was crossed.
    Limit,
    /// `memory.reclaim` was written.
    Proactive,
    /// The hook does not tell.
    Unknown,
}

/// Reclaim in a watched cgroup began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReclaimBegin {
    /// When.
    pub at_ns: u64,
    /// The cgroup whose limit was crossed, or whose `memory.reclaim` was written.
    pub cgroup: CgroupId,
    /// The process that reclaims.
    pub tgid: u32,
    /// Why.
    pub cause: ReclaimCause,
}

/// Reclaim in a watched cgroup ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReclaimEnd {
    /// When.
    pub at_ns: u64,
    /// As at the beginning.
    pub cgroup: CgroupId,
    /// The process that reclaimed.
    pub tgid: u32,
    /// Why.
    pub cause: ReclaimCause,
    /// How long it took.
    pub took_ns: u64,
    /// What it freed.
    pub reclaimed: Bytes,
}

impl ReclaimEnd {
    /// How long it took.
    pub const fn took(&self) -> Micros {
        Micros::new(self.took_ns / 1000)
    }
}

/// The value of a limit file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitValue {
    /// Of a memory file.
    Memory(Limit),
    /// Of `cpu.max`.
    Cpu {
        /// CPU time in each period; `None` for `max`.
        quota: Option<Micros>,
        /// The period.
        period: Micros,
    },
    /// Of `cpu.weight`: 1 to 10,000.
    Weight(u64),
    /// Of `cpuset.cpus`: bit n is CPU n, as far as [`CPUS_MAX`](enforcer_abi::CPUS_MAX).
    Cpus(u128),
    /// Of `pids.max`; `None` for `max`.
    Count(Option<u64>),
}

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteEnd {
    /// The value now in force.
    pub new: LimitValue,
    /// Bytes taken, or the `errno`.
    pub result: Result<u64, i32>,
}

/// A limit file is (`end` is `None`) or was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitWrite {
    /// When this was told.
    pub at_ns: u64,
    /// When the write began; with the writer's pid it joins the two events of one write.
    pub begin_ns: u64,
    /// The cgroup whose limit it is.
    pub cgroup: CgroupId,
    /// Which file.
    pub file: LimitKind,
    /// Who writes.
    pub writer: Task,
    /// The string as written, cut to this length: untrusted text.
    pub asked: Text<ASKED_LEN>,
    /// The value before.
    pub old: LimitValue,
    /// How it ended.
    pub end: Option<WriteEnd>,
}

/// A cgroup (v2) came or went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CgroupLife {
    /// When.
    pub at_ns: u64,
    /// The cgroup.
    pub cgroup: CgroupId,
    /// Its parent.
    pub parent: CgroupId,
    /// Its depth; the root's is 0.
    pub level: u32,
    /// What happened.
    pub event: LifeEvent,
    /// The name of its folder, cut: untrusted text.
    pub name: Text<NAME_LEN>,
}

impl Event {
    /// When it happened.
    pub const fn at_ns(&self) -> u64 {
        match self {
            Self::OomKill(event) => event.at_ns,
            Self::ReclaimBegin(event) => event.at_ns,
            Self::ReclaimEnd(event) => event.at_ns,
            Self::LimitWrite(event) => event.at_ns,
            Self::CgroupLife(event) => event.at_ns,
            Self::Judged(event) => event.at_ns,
            Self::OomEnd(event) => event.at_ns,
        }
    }

    /// When it happened, for a gate whose clock is `CLOCK_MONOTONIC`.
    pub const fn at(&self) -> Instant {
        Instant::new(self.at_ns() / 1000)
    }

    /// Reads one entry of the ring buffer.
    pub fn decode(bytes: &[u8]) -> Result<Self, enforcer_abi::RecordError> {
        Record::parse(bytes).map(|record| Self::from(&record))
    }
}

pub(super) fn cgroup(id: u64) -> Option<CgroupId> {
    (id != 0).then(|| CgroupId::new(id))
}

pub(super) fn bytes(pages: u64) -> Bytes {
    Bytes::from(Pages::new(pages))
}

pub(super) fn limit(pages: u64) -> Limit {
    if pages >= PAGES_MAX { Limit::Max } else { Limit::Bytes(bytes(pages)) }
}

fn cause(flags: ReclaimFlags) -> ReclaimCause {
    if flags.has(ReclaimFlags::PROACTIVE_UNKNOWN) {
        ReclaimCause::Unknown
    } else if flags.has(ReclaimFlags::PROACTIVE) {
        ReclaimCause::Proactive
    } else {
        ReclaimCause::Limit
    }
}

impl From<&enforcer_abi::Task> for Task {
    fn from(task: &enforcer_abi::Task) -> Self {
        Self { pid: task.pid, tgid: task.tgid, comm: task.comm, cgroup: cgroup(task.cgroup) }
    }
}

impl From<&enforcer_abi::OomKill> for OomKill {
    fn from(kill: &enforcer_abi::OomKill) -> Self {
        let owner = if kill.flags.has(OomFlags::OWNER_UNKNOWN) {
            OomOwner::Unknown
        } else if kill.flags.has(OomFlags::GLOBAL) {
            OomOwner::Node
        } else {
            OomOwner::Cgroup {
                id: CgroupId::new(kill.owner),
                usage: bytes(kill.owner_usage),
                limit: limit(kill.owner_limit),
                max_events: kill.owner_max_events,
            }
        };
        Self {
            at_ns: kill.header.time_ns(),
            seq: kill.seq,
            index: kill.index,
            victim: (&kill.victim).into(),
            trigger: (&kill.trigger).into(),
            owner,
            group: cgroup(kill.group),
            exiting: kill.flags.has(OomFlags::EXITING),
            victim_usage: bytes(kill.victim_usage),
            victim_limit: limit(kill.victim_limit),
            anon: bytes(kill.anon),
            file: bytes(kill.file),
            shmem: bytes(kill.shmem),
            oom_score_adj: kill.oom_score_adj,
            total: bytes(kill.total_pages),
            constraint: OomConstraint::from_number(kill.constraint).unwrap_or(OomConstraint::None),
            first_of_namespace: (kill.ns_level > 0 && kill.ns_pid > 0).then_some(kill.ns_pid == 1),
        }
    }
}

impl From<&enforcer_abi::OomEnd> for OomEnd {
    fn from(end: &enforcer_abi::OomEnd) -> Self {
        let mut stat = [None; Stat::COUNT];
        for ((to, from), term) in stat.iter_mut().zip(end.stat).zip(Stat::ALL) {
            let value = if term.is_bytes() { Bytes::new(from) } else { bytes(from) };
            *to = (from != STAT_UNKNOWN).then_some(value);
        }
        Self {
            at_ns: end.header.time_ns(),
            seq: end.seq,
            begin_ns: end.begin_ns,
            victims: end.victims,
            past: (end.reclaims != STAT_UNKNOWN).then_some(ReclaimPast {
                count: end.reclaims,
                took: Micros::new(end.reclaim_ns / 1000),
                reclaimed: bytes(end.reclaimed),
            }),
            stat,
        }
    }
}

/// What `cpu.weight` says of the scheduler's shares, which have ten bits behind the point on 64-bit machines
/// (`cpu_weight_read_u64`).
fn weight(shares: u64) -> u64 {
    (((shares >> 10) * 100 + 512) / 1024).clamp(1, 10_000)
}

/// The text that was written; where the kernel hands over a number, its digits.
fn asked(file: LimitKind, asked: Text<ASKED_LEN>) -> Text<ASKED_LEN> {
    match asked.buffer().first_chunk() {
        Some(number) if file == LimitKind::CpuWeight => {
            Text::new(u64::from_ne_bytes(*number).to_string().as_bytes())
        }
        Some(_) | None => asked,
    }
}

fn limit_value(file: LimitKind, value: u64, more: u64) -> LimitValue {
    match file {
        LimitKind::MemoryMax
        | LimitKind::MemoryHigh
        | LimitKind::SwapMax
        | LimitKind::MemoryMin
        | LimitKind::MemoryLow => LimitValue::Memory(limit(value)),
        LimitKind::CpuMax => LimitValue::Cpu {
            quota: (value != u64::MAX).then(|| Micros::new(value / 1000)),
            period: Micros::new(more / 1000),
        },
        LimitKind::CpuWeight => LimitValue::Weight(weight(value)),
        LimitKind::CpusetCpus => LimitValue::Cpus(u128::from(value) | u128::from(more) << 64),
        LimitKind::PidsMax => LimitValue::Count((value <= PIDS_MAX).then_some(value)),
    }
}

impl From<&enforcer_abi::LimitWrite> for LimitWrite {
    fn from(write: &enforcer_abi::LimitWrite) -> Self {
        let file = LimitKind::from_number(write.file).unwrap_or(LimitKind::MemoryMax);
        let end = match Phase::from_number(write.phase).unwrap_or(Phase::Begin) {
            Phase::Begin => None,
            Phase::End => Some(WriteEnd {
                new: limit_value(file, write.new, write.new_more),
                result: u64::try_from(write.result)
                    .map_err(|_| i32::try_from(write.result.saturating_neg()).unwrap_or(i32::MAX)),
            }),
        };
        Self {
            at_ns: write.header.time_ns(),
            begin_ns: write.begin_ns,
            cgroup: CgroupId::new(write.cgroup),
            file,
            writer: (&write.writer).into(),
            asked: asked(file, write.asked),
            old: limit_value(file, write.old, write.old_more),
            end,
        }
    }
}

impl From<&Record> for Event {
    fn from(record: &Record) -> Self {
        match record {
            Record::OomEnd(end) => Self::OomEnd(end.into()),
            Record::OomKill(kill) => Self::OomKill(kill.into()),
            Record::ReclaimBegin(begin) => Self::ReclaimBegin(ReclaimBegin {
                at_ns: begin.header.time_ns(),
                cgroup: CgroupId::new(begin.cgroup),
                tgid: begin.tgid,
                cause: cause(begin.flags),
            }),
            Record::ReclaimEnd(end) => Self::ReclaimEnd(ReclaimEnd {
                at_ns: end.header.time_ns(),
                cgroup: CgroupId::new(end.cgroup),
                tgid: end.tgid,
                cause: cause(end.flags),
                took_ns: end.duration_ns,
                reclaimed: bytes(end.reclaimed),
            }),
            Record::LimitWrite(write) => Self::LimitWrite(write.into()),
            Record::GuardVerdict(verdict) => Self::Judged(verdict.into()),
            Record::CgroupLife(life) => Self::CgroupLife(CgroupLife {
                at_ns: life.header.time_ns(),
                cgroup: CgroupId::new(life.cgroup),
                parent: CgroupId::new(life.parent),
                level: life.level,
                event: LifeEvent::from_number(life.event).unwrap_or(LifeEvent::Release),
                name: life.name,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use enforcer_abi::{Header, Kind};

    fn write(file: LimitKind, phase: Phase, old: u64, new: u64, result: i64) -> LimitWrite {
        (&enforcer_abi::LimitWrite {
            header: Header::new(Kind::LimitWrite, 2_000),
            begin_ns: 1_000,
            cgroup: 5,
            writer: enforcer_abi::Task { pid: 2, tgid: 1, comm: Text::new(b"sh"), cgroup: 0 },
            old,
            new,
            old_more: 100_000_000,
            new_more: 50_000_000,
            result,
            file: file as u32,
            phase: phase as u32,
            asked: Text::new(b"1"),
        })
            .into()
    }

    #[test]
    fn limits_keep_max_apart_from_numbers() {
        for (pages, expected) in [
            (0, Limit::Bytes(Bytes::ZERO)),
            (1, Limit::Bytes(Bytes::new(4096))),
            (PAGES_MAX - 1, Limit::Bytes(Bytes::new((PAGES_MAX - 1) * 4096))),
            (PAGES_MAX, Limit::Max),
            (u64::MAX, Limit::Max),
        ] {
            let end = write(LimitKind::MemoryHigh, Phase::End, 0, pages, 3).end.expect("it ended");
            assert_eq!(end.new, LimitValue::Memory(expected), "{pages} pages");
        }
    }

    #[test]
    fn other_files_have_values_of_their_own() {
        for (file, old, value) in [
            (LimitKind::CpuWeight, 1024 << 10, LimitValue::Weight(100)),
            (LimitKind::CpuWeight, 604 << 10, LimitValue::Weight(59)),
            (LimitKind::CpuWeight, 0, LimitValue::Weight(1)),
            (LimitKind::CpuWeight, u64::MAX, LimitValue::Weight(10_000)),
            (LimitKind::CpusetCpus, 0b11, LimitValue::Cpus(100_000_000 << 64 | 0b11)),
            (LimitKind::PidsMax, 4_194_304, LimitValue::Count(Some(4_194_304))),
            (LimitKind::PidsMax, 4_194_305, LimitValue::Count(None)),
        ] {
            assert_eq!(write(file, Phase::Begin, old, old, 0).old, value, "{}", file.name());
        }
    }

    #[test]
    fn a_weight_was_asked_for_as_a_number() {
        for (number, digits) in [(0_u64, "0"), (59, "59"), (u64::MAX, "18446744073709551615")] {
            let text = asked(LimitKind::CpuWeight, Text::new(&number.to_ne_bytes()));
            assert_eq!(text.as_bytes(), digits.as_bytes());
        }
        assert_eq!(asked(LimitKind::PidsMax, Text::new(b"59")).as_bytes(), b"59");
    }

    #[test]
    fn a_write_has_an_end_only_when_it_ended() {
        assert_eq!(write(LimitKind::MemoryMax, Phase::Begin, 1, 1, 0).end, None);
        for (result, expected) in [(4, Ok(4)), (-22, Err(22)), (i64::MIN, Err(i32::MAX))] {
            let end = write(LimitKind::MemoryMax, Phase::End, 1, 1, result).end.expect("it ended");
            assert_eq!(end.result, expected);
        }
    }

    #[test]
    fn cpu_quota_is_told_in_microseconds() {
        let write = write(LimitKind::CpuMax, Phase::End, u64::MAX, 25_000_000, 12);
        assert_eq!(write.old, LimitValue::Cpu { quota: None, period: Micros::new(100_000) });
        let new = LimitValue::Cpu { quota: Some(Micros::new(25_000)), period: Micros::new(50_000) };
        assert_eq!(write.end.expect("it ended").new, new);
        assert_eq!(write.writer.cgroup, None, "0 is no cgroup");
    }

    #[test]
    fn the_cause_of_a_reclaim_is_known_or_said_to_be_unknown() {
        for (flags, expected) in [
            (ReclaimFlags::NONE, ReclaimCause::Limit),
            (ReclaimFlags::PROACTIVE, ReclaimCause::Proactive),
            (ReclaimFlags::PROACTIVE_UNKNOWN, ReclaimCause::Unknown),
            (ReclaimFlags::PROACTIVE_UNKNOWN.with(ReclaimFlags::PROACTIVE), ReclaimCause::Unknown),
        ] {
            assert_eq!(cause(flags), expected, "{flags:?}");
        }
    }

    #[test]
    fn what_is_no_record_is_an_error() {
        assert!(Event::decode(b"").is_err());
        assert!(Event::decode(&[0xff; 192]).is_err());
    }
}
