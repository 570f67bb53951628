//! What a process takes, as the kernel counts it.

use anyhow::{Context, Result};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// Resident memory in KiB.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory {
    /// Pages that are shared count in full.
    pub(super) rss_kib: u64,
    /// Pages that are shared count in part.
    pub(super) pss_kib: u64,
}

impl Memory {
    pub(super) fn of(pid: u32) -> Result<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).context("read smaps_rollup")?;
        let kib = |key: &str| -> Result<u64> {
            let line =
                text.lines().find_map(|line| line.strip_prefix(key)).with_context(|| key.to_owned())?;
            Ok(line.trim().trim_end_matches(" kB").parse()?)
        };
        Ok(Self { rss_kib: kib("Rss:")?, pss_kib: kib("Pss:")? })
    }
}

/// CPU time of all its threads, also of those that have ended.
pub(super) fn cpu(pid: u32) -> Result<Duration> {
    let clock = clock_getcpuclockid(Pid::from_raw(pid.cast_signed())).context("a process's CPU clock")?;
    Ok(clock_gettime(clock).context("read a process's CPU clock")?.into())
}

/// System calls that read.
pub(super) fn reads(pid: u32) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).context("read io")?;
    let count = text.lines().find_map(|line| line.strip_prefix("syscr: ")).context("no syscr")?;
    Ok(count.parse()?)
}

/// CPU time by the names of its threads.
pub(super) fn by_thread(pid: u32) -> BTreeMap<String, Duration> {
    let mut all = BTreeMap::<String, Duration>::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let read = |name| fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        let ran = read("schedstat").split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0);
        *all.entry(read("comm").trim().to_owned()).or_default() += Duration::from_nanos(ran);
    }
    all
}
