//! Programs that kill on memory pressure: what a trial must not provoke.

use crate::cgroup::{Cgroup, CgroupError, shown};
use enforcer_gate::PressureKiller;
use nix::sys::stat::{fstat, stat};
use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
};

/// Programs that watch pressure by reading, with no trigger that could be seen. Any process can take such a name,
/// so it counts only for one that has the power to kill on this node: see [`rules`].
const BY_NAME: [&str; 3] = ["systemd-oomd", "oomd", "nohang"];
/// Most processes looked at, and most descriptors of each.
const PROCESSES_MAX: usize = 1 << 16;
const DESCRIPTORS_MAX: usize = 1 << 16;
/// Most cgroups below the target whose processes are looked up.
const BELOW_MAX: usize = 4096;
/// `TASK_COMM_LEN` is 16; a kernel thread's may be longer.
const COMM_BYTES_MAX: u64 = 64;

/// `CAP_KILL` in a capability mask.
const CAP_KILL: u64 = 1 << 5;

/// The first program found that kills, or may kill, when `cgroup` or one of its ancestors is under memory
/// pressure: a process outside `cgroup` and all below it that holds a PSI trigger (a descriptor for writing on their
/// `memory.pressure`), or one of those known to act on what they read. Processes of this very program are left out: they kill nobody.
///
/// A program in a container that watches its own pressure, to give memory back, is none. What one with a trigger
/// does when it fires can't be seen from outside, so a mere monitor counts as well.
pub fn pressure_killer(cgroup: &Cgroup) -> Result<Option<PressureKiller>, CgroupError> {
    let watched = watched(cgroup)?;
    let inside = cgroup.processes(BELOW_MAX)?;
    let ours = executable(std::process::id());
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().take(PROCESSES_MAX);
    for pid in processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        if inside.contains(&pid) || executable(pid) == ours {
            continue;
        }
        let comm = comm(pid);
        let by_trigger = trigger(pid, &watched);
        if by_trigger.is_some() || (BY_NAME.contains(&comm.as_str()) && rules(pid)) {
            let cgroup = by_trigger.unwrap_or_else(|| Path::new("/"));
            return Ok(Some(PressureKiller { pid, comm, cgroup: shown(cgroup) }));
        }
    }
    Ok(None)
}

/// A cgroup's path and the inode of its `memory.pressure`.
struct Watched {
    path: PathBuf,
    file: (u64, u64),
}

fn watched(cgroup: &Cgroup) -> Result<Vec<Watched>, CgroupError> {
    let mut list = Vec::new();
    for level in std::iter::once(cgroup.clone()).chain(cgroup.ancestors()?) {
        if let Some(file) = level.file_optional("memory.pressure")?
            && let Ok(stat) = fstat(&file)
        {
            list.push(Watched { path: level.path().into(), file: (stat.st_dev, stat.st_ino) });
        }
    }
    Ok(list)
}

/// Whether a process could kill any other of this node: it has `CAP_KILL` in our own user namespace, and sees the
/// processes that we see. Nothing inside an ordinary container has both, whatever it is called; systemd-oomd,
/// which is not root, has.
fn rules(pid: u32) -> bool {
    let shares = |namespace: &str| {
        let of = |process: &str| stat(format!("/proc/{process}/ns/{namespace}").as_str()).ok();
        let (theirs, ours) = (of(&pid.to_string()), of("self"));
        theirs
            .zip(ours)
            .is_some_and(|(theirs, ours)| (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino))
    };
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    has_kill(&status) && shares("pid") && shares("user")
}

/// Whether `/proc/PID/status` shows `CAP_KILL` as effective.
fn has_kill(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & CAP_KILL != 0)
}

/// The file that a process runs; `None` for a kernel thread and a process that has ended.
fn executable(pid: u32) -> Option<(u64, u64)> {
    let file = stat(format!("/proc/{pid}/exe").as_str()).ok()?;
    Some((file.st_dev, file.st_ino))
}

fn comm(pid: u32) -> String {
    let mut text = Vec::new();
    if let Ok(file) = fs::File::open(format!("/proc/{pid}/comm")) {
        // A process that has just ended has no name.
        let _ = file.take(COMM_BYTES_MAX).read_to_end(&mut text);
    }
    String::from_utf8_lossy(text.trim_ascii_end()).into_owned()
}

/// Which of `watched` this process has open for writing.
fn trigger(pid: u32, watched: &[Watched]) -> Option<&Path> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten().take(DESCRIPTORS_MAX);
    for descriptor in descriptors.map(|entry| entry.path()) {
        // The name first: it costs less than to follow the link.
        let Ok(name) = fs::read_link(&descriptor) else { continue };
        if !name.as_os_str().as_encoded_bytes().ends_with(b"memory.pressure") {
            continue;
        }
        let Ok(stat) = stat(&descriptor) else { continue };
        let found = watched.iter().find(|watched| watched.file == (stat.st_dev, stat.st_ino));
        if found.is_some() && for_writing(pid, &descriptor) {
            return found.map(|watched| watched.path.as_path());
        }
    }
    None
}

fn for_writing(pid: u32, descriptor: &Path) -> bool {
    let Some(number) = descriptor.file_name().and_then(|name| name.to_str()) else { return false };
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok()).unwrap_or(0);
    flags & libc::O_ACCMODE != libc::O_RDONLY
}

#[cfg(test)]
mod tests {
    use super::has_kill;

    #[test]
    fn the_power_to_kill_is_read_from_the_effective_mask() {
        assert!(has_kill("Name:\tx\nCapPrm:\t0\nCapEff:\t00000000a80425fb\n"));
        assert!(has_kill("CapEff:\t0000000000000020\n"));
        assert!(!has_kill("CapPrm:\t0000000000000020\nCapEff:\t00000000000000c0\n"));
        // A name can hold a line of its own only escaped, so this is none.
        assert!(!has_kill("Name:\tx\\nCapEff:\t20\nCapEff:\t0\n"));
        assert!(!has_kill(""));
        assert!(!has_kill("CapEff:\tkill\n"));
    }
}
