//! The little that a workload needs of cgroups: to join one, to find its own.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Moves this process into a cgroup.
pub(crate) fn join(cgroup: &str) -> Result<()> {
    let procs = Path::new(cgroup).join("cgroup.procs");
    fs::write(&procs, std::process::id().to_string()).with_context(|| format!("joining {}", procs.display()))
}

/// The folder of this process's cgroup, version 2.
pub(crate) fn own() -> Result<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").context("reading /proc/self/cgroup")?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/")).context("no cgroup v2 line")?;
    Ok(Path::new("/sys/fs/cgroup").join(path))
}

/// The processes of a cgroup and everything below it.
pub(crate) fn processes(cgroup: &Path) -> Vec<i32> {
    let mut pids: Vec<i32> = fs::read_to_string(cgroup.join("cgroup.procs"))
        .map(|text| text.lines().filter_map(|line| line.parse().ok()).collect())
        .unwrap_or_default();
    for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            pids.extend(processes(&entry.path()));
        }
    }
    pids
}

/// A limit file's value; `max` and a file that can't be read are the greatest.
pub(crate) fn limit(file: &Path) -> u64 {
    fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(u64::MAX)
}
