//! The head that all records share, and the way from bytes to a record.

use crate::guard::GuardMode;
use crate::judge::{GuardVerdict, Reason, Source, Verdict};
use crate::named::numbered;
use crate::records::{
    CgroupLife, LifeEvent, LimitKind, LimitWrite, OomConstraint, OomEnd, OomKill, Phase, ReclaimBegin,
    ReclaimEnd,
};

numbered! {
    /// What a record tells.
    pub enum Kind: u32 {
        /// A process became the victim of an OOM: [`OomKill`].
        OomKill = 1, "oom_kill";
        /// Reclaim in a watched cgroup began: [`ReclaimBegin`].
        ReclaimBegin = 2, "reclaim_begin";
        /// Reclaim in a watched cgroup ended: [`ReclaimEnd`].
        ReclaimEnd = 3, "reclaim_end";
        /// A limit file is or was written: [`LimitWrite`].
        LimitWrite = 4, "limit_write";
        /// A cgroup came or went: [`CgroupLife`].
        CgroupLife = 5, "cgroup_life";
        /// The guard judged a write to a limit file: [`GuardVerdict`].
        GuardVerdict = 6, "guard_verdict";
        /// An OOM is over: [`OomEnd`].
        OomEnd = 7, "oom_end";
    }
}

impl Kind {
    /// Bytes of this kind's record.
    pub const fn size(self) -> usize {
        match self {
            Self::OomKill => size_of::<OomKill>(),
            Self::ReclaimBegin => size_of::<ReclaimBegin>(),
            Self::ReclaimEnd => size_of::<ReclaimEnd>(),
            Self::LimitWrite => size_of::<LimitWrite>(),
            Self::CgroupLife => size_of::<CgroupLife>(),
            Self::GuardVerdict => size_of::<GuardVerdict>(),
            Self::OomEnd => size_of::<OomEnd>(),
        }
    }
}

/// The head of every record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Header {
    kind: u32,
    size: u32,
    time_ns: u64,
}

impl Header {
    /// The head of a record of `kind` that happened at `time_ns`.
    pub const fn new(kind: Kind, time_ns: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "records are a few hundred bytes")]
        let size = kind.size() as u32;
        Self { kind: kind as u32, size, time_ns }
    }

    /// When it happened: nanoseconds of `CLOCK_MONOTONIC` (`bpf_ktime_get_ns`).
    pub const fn time_ns(&self) -> u64 {
        self.time_ns
    }
}

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// See [`Kind::OomKill`].
    OomKill(OomKill),
    /// See [`Kind::ReclaimBegin`].
    ReclaimBegin(ReclaimBegin),
    /// See [`Kind::ReclaimEnd`].
    ReclaimEnd(ReclaimEnd),
    /// See [`Kind::LimitWrite`].
    LimitWrite(LimitWrite),
    /// See [`Kind::CgroupLife`].
    CgroupLife(CgroupLife),
    /// See [`Kind::GuardVerdict`].
    GuardVerdict(GuardVerdict),
    /// See [`Kind::OomEnd`].
    OomEnd(OomEnd),
}

/// Why bytes are not a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordError {
    /// Fewer bytes than a head has.
    Short {
        /// How many there are.
        len: usize,
    },
    /// No kind has this number.
    UnknownKind {
        /// The number.
        kind: u32,
    },
    /// The length is not that of the kind.
    Size {
        /// The kind.
        kind: Kind,
        /// What the head says.
        stated: u32,
        /// How many bytes there are.
        len: usize,
    },
    /// A field holds a number that has no meaning.
    Field {
        /// The kind.
        kind: Kind,
        /// The field.
        field: &'static str,
        /// The number.
        value: u32,
    },
}

impl core::fmt::Display for RecordError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Short { len } => write!(f, "a record of {len} bytes is shorter than its head"),
            Self::UnknownKind { kind } => write!(f, "no record has the kind {kind}"),
            Self::Size { kind, stated, len } => write!(
                f,
                "a record {} has {} bytes, not {len} ({stated} by its head)",
                kind.name(),
                kind.size()
            ),
            Self::Field { kind, field, value } => {
                write!(f, "field {field} of a record {} can't be {value}", kind.name())
            }
        }
    }
}

impl core::error::Error for RecordError {}

/// Types of which any bytes are a value.
///
/// # Safety
/// `#[repr(C)]`, integers and arrays of them only, no padding.
pub(crate) unsafe trait Plain: Copy {}

fn read<T: Plain>(bytes: &[u8]) -> Option<T> {
    // SAFETY: the length fits, the read is unaligned, and any bytes are a `T` (`Plain`).
    (bytes.len() == size_of::<T>()).then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

impl Record {
    /// Reads one ring-buffer entry. Any bytes are safe: what is not a record is an error.
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordError> {
        let head: Header =
            bytes.get(..size_of::<Header>()).and_then(read).ok_or(RecordError::Short { len: bytes.len() })?;
        let kind = Kind::from_number(head.kind).ok_or(RecordError::UnknownKind { kind: head.kind })?;
        let size = RecordError::Size { kind, stated: head.size, len: bytes.len() };
        if head.size as usize != bytes.len() {
            return Err(size);
        }
        let field = |field, value: u32| RecordError::Field { kind, field, value };
        match kind {
            Kind::OomKill => {
                let record: OomKill = read(bytes).ok_or(size)?;
                OomConstraint::from_number(record.constraint)
                    .ok_or(field("constraint", record.constraint))?;
                Ok(Self::OomKill(record))
            }
            Kind::ReclaimBegin => read(bytes).map(Self::ReclaimBegin).ok_or(size),
            Kind::ReclaimEnd => read(bytes).map(Self::ReclaimEnd).ok_or(size),
            Kind::LimitWrite => {
                let record: LimitWrite = read(bytes).ok_or(size)?;
                LimitKind::from_number(record.file).ok_or(field("file", record.file))?;
                Phase::from_number(record.phase).ok_or(field("phase", record.phase))?;
                Ok(Self::LimitWrite(record))
            }
            Kind::CgroupLife => {
                let record: CgroupLife = read(bytes).ok_or(size)?;
                LifeEvent::from_number(record.event).ok_or(field("event", record.event))?;
                Ok(Self::CgroupLife(record))
            }
            Kind::GuardVerdict => {
                let record: GuardVerdict = read(bytes).ok_or(size)?;
                LimitKind::from_number(record.file).ok_or(field("file", record.file))?;
                GuardMode::from_number(record.mode).ok_or(field("mode", record.mode))?;
                Verdict::from_number(record.verdict).ok_or(field("verdict", record.verdict))?;
                Reason::from_number(record.reason).ok_or(field("reason", record.reason))?;
                Source::from_number(record.source).ok_or(field("source", record.source))?;
                Ok(Self::GuardVerdict(record))
            }
            Kind::OomEnd => read(bytes).map(Self::OomEnd).ok_or(size),
        }
    }

    /// What it tells.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::OomKill(_) => Kind::OomKill,
            Self::ReclaimBegin(_) => Kind::ReclaimBegin,
            Self::ReclaimEnd(_) => Kind::ReclaimEnd,
            Self::LimitWrite(_) => Kind::LimitWrite,
            Self::CgroupLife(_) => Kind::CgroupLife,
            Self::GuardVerdict(_) => Kind::GuardVerdict,
            Self::OomEnd(_) => Kind::OomEnd,
        }
    }

    /// Its head.
    pub const fn header(&self) -> &Header {
        match self {
            Self::OomKill(record) => &record.header,
            Self::ReclaimBegin(record) => &record.header,
            Self::ReclaimEnd(record) => &record.header,
            Self::LimitWrite(record) => &record.header,
            Self::CgroupLife(record) => &record.header,
            Self::GuardVerdict(record) => &record.header,
            Self::OomEnd(record) => &record.header,
        }
    }
}
