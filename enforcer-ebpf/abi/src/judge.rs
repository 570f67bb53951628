//! How the guard judges a write, and what it says of it.

use crate::guard::{GuardMode, Lease};
use crate::named::numbered;
use crate::record::{Header, Plain};
use crate::records::Task;
use crate::text::{ASKED_LEN, Text};

numbered! {
    /// Why a write is safe or not.
    pub enum Reason: u32 {
        /// The limit would not get lower.
        NotLower = 0, "not lower";
        /// The value leaves the margin above usage.
        AboveUsage = 1, "above usage";
        /// No process lives in the cgroup or below it.
        Empty = 2, "no process";
        /// A lease allows it.
        Leased = 3, "leased";
        /// The kernel sets nothing: the writer gets the kernel's own answer.
        NoValue = 4, "no value";
        /// What is asked can't be had, and usage is not above what a lease allows.
        UnavailableLeased = 5, "value unavailable, leased";
        /// Below usage, and nobody vouches for it.
        NoLease = 6, "no lease";
        /// Below usage, and the lease is void.
        LeaseExpired = 7, "lease expired";
        /// Below what the lease allows.
        UnderLease = 8, "under the lease";
        /// What is asked can't be had.
        Unavailable = 9, "value unavailable";
        /// The cgroup's counters can't be read.
        Blind = 10, "counters unreadable";
    }
}

impl Reason {
    /// Whether the write is let through in any mode.
    pub const fn is_safe(self) -> bool {
        (self as u32) < Self::NoLease as u32 || matches!(self, Self::Blind)
    }
}

numbered! {
    /// What became of a write at the guard.
    pub enum Verdict: u32 {
        /// Let through.
        Allowed = 0, "allowed";
        /// Refused with `EBUSY`.
        Denied = 1, "denied";
        /// Let through, for the mode is audit.
        WouldDeny = 2, "would deny";
        /// Let through, for user space shows no life.
        Disarmed = 3, "disarmed";
    }
}

impl Verdict {
    /// How a write is answered.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of a kernel program")]
    pub const fn of(reason: Reason, mode: u32, armed: bool) -> Self {
        if reason.is_safe() {
            Self::Allowed
        } else if !armed {
            Self::Disarmed
        } else if mode == GuardMode::Enforce as u32 {
            Self::Denied
        } else {
            Self::WouldDeny
        }
    }

    /// Slots of the map `GUARD_COUNTS`.
    pub const COUNTS: u32 = (Reason::Blind as u32 + 1) * Self::EACH;
    /// Verdicts that a reason can have.
    const EACH: u32 = Self::Disarmed as u32 + 1;

    /// Where writes of this kind are counted.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of a kernel program")]
    pub const fn slot(self, reason: Reason) -> u32 {
        reason as u32 * Self::EACH + self as u32
    }
}

numbered! {
    /// How the value came to the kernel, or why it can't be had.
    pub enum Source: u32 {
        /// `write`
        Write = 0, "write";
        /// `pwrite64`
        Pwrite = 1, "pwrite64";
        /// `writev`
        Writev = 2, "writev";
        /// `pwritev`
        Pwritev = 3, "pwritev";
        /// Another system call: `io_uring_enter`, `splice`, `sendfile`, `pwritev2`, `io_submit`, ...
        OtherCall = 4, "another system call";
        /// A thread of the kernel, or one that works for `io_uring`.
        KernelThread = 5, "a kernel thread";
        /// A 32-bit system call.
        Compat = 6, "a 32-bit system call";
        /// The writer's memory is not there without waiting for it.
        NotResident = 7, "memory that is not there";
        /// Longer than [`VALUE_MAX`](Self::VALUE_MAX).
        TooLong = 8, "too long a text";
        /// More than [`PIECES_MAX`](Self::PIECES_MAX) pieces.
        TooManyPieces = 9, "too many pieces";
        /// Too many writes at once.
        NoRoom = 10, "too many writes at once";
    }
}

impl Source {
    /// Most bytes of a value that are read; a longer one counts as not to be had.
    pub const VALUE_MAX: usize = 63;
    /// Most pieces of a value that are joined.
    pub const PIECES_MAX: usize = 8;
}

/// What a write is judged by. Figures in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// The new limit; `None` where it can't be had.
    pub asked: Option<u64>,
    /// The limit in force.
    pub limit: u64,
    /// Usage now.
    pub usage: u64,
    /// How far a new limit must stay above usage.
    pub margin: u64,
    /// A process lives in the cgroup or below it.
    pub populated: bool,
    /// The lease, void or not.
    pub lease: Option<Lease>,
}

impl Facts {
    /// Why the write is safe or not.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of a kernel program")]
    pub const fn judge(&self, now_ns: u64) -> Reason {
        if !self.populated {
            return Reason::Empty;
        }
        let (minimum, without) = match self.lease {
            None => (None, Reason::NoLease),
            Some(lease) => (lease.minimum_at(now_ns), Reason::LeaseExpired),
        };
        let Some(asked) = self.asked else {
            return match minimum {
                Some(minimum) if self.usage <= minimum => Reason::UnavailableLeased,
                _ => Reason::Unavailable,
            };
        };
        if asked >= self.limit {
            return Reason::NotLower;
        }
        if asked >= self.usage.saturating_add(self.margin) {
            return Reason::AboveUsage;
        }
        match minimum {
            None => without,
            Some(minimum) if asked < minimum => Reason::UnderLease,
            Some(_) => Reason::Leased,
        }
    }
}

/// The guard judged a write. Figures in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct GuardVerdict {
    /// The head.
    pub header: Header,
    /// The cgroup whose limit it is.
    pub cgroup: u64,
    /// Who writes.
    pub writer: Task,
    /// The limit asked for; 0 where it can't be had.
    pub asked: u64,
    /// The limit in force.
    pub limit: u64,
    /// Usage.
    pub usage: u64,
    /// How far a new limit must stay above usage.
    pub margin: u64,
    /// What the lease allows now; 0 without one that holds.
    pub lease_minimum: u64,
    /// When the lease ends or ended (`CLOCK_MONOTONIC`); 0 without one.
    pub lease_expires_ns: u64,
    /// Number of the writer's system call.
    pub syscall: u64,
    /// [`LimitKind`]
    pub file: u32,
    /// [`GuardMode`]
    pub mode: u32,
    /// [`Verdict`]
    pub verdict: u32,
    /// [`Reason`]
    pub reason: u32,
    /// [`Source`]
    pub source: u32,
    /// No padding.
    pub unused: u32,
    /// The text as written, cut to this length.
    pub text: Text<ASKED_LEN>,
}

// SAFETY: `repr(C)`, integers and byte arrays only, no padding: `tests` holds the offsets of every field.
unsafe impl Plain for GuardVerdict {}
