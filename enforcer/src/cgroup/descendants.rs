//! Walks the cgroups below one: what they protect, and who is frozen.

use super::{
    Cgroup, CgroupError, StatFile,
    file::open_beneath,
    parse::{self, Malformed},
    protection::{self, Node},
};
use enforcer_gate::{Bytes, Limit, Protection};
use nix::{
    dir::{Dir, Type},
    errno::Errno,
    fcntl::OFlag,
};
use std::{
    ffi::OsStr,
    os::{
        fd::{AsFd as _, BorrowedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
};

/// Most cgroups below one that are walked.
const COUNT_MAX: usize = 4096;
/// Deepest level that is walked.
const DEPTH_MAX: usize = 64;

/// What a walk finds.
#[derive(Debug, Default)]
pub(super) struct Below {
    /// What the descendants' `memory.min` and `memory.low` keep from reclaim aimed at the cgroup.
    pub(super) protection: Protection,
    /// The first descendant found that is frozen and has processes, outermost first: its path below the mount.
    pub(super) frozen: Option<PathBuf>,
}

/// Walks the descendants of `cgroup`. `swappable`: swap has room, so anonymous memory would be taken too, were it
/// not protected.
pub(super) fn below(cgroup: &Cgroup, swappable: bool, buffer: &mut [u8]) -> Result<Below, CgroupError> {
    let mut walk = Walk { top: cgroup, count: 0, swappable, figures: false, frozen: None, buffer };
    // Nearly always nothing is protected; then memory.stat of each cgroup need not be made.
    let settings = walk.node(cgroup.as_fd(), cgroup.absolute(), 0)?;
    if !settings.children.iter().any(is_protected) {
        return Ok(Below { protection: Protection::default(), frozen: walk.frozen });
    }
    walk.figures = true;
    walk.count = 0;
    let full = walk.node(cgroup.as_fd(), cgroup.absolute(), 0)?;
    let protection = protection::protection(&full, cgroup.mount().recursive_protection());
    Ok(Below { protection, frozen: walk.frozen })
}

fn is_protected(node: &Node) -> bool {
    node.min > Bytes::ZERO || node.low > Bytes::ZERO || node.children.iter().any(is_protected)
}

struct Walk<'a> {
    top: &'a Cgroup,
    count: usize,
    swappable: bool,
    figures: bool,
    frozen: Option<PathBuf>,
    buffer: &'a mut [u8],
}

impl Walk<'_> {
    fn node(&mut self, dir: BorrowedFd<'_>, path: &Path, depth: usize) -> Result<Node, CgroupError> {
        let mut node = Node::default();
        if depth > 0 {
            node.min = self.setting(dir, path, "memory.min")?;
            node.low = self.setting(dir, path, "memory.low")?;
            if self.frozen.is_none()
                && self
                    .figure(dir, path, "cgroup.events", parse::cgroup_events)?
                    .is_some_and(|events| events.frozen && events.populated)
            {
                self.frozen = path.strip_prefix(self.top.mount().point()).ok().map(Path::to_owned);
            }
        }
        if self.figures {
            node.usage =
                self.figure(dir, path, "memory.current", parse::number)?.map_or(Bytes::ZERO, Bytes::new);
            let stat = self.figure(dir, path, "memory.stat", parse::memory_stat)?.unwrap_or_default().0;
            node.takeable = stat.inactive_file.saturating_add(stat.active_file);
            if self.swappable {
                node.takeable =
                    node.takeable.saturating_add(stat.inactive_anon).saturating_add(stat.active_anon);
            }
        }
        for name in self.children(dir, path)? {
            let child = path.join(&name);
            let fd = match open_beneath(dir, &name, OFlag::O_RDONLY | OFlag::O_DIRECTORY) {
                Ok(fd) => fd,
                // It went away meanwhile, and its protection with it.
                Err(Errno::ENOENT | Errno::ENODEV) => continue,
                Err(errno) => return Err(CgroupError::io(&child, "open", errno)),
            };
            self.count += 1;
            if self.count > COUNT_MAX {
                return Err(self.too_many());
            }
            if depth >= DEPTH_MAX {
                let path = self.top.absolute().into();
                return Err(CgroupError::TooDeepBelow { path, depth_max: DEPTH_MAX });
            }
            match self.node(fd.as_fd(), &child, depth + 1) {
                Ok(below) => node.children.push(below),
                Err(error) if error.is_gone() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(node)
    }

    fn too_many(&self) -> CgroupError {
        CgroupError::TooManyBelow { path: self.top.absolute().into(), count_max: COUNT_MAX }
    }

    fn setting(&mut self, dir: BorrowedFd<'_>, path: &Path, name: &str) -> Result<Bytes, CgroupError> {
        Ok(match self.figure(dir, path, name, parse::limit)? {
            Some(Limit::Bytes(bytes)) => bytes,
            Some(Limit::Max) => Bytes::new(u64::MAX),
            None => Bytes::ZERO,
        })
    }

    /// `None` where there is no such file: the child lacks the controller.
    fn figure<T>(
        &mut self,
        dir: BorrowedFd<'_>,
        path: &Path,
        name: &str,
        parse: impl FnOnce(&[u8]) -> Result<T, Malformed>,
    ) -> Result<Option<T>, CgroupError> {
        StatFile::open_optional(dir, path, name)?.map(|file| file.parse(self.buffer, parse)).transpose()
    }

    fn children(&self, dir: BorrowedFd<'_>, path: &Path) -> Result<Vec<PathBuf>, CgroupError> {
        let io = |errno| CgroupError::io(path, "list", errno);
        // A duplicate would share the read position.
        let again = open_beneath(dir, Path::new("."), OFlag::O_RDONLY | OFlag::O_DIRECTORY).map_err(io)?;
        let mut names = Vec::new();
        for entry in Dir::from_fd(again).map_err(io)?.iter() {
            let entry = entry.map_err(io)?;
            let name = entry.file_name().to_bytes();
            if entry.file_type() == Some(Type::Directory) && name != b"." && name != b".." {
                if names.len() == COUNT_MAX {
                    return Err(self.too_many());
                }
                names.push(PathBuf::from(OsStr::from_bytes(name)));
            }
        }
        Ok(names)
    }
}

/// The files `hugetlb.<size>.current` of a cgroup; none where the hugetlb controller is not enabled.
pub(super) fn hugetlb_files(cgroup: &Cgroup) -> Result<Vec<StatFile>, CgroupError> {
    let io = |errno| CgroupError::io(cgroup.absolute(), "list", errno);
    let again =
        open_beneath(cgroup.as_fd(), Path::new("."), OFlag::O_RDONLY | OFlag::O_DIRECTORY).map_err(io)?;
    let mut files = Vec::new();
    for entry in Dir::from_fd(again).map_err(io)?.iter() {
        let entry = entry.map_err(io)?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        let size = name.strip_prefix("hugetlb.").and_then(|rest| rest.strip_suffix(".current"));
        // `hugetlb.<size>.rsvd.current` counts reservations, which are not charged to memory.
        if size.is_some_and(|size| !size.contains('.')) {
            files.push(cgroup.file(name)?);
        }
    }
    Ok(files)
}
