//! From which cgroup namespace this process looks (`cgroup_namespaces(7)`).

use nix::sched::{CloneFlags, setns};
use std::{fs, io, os::unix::fs::MetadataExt as _};

const OWN: &str = "/proc/self/ns/cgroup";
const OF_PROCESS_1: &str = "/proc/1/ns/cgroup";

/// Has this process see cgroups as process 1 does.
///
/// A container with the node's processes (`hostPID`) has a cgroup namespace of its own on cgroup v2 unless it is privileged;
/// in it `/proc/PID/cgroup` of every other container begins with `/..`. Nothing happens where both are the same one, or
/// where process 1 can't be asked, as by who is not root. Moves the calling thread and those that it starts later, so it
/// comes before any. Fails where `setns(2)` is refused: it takes `CAP_SYS_ADMIN`.
pub fn look_as_process_1() -> io::Result<()> {
    let which = |path| fs::metadata(path).map(|of| (of.dev(), of.ino()));
    let (Ok(own), Ok(other)) = (which(OWN), which(OF_PROCESS_1)) else { return Ok(()) };
    if own == other {
        return Ok(());
    }
    setns(fs::File::open(OF_PROCESS_1)?, CloneFlags::CLONE_NEWCGROUP)?;
    Ok(())
}
