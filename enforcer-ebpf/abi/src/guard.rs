//! What user space tells the guard's kernel program.

use crate::named::numbered;
use crate::records::LimitKind;

numbered! {
    /// What the guard does about an unsafe write.
    pub enum GuardMode: u32 {
        /// Nothing: the write is not looked at.
        Off = 0, "off";
        /// Lets it through and tells what it would have refused.
        Audit = 1, "audit";
        /// Refuses it with `EBUSY`.
        Enforce = 2, "enforce";
    }
}

/// A guarded cgroup: value of the map `GUARDED`, by cgroup id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Guarded {
    /// [`GuardMode`]
    pub mode: u32,
    /// [`Self::SELF`], [`Self::BELOW`], and the bits of the guarded files ([`Self::bit`]).
    pub what: u32,
    /// How far a new limit must stay above usage, in pages.
    pub margin: u64,
}

impl Guarded {
    /// The cgroup itself is guarded.
    pub const SELF: u32 = 1 << 16;
    /// Every cgroup below it is guarded, also one that is made later. The nearest entry up the tree counts.
    pub const BELOW: u32 = 1 << 17;

    /// The bit of a file in [`Self::what`].
    pub const fn bit(file: LimitKind) -> u32 {
        1 << file as u32
    }
}

/// What a lease is for: key of the map `LEASES`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct LeaseKey {
    /// The cgroup.
    pub cgroup: u64,
    /// [`LimitKind`]
    pub file: u64,
}

/// A limit that may be set although usage is above it: user space knows a floor under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Lease {
    /// When the floor was known (`CLOCK_MONOTONIC`).
    pub granted_ns: u64,
    /// From when on it is void.
    pub expires_ns: u64,
    /// The lowest limit when it was granted, in pages.
    pub minimum: u64,
    /// By how much the lowest limit rises each second, in pages.
    pub growth_per_second: u64,
}

impl Lease {
    /// The lowest limit that may be set at `now_ns`; `None` once it is void.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of a kernel program")]
    pub const fn minimum_at(&self, now_ns: u64) -> Option<u64> {
        if now_ns >= self.expires_ns {
            return None;
        }
        // Both cut (at 35 minutes, at 16 TiB a second) so that the product fits: the kernel has no wider one.
        let age_us = least(now_ns.saturating_sub(self.granted_ns) / 1_000, 1 << 31);
        let grown = least(self.growth_per_second, 1 << 32) * age_us / 1_000_000;
        Some(self.minimum.saturating_add(grown))
    }
}

const fn least(one: u64, other: u64) -> u64 {
    if one < other { one } else { other }
}

/// The guard's life: the one value of the map `GUARD_LIFE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct GuardLife {
    /// When user space was last alive (`CLOCK_MONOTONIC`); 0 for disarmed.
    pub beat_ns: u64,
    /// After so long without a beat the guard is disarmed.
    pub stale_ns: u64,
    /// The process id of user space, as it sees itself.
    pub pid: u64,
}

impl GuardLife {
    /// Whether unsafe writes are refused at `now_ns`.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of a kernel program")]
    pub const fn is_armed(&self, now_ns: u64) -> bool {
        self.beat_ns != 0 && now_ns.saturating_sub(self.beat_ns) <= self.stale_ns
    }
}
