//! One cgroup's folder.

use super::{
    CgroupError, Mount, StatFile,
    file::{FILE_BYTES_MAX, open_beneath},
    parse::{self, Malformed},
    shown,
};
use enforcer_gate::{CgroupId, Limit};
use nix::{errno::Errno, fcntl::OFlag, sys::stat::fstat};
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Component, Path, PathBuf},
    sync::Arc,
};

/// A cgroup, by a descriptor of its folder: it stays this very cgroup although the path may be re-used.
#[derive(Debug, Clone)]
pub struct Cgroup {
    mount: Arc<Mount>,
    dir: Arc<OwnedFd>,
    relative: PathBuf,
    absolute: PathBuf,
    id: CgroupId,
}

impl Cgroup {
    /// Opens a cgroup of this host.
    ///
    /// `path` is absolute and below the cgroup2 mount point, or relative to it. `..`, symbolic links and other
    /// file systems on the way are refused.
    pub fn open(path: &Path) -> Result<Self, CgroupError> {
        Self::open_in(&Arc::new(Mount::discover()?), path)
    }

    /// As [`Self::open`], in a hierarchy that was found before.
    pub fn open_in(mount: &Arc<Mount>, path: &Path) -> Result<Self, CgroupError> {
        let relative = relative_to(mount.point(), path)?;
        let absolute = mount.point().join(&relative);
        let name = if relative.as_os_str().is_empty() { Path::new(".") } else { &relative };
        let dir =
            open_beneath(mount.as_fd(), name, OFlag::O_RDONLY | OFlag::O_DIRECTORY).map_err(|errno| {
                let bad = |why: &str| CgroupError::BadPath { path: absolute.clone(), why: why.into() };
                match errno as i32 {
                    libc::ELOOP => bad("a symbolic link is no cgroup"),
                    libc::EXDEV => bad("it leaves the cgroup file system"),
                    libc::ENOTDIR => bad("not a folder, so not a cgroup"),
                    libc::ENOENT => CgroupError::NoSuch { path: absolute.clone() },
                    _ => CgroupError::io(&absolute, "open", errno),
                }
            })?;
        let stat = fstat(&dir).map_err(|errno| CgroupError::io(&absolute, "stat", errno))?;
        let id = CgroupId::new(stat.st_ino);
        Ok(Self { mount: Arc::clone(mount), dir: Arc::new(dir), relative, absolute, id })
    }

    /// Its id: the inode number of its folder, which is `cgroup->kn->id` in the kernel.
    pub fn id(&self) -> CgroupId {
        self.id
    }

    /// Its path below the mount, without a slash in front; empty for the root.
    pub fn path(&self) -> &Path {
        &self.relative
    }

    /// Its path with the mount point in front.
    pub fn absolute(&self) -> &Path {
        &self.absolute
    }

    /// The hierarchy that it belongs to.
    pub fn mount(&self) -> &Arc<Mount> {
        &self.mount
    }

    /// Whether it is the root of what is mounted.
    pub fn is_root(&self) -> bool {
        self.relative.as_os_str().is_empty()
    }

    /// Its ancestors, nearest first, the root of the mount left out.
    pub fn ancestors(&self) -> Result<Vec<Self>, CgroupError> {
        self.relative
            .ancestors()
            .skip(1)
            .filter(|path| !path.as_os_str().is_empty())
            .map(|path| match Self::open_in(&self.mount, path) {
                // It was there, or this one could not have been opened.
                Err(CgroupError::NoSuch { path }) => Err(CgroupError::Gone { path }),
                result => result,
            })
            .collect()
    }

    /// Whether the cgroup still exists.
    pub fn exists(&self) -> Result<bool, CgroupError> {
        // A removed folder stays open, but nothing can be looked up in it. Every cgroup has this file, the root too.
        match open_beneath(self.as_fd(), Path::new("cgroup.controllers"), OFlag::O_RDONLY) {
            Ok(_) => Ok(true),
            Err(Errno::ENOENT | Errno::ENODEV) => Ok(false),
            Err(errno) => Err(CgroupError::io(&self.absolute, "look into", errno)),
        }
    }

    /// Opens one of its files for reading.
    pub fn file(&self, name: &str) -> Result<StatFile, CgroupError> {
        StatFile::open(self.as_fd(), &self.absolute, name)
    }

    /// As [`Self::file`], but `None` where there is no such file.
    pub fn file_optional(&self, name: &str) -> Result<Option<StatFile>, CgroupError> {
        StatFile::open_optional(self.as_fd(), &self.absolute, name)
    }

    /// Opens one of its files with these flags (close-on-exec is added).
    pub fn open_file(&self, name: &str, flags: OFlag) -> Result<OwnedFd, CgroupError> {
        open_beneath(self.as_fd(), Path::new(name), flags)
            .map_err(|errno| CgroupError::io(self.absolute.join(name), "open", errno))
    }

    /// Reads one of its limit files once.
    pub fn limit(&self, name: &str) -> Result<Limit, CgroupError> {
        self.file(name)?.parse(&mut [0; 64], parse::limit)
    }

    /// Reads and parses one of its files once.
    pub fn read<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&[u8]) -> Result<T, Malformed>,
    ) -> Result<T, CgroupError> {
        self.file(name)?.parse(&mut vec![0; FILE_BYTES_MAX], parse)
    }

    /// Why `memory.current` is not there, to be asked when it is not.
    pub(crate) fn why_no_memory(&self) -> CgroupError {
        let why = match self.exists() {
            Ok(false) => return CgroupError::Gone { path: self.absolute.clone() },
            Err(error) => return error,
            Ok(true) if self.is_root() => "the root cgroup has no memory limit",
            Ok(true) => {
                "it has no memory files: it is threaded, or its parent's cgroup.subtree_control lacks memory"
            }
        };
        CgroupError::NoMemoryFiles { path: self.absolute.clone(), why }
    }
}

impl AsFd for Cgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

/// `path` relative to `point`, refused where it could mean a folder elsewhere.
fn relative_to(point: &Path, path: &Path) -> Result<PathBuf, CgroupError> {
    let bad = |why: String| CgroupError::BadPath { path: path.into(), why };
    let below = if path.is_absolute() {
        path.strip_prefix(point).map_err(|_| {
            bad(format!(
                "not below the cgroup mount {0}; give it absolute below {0}, or relative to it",
                shown(point)
            ))
        })?
    } else {
        path
    };
    let mut relative = PathBuf::new();
    for part in below.components() {
        match part {
            Component::Normal(name) => relative.push(name),
            Component::CurDir => {}
            Component::ParentDir => return Err(bad("`..` is not taken: name the cgroup itself".into())),
            Component::RootDir | Component::Prefix(_) => return Err(bad("not a path of a cgroup".into())),
        }
    }
    if path.as_os_str().is_empty() {
        return Err(bad("an empty path names no cgroup".into()));
    }
    Ok(relative)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::fixture::Fixture;

    #[test]
    fn absolute_below_the_mount_and_relative_to_it_are_the_same() {
        let tree = Fixture::new();
        tree.cgroup("a/b");
        let relative = tree.open("a/b").unwrap();
        let absolute = tree.open(tree.point().join("a/./b/")).unwrap();
        assert_eq!(relative.id(), absolute.id());
        assert_eq!(absolute.path(), Path::new("a/b"));
        assert_eq!(absolute.absolute(), tree.point().join("a/b"));
        assert!(tree.open(tree.point()).unwrap().is_root());
        assert!(!relative.is_root());
    }

    #[test]
    fn paths_that_lead_elsewhere_are_refused() {
        let tree = Fixture::new();
        tree.cgroup("a");
        std::os::unix::fs::symlink("a", tree.point().join("link")).unwrap();
        std::os::unix::fs::symlink("/", tree.point().join("out")).unwrap();
        for path in ["..", "a/../a", "/etc", "", "link", "out", "out/etc", "a/memory.max"] {
            let error = tree.open(path).unwrap_err();
            assert!(matches!(error, CgroupError::BadPath { .. }), "{path:?}: {error}");
        }
    }

    #[test]
    fn a_path_that_is_not_there_is_no_cgroup_and_one_that_was_is_gone() {
        let tree = Fixture::new();
        let error = tree.open("a\u{1b}[31m").unwrap_err();
        assert!(matches!(error, CgroupError::NoSuch { .. }), "{error}");
        assert!(error.to_string().contains("a\\u{1b}[31m: no such cgroup"), "{error}");
        tree.cgroup("a/b");
        let cgroup = tree.open("a/b").unwrap();
        std::fs::rename(tree.point().join("a"), tree.point().join("elsewhere")).unwrap();
        let error = cgroup.ancestors().unwrap_err();
        assert!(matches!(error, CgroupError::Gone { .. }), "{error}");
    }

    #[test]
    fn ancestors_come_nearest_first_without_the_root() {
        let tree = Fixture::new();
        tree.cgroup("a/b/c");
        let names: Vec<_> =
            tree.open("a/b/c").unwrap().ancestors().unwrap().iter().map(|a| a.path().to_owned()).collect();
        assert_eq!(names, [Path::new("a/b"), Path::new("a")]);
    }

    #[test]
    fn a_cgroup_without_the_controller_says_so() {
        let tree = Fixture::new();
        tree.cgroup("a");
        tree.remove("a/memory.current");
        let error = tree.open("a").unwrap().why_no_memory();
        assert!(error.to_string().contains("subtree_control"), "{error}");
    }
}
