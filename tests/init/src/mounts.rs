//! File systems, modules, disks and loopback of the guest.

use anyhow::{Context, Result};
use nix::kmod::{ModuleInitFlags, finit_module};
use nix::mount::{MsFlags, mount};
use std::ffi::CString;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

/// Type, mount point, options.
const MOUNTS: [(&str, &str, &str); 10] = [
    ("proc", "/proc", ""),
    ("sysfs", "/sys", ""),
    ("devtmpfs", "/dev", ""),
    ("cgroup2", "/sys/fs/cgroup", ""),
    ("debugfs", "/sys/kernel/debug", ""),
    ("tracefs", "/sys/kernel/tracing", ""),
    ("bpf", "/sys/fs/bpf", ""),
    ("securityfs", "/sys/kernel/security", ""),
    ("tmpfs", "/tmp", "mode=1777"),
    ("tmpfs", "/run", "mode=755"),
];

/// Modules lie here in the order in which they load.
const MODULES: &str = "/modules";
/// The scratch disk, with a file system.
const DISK: &str = "/dev/vda";

pub(crate) fn all() -> Result<()> {
    for (kind, target, options) in MOUNTS {
        fs::create_dir_all(target).with_context(|| format!("make {target}"))?;
        mount(Some(kind), target, Some(kind), MsFlags::empty(), Some(options))
            .with_context(|| format!("mount {kind} on {target}"))?;
    }
    Ok(())
}

pub(crate) fn modules() -> Result<()> {
    let Ok(entries) = fs::read_dir(MODULES) else { return Ok(()) };
    let mut files: Vec<_> = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    files.sort();
    for path in files {
        let file = File::open(&path)?;
        match finit_module(&file, &CString::default(), ModuleInitFlags::empty()) {
            // Built in, or pulled in already.
            Ok(()) | Err(nix::errno::Errno::EEXIST) => {}
            Err(errno) => eprintln!("init: module {}: {errno}", path.display()),
        }
    }
    Ok(())
}

pub(crate) fn disks() -> Result<()> {
    fs::create_dir_all("/data")?;
    if Path::new(DISK).exists() {
        mount(Some(DISK), "/data", Some("ext4"), MsFlags::empty(), None::<&str>)
            .with_context(|| format!("mount {DISK} on /data"))?;
    }
    Ok(())
}

/// So that what listens on the node's own address can be asked there. Not all that runs here needs it.
pub(crate) fn loopback() {
    match Command::new("/bin/busybox").args(["ifconfig", "lo", "127.0.0.1", "up"]).status() {
        Ok(status) if status.success() => {}
        Ok(status) => eprintln!("init: bring up the loopback: {status}"),
        Err(error) => eprintln!("init: bring up the loopback: {error}"),
    }
}

/// Every controller that the kernel has, for the cgroups below the root.
pub(crate) fn controllers() -> Result<()> {
    let root = Path::new("/sys/fs/cgroup");
    let available = fs::read_to_string(root.join("cgroup.controllers"))?;
    for controller in available.split_whitespace() {
        fs::write(root.join("cgroup.subtree_control"), format!("+{controller}"))
            .with_context(|| format!("enable the controller {controller}"))?;
    }
    Ok(())
}
