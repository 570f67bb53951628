//! The clock of the kernel programs' time stamps.

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub(crate) fn now_ns() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).map(std::time::Duration::from);
    u64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

/// Milliseconds from one time stamp to a later one; zero where it is not later.
#[expect(clippy::cast_precision_loss, reason = "nanoseconds of one run are far below 2^52")]
pub(crate) fn milliseconds(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64 / 1e6
}
