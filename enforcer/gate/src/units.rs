//! Quantities as types. Nothing here wraps: every operation saturates.

use serde::{Deserialize, Serialize};

/// Bytes in a page. enforcer supports kernels with 4 KiB pages (x86-64, and arm64 built so).
pub const PAGE_SIZE: u64 = 4096;

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(u64);

        impl $name {
            /// Nothing of it.
            pub const ZERO: Self = Self(0);

            /// Wraps a raw count.
            pub const fn new(raw: u64) -> Self {
                Self(raw)
            }

            /// The raw count.
            pub const fn get(self) -> u64 {
                self.0
            }

            /// Sum, at most `u64::MAX`.
            #[must_use]
            pub const fn saturating_add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }

            /// Difference, at least zero.
            #[must_use]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }

            /// `self * numerator / denominator` without overflow on the way; `denominator` 0 counts as 1.
            #[must_use]
            #[expect(clippy::cast_possible_truncation, reason = "compared with u64::MAX first")]
            pub const fn scaled(self, numerator: u64, denominator: u64) -> Self {
                let denominator = if denominator == 0 { 1 } else { denominator };
                let wide = self.0 as u128 * numerator as u128 / denominator as u128;
                if wide > u64::MAX as u128 { Self(u64::MAX) } else { Self(wide as u64) }
            }
        }

        impl core::iter::Sum for $name {
            fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
                iter.fold(Self::ZERO, Self::saturating_add)
            }
        }
    };
}

quantity!(
    /// An amount of memory in bytes.
    Bytes
);
quantity!(
    /// An amount of memory in pages of [`PAGE_SIZE`].
    Pages
);
quantity!(
    /// A span of time in microseconds.
    Micros
);
quantity!(
    /// A point on the caller's monotonic clock, in microseconds since an origin of the caller's choice.
    Instant
);
quantity!(
    /// A cgroup's identity: the inode number of its folder, which is `cgroup->kn->id` in the kernel.
    CgroupId
);

impl Bytes {
    /// `n` mebibytes.
    pub const fn from_mib(n: u64) -> Self {
        Self(n.saturating_mul(1024 * 1024))
    }

    /// Down to a whole page, as the kernel does with a limit (`page_counter_memparse`).
    #[must_use]
    pub const fn page_floor(self) -> Self {
        Self(self.0 / PAGE_SIZE * PAGE_SIZE)
    }

    /// Up to a whole page; the highest whole page where that does not fit.
    #[must_use]
    pub const fn page_ceil(self) -> Self {
        match self.0.checked_next_multiple_of(PAGE_SIZE) {
            Some(up) => Self(up),
            None => Self(u64::MAX).page_floor(),
        }
    }
}

impl From<Pages> for Bytes {
    fn from(pages: Pages) -> Self {
        Self(pages.0.saturating_mul(PAGE_SIZE))
    }
}

impl Micros {
    /// `n` milliseconds.
    pub const fn from_millis(n: u64) -> Self {
        Self(n.saturating_mul(1000))
    }

    /// `n` seconds.
    pub const fn from_secs(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000))
    }
}

impl Instant {
    /// This point moved later by `span`.
    #[must_use]
    pub const fn after(self, span: Micros) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// Time from `earlier` to this point; zero when `earlier` is not earlier.
    pub const fn since(self, earlier: Self) -> Micros {
        Micros(self.0.saturating_sub(earlier.0))
    }
}

/// A limit as the kernel holds it: a number of bytes, or none. `Max` is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// At most so many bytes.
    Bytes(Bytes),
    /// No limit; the kernel prints `max`.
    Max,
}

/// From so many bytes on the kernel's page counter has no limit (`PAGE_COUNTER_MAX` in `include/linux/page_counter.h`).
const NO_LIMIT: Bytes = Bytes(i64::MAX as u64).page_floor();

impl Limit {
    /// As the kernel holds it once it was written: whole pages, and no limit from the page counter's greatest on. Kubernetes
    /// and runtimes say it as they were told, `100M` as 100,000,000 bytes.
    #[must_use]
    pub fn held(self) -> Self {
        match self {
            Self::Bytes(bytes) if bytes.page_floor() < NO_LIMIT => Self::Bytes(bytes.page_floor()),
            Self::Bytes(_) | Self::Max => Self::Max,
        }
    }
}
