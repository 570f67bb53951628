//! The kernel's clocks, and which boot they belong to.

use crate::cgroup::shown;
use nix::time::{ClockId, clock_gettime};

/// A clock in nanoseconds; 0 where the kernel has no such clock.
pub(crate) fn nanos(clock: ClockId) -> u64 {
    let Ok(time) = clock_gettime(clock) else { return 0 };
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec()).unwrap_or(0))
}

/// Microseconds since 1970.
pub(crate) fn wall_us() -> u64 {
    nanos(ClockId::CLOCK_REALTIME) / 1000
}

/// The kernel's name for this boot; empty where it can't be read.
pub(crate) fn boot_id() -> String {
    read("/proc/sys/kernel/random/boot_id")
}

/// The kernel's release; empty where it can't be read.
pub(crate) fn kernel_release() -> String {
    read("/proc/sys/kernel/osrelease")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).map(|text| shown(text.trim())).unwrap_or_default()
}
