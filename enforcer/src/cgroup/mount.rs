//! The cgroup2 mount.

use super::{
    CgroupError,
    file::FILE_BYTES_MAX,
    mountinfo::{Hierarchy, cgroup_mounts, hierarchy},
    shown,
};
use nix::{
    fcntl::{OFlag, open},
    sys::stat::Mode,
};
use std::{
    fs::File,
    io::Read as _,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

const MOUNTINFO: &str = "/proc/self/mountinfo";
/// A node with thousands of containers has thousands of mounts.
const MOUNTINFO_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A mounted cgroup v2 hierarchy with the memory controller.
#[derive(Debug)]
pub struct Mount {
    root: OwnedFd,
    point: PathBuf,
    recursive_protection: bool,
    hugetlb_accounting: bool,
}

impl Mount {
    /// Finds the hierarchy of this mount namespace.
    ///
    /// Fails with [`CgroupError::NoMemoryController`], saying what is there instead, where the memory
    /// controller is bound to cgroup v1, switched off, or no cgroup2 is mounted.
    pub fn discover() -> Result<Self, CgroupError> {
        let io = |source| CgroupError::Io { path: MOUNTINFO.into(), call: "read", source };
        let mut text = Vec::new();
        let file = File::open(MOUNTINFO).map_err(io)?;
        file.take(MOUNTINFO_BYTES_MAX).read_to_end(&mut text).map_err(io)?;
        match hierarchy(&cgroup_mounts(&text)) {
            Hierarchy::Unified(found) => {
                let mount = Self::at(
                    &found.point,
                    found.has("memory_recursiveprot"),
                    found.has("memory_hugetlb_accounting"),
                )?;
                mount.require_memory()?;
                Ok(mount)
            }
            Hierarchy::MemoryOnV1 { point } => Err(CgroupError::NoMemoryController {
                why: format!(
                    "the memory controller is bound to cgroup v1 at {}; boot with \
                     systemd.unified_cgroup_hierarchy=1 (or cgroup_no_v1=memory without systemd)",
                    shown(point)
                ),
            }),
            Hierarchy::NotMounted => Err(CgroupError::NoMemoryController {
                why: "no cgroup2 file system is mounted; mount one: mount -t cgroup2 none /sys/fs/cgroup"
                    .into(),
            }),
        }
    }

    /// Takes the caller's word that `point` is where a hierarchy is mounted and with which options: for trees
    /// that are not in this process's mountinfo.
    pub fn at(
        point: &Path,
        recursive_protection: bool,
        hugetlb_accounting: bool,
    ) -> Result<Self, CgroupError> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let root = open(point, flags, Mode::empty()).map_err(|errno| CgroupError::Io {
            path: point.into(),
            call: "open",
            source: errno.into(),
        })?;
        Ok(Self { root, point: point.into(), recursive_protection, hugetlb_accounting })
    }

    fn require_memory(&self) -> Result<(), CgroupError> {
        let path = self.point.join("cgroup.controllers");
        let mut text = String::new();
        File::open(&path)
            .and_then(|file| file.take(FILE_BYTES_MAX as u64).read_to_string(&mut text))
            .map_err(|source| CgroupError::Io { path, call: "read", source })?;
        if text.split_ascii_whitespace().any(|name| name == "memory") {
            return Ok(());
        }
        Err(CgroupError::NoMemoryController {
            why: format!(
                "{} does not offer it; look for cgroup_disable=memory on the boot line, or in a container for \
                 what was delegated to it",
                shown(&self.point)
            ),
        })
    }

    /// Where it is mounted.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// Mount option `memory_recursiveprot`: what a parent's `memory.min`/`memory.low` leaves unclaimed protects
    /// its children too.
    pub fn recursive_protection(&self) -> bool {
        self.recursive_protection
    }

    /// Mount option `memory_hugetlb_accounting` (6.7): hugetlb pages are part of `memory.current`.
    pub fn hugetlb_accounting(&self) -> bool {
        self.hugetlb_accounting
    }
}

impl AsFd for Mount {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }
}
