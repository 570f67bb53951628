//! What can go wrong when a cgroup is read.

use super::{parse::Malformed, shown};
use std::{io, path::PathBuf};

/// Why a cgroup could not be opened or read. Each names the file or folder.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// The cgroup was removed (`ENODEV` on an open file, `ENOENT` on its folder).
    #[error("{}: the cgroup is gone", shown(.path))]
    Gone {
        /// Its path.
        path: PathBuf,
    },
    /// There is no cgroup of that path, and none was seen.
    #[error("{}: no such cgroup", shown(.path))]
    NoSuch {
        /// The path.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("{}: can't {call}: {source}", shown(.path))]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried.
        call: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file holds what no supported kernel writes.
    #[error("{}: {fault}", shown(.path))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: Malformed,
    },
    /// The file is longer than any supported kernel makes it.
    #[error("{}: longer than {bytes_max} bytes", shown(.path))]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The bound.
        bytes_max: usize,
    },
    /// Not a path of a cgroup.
    #[error("{}: {why}", shown(.path))]
    BadPath {
        /// The path as given.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// This host has no cgroup v2 memory controller to use.
    #[error("no cgroup v2 memory controller: {why}")]
    NoMemoryController {
        /// What is there instead, and what to do.
        why: String,
    },
    /// The cgroup exists but has no memory files.
    #[error("{}: {why}", shown(.path))]
    NoMemoryFiles {
        /// The cgroup.
        path: PathBuf,
        /// Why it has none.
        why: &'static str,
    },
    /// More cgroups below this one than can be walked.
    #[error("{}: more than {count_max} cgroups below it", shown(.path))]
    TooManyBelow {
        /// The cgroup.
        path: PathBuf,
        /// The bound.
        count_max: usize,
    },
    /// More levels of cgroups below this one than can be walked.
    #[error("{}: more than {depth_max} levels of cgroups below it", shown(.path))]
    TooDeepBelow {
        /// The cgroup.
        path: PathBuf,
        /// The bound.
        depth_max: usize,
    },
}

impl CgroupError {
    /// An I/O error on a file of a cgroup: `ENODEV` and `ENOENT` mean that the cgroup is gone.
    pub(crate) fn io(path: impl Into<PathBuf>, call: &'static str, source: impl Into<io::Error>) -> Self {
        let (path, source) = (path.into(), source.into());
        match source.raw_os_error() {
            Some(libc::ENODEV | libc::ENOENT) => Self::Gone { path },
            Some(_) | None => Self::Io { path, call, source },
        }
    }

    /// Whether it says that the cgroup is no more, or never was.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Gone { .. } | Self::NoSuch { .. })
    }
}
