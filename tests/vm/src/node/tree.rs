//! The cgroups, as systemd and runc make and set them.

use crate::scratch::{MOUNT, remove as remove_tree};
use enforcer::cri::message::LinuxContainerResources;
use enforcer::drift::Conversion;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const TOP: &str = "kubepods.slice";
const PARENT: &str = "kubepods.slice/kubepods-burstable.slice";
/// Those of them that the guest's kernel has.
const CONTROLLERS: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];

/// The slice of a pod's, as the specification's `cgroupsPath` names it.
pub(super) fn slice(uid: &str) -> String {
    format!("kubepods-burstable-pod{}.slice", uid.replace('-', "_"))
}

/// A pod's cgroup below the mount.
pub(super) fn pod(uid: &str) -> PathBuf {
    Path::new(PARENT).join(slice(uid))
}

/// A container's below its pod's.
pub(super) fn scope(pod: &Path, id: &str) -> PathBuf {
    pod.join(format!("cri-containerd-{id}.scope"))
}

pub(super) fn make_parent() {
    for path in [TOP, PARENT] {
        make(Path::new(path));
    }
}

/// A cgroup that passes its controllers on.
pub(super) fn make(path: &Path) {
    let folder = Path::new(MOUNT).join(path);
    match fs::create_dir(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            panic!("make {}: {error}", folder.display())
        }
        _ => {}
    }
    let there = fs::read_to_string(folder.join("cgroup.controllers")).expect("read the controllers");
    for controller in there.split_whitespace().filter(|name| CONTROLLERS.contains(name)) {
        fs::write(folder.join("cgroup.subtree_control"), format!("+{controller}"))
            .unwrap_or_else(|error| panic!("pass {controller} on in {}: {error}", folder.display()));
    }
}

/// Makes a container's cgroup. Its folder.
pub(super) fn make_scope(pod: &Path, id: &str) -> PathBuf {
    let folder = Path::new(MOUNT).join(scope(pod, id));
    fs::create_dir(&folder).unwrap_or_else(|error| panic!("make {}: {error}", folder.display()));
    folder
}

/// Sets the limits of a container's cgroup in the order in which runc does (`fs2/fs2.go`, `fs2/memory.go`, `fs2/cpu.go`).
pub(super) fn set(folder: &Path, limits: &LinuxContainerResources) -> io::Result<()> {
    let bytes = |bytes: i64| if bytes < 0 { "max".to_owned() } else { bytes.to_string() };
    let write = |file: &str, value: String| fs::write(folder.join(file), value);
    let (memory, both) = (limits.memory_limit_in_bytes, limits.memory_swap_limit_in_bytes);
    // No kernel for a guest lacks swap, but one may be told not to count it.
    if both != 0 && folder.join("memory.swap.max").exists() {
        write("memory.swap.max", bytes(if both < 0 { both } else { both - memory.max(0) }))?;
    }
    if memory != 0 {
        write("memory.max", bytes(memory))?;
    }
    if let Ok(shares) = u64::try_from(limits.cpu_shares)
        && shares > 0
    {
        write("cpu.weight", Conversion::Linear.weight(shares).to_string())?;
    }
    if limits.cpu_quota != 0 {
        let quota = if limits.cpu_quota < 0 { "max".into() } else { limits.cpu_quota.to_string() };
        let period = if limits.cpu_period > 0 { limits.cpu_period } else { 100_000 };
        write("cpu.max", format!("{quota} {period}"))?;
    }
    Ok(())
}

/// Removes a cgroup and all below it; nothing runs there any more.
pub(super) fn remove(path: &Path) {
    remove_tree(&Path::new(MOUNT).join(path));
}

pub(super) fn remove_parent() {
    remove(Path::new(TOP));
}
