//! What can keep a session from starting or ending.

use super::holder::named;
use crate::cgroup::{CgroupError, shown};
use std::{io, path::PathBuf};

/// Why a limit can't be worked on. Nothing was changed where one of these is returned by
/// [`Session::begin`](super::Session::begin).
#[derive(Debug, thiserror::Error)]
pub enum ActuateError {
    /// The cgroup could not be read or opened for writing.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// The state directory can't be used: without a journal nothing is changed.
    #[error("state directory: {}: can't {call}: {source}; {}", shown(.path), advice(.source))]
    StateDir {
        /// The file or folder.
        path: PathBuf,
        /// What was tried.
        call: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// Another session works on this cgroup, one above or below it, or another container of the same pod.
    #[error("already in progress by {} on {}", named(*.pid), shown(.path))]
    InProgress {
        /// Its process, where that is known.
        pid: Option<u32>,
        /// Its cgroup, below the mount.
        path: PathBuf,
    },
    /// A run that was killed left something on this cgroup that could not be put back.
    #[error("an earlier run on {} could not be settled: {why}; see enforcer recover", shown(.path))]
    Unsettled {
        /// Its cgroup, below the mount.
        path: PathBuf,
        /// What stands in the way.
        why: String,
    },
    /// More unfinished runs than are looked through.
    #[error("state directory: {}: more than {count_max} journals; run enforcer recover", shown(.path))]
    TooManyJournals {
        /// The folder.
        path: PathBuf,
        /// The bound.
        count_max: usize,
    },
    /// Another process has the state directory for itself, and does not let go of it.
    #[error("state directory: {}: {} has it locked and does not let go", shown(.path), named(*.pid))]
    Locked {
        /// The lock.
        path: PathBuf,
        /// Its process, where that is known.
        pid: Option<u32>,
    },
    /// The cgroup's path does not fit a journal.
    #[error("{}: path longer than {bytes_max} bytes", shown(.path))]
    PathTooLong {
        /// The cgroup.
        path: PathBuf,
        /// The bound.
        bytes_max: usize,
    },
    /// The process that would undo everything if this one were killed did not start.
    #[error("can't start the restorer: {why}")]
    Restorer {
        /// What happened.
        why: String,
    },
    /// Before Linux 6.16 a limit can be lowered without a kill only with userfaultfd's help, which is refused here.
    #[error("can't use userfaultfd, without which a lower memory.max could kill before Linux 6.16: {source}")]
    NoSafeWrite {
        /// What the kernel said.
        source: io::Error,
    },
    /// A thread, signal or socket of our own could not be had.
    #[error("can't {what}: {source}")]
    System {
        /// What.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A committed limit was put back by the restorer before the session's end: the process had been stopped, or its time was
    /// over. Nothing is left lowered.
    #[error("{}: the restorer has put the limits back as they were found", shown(.path))]
    Undone {
        /// The cgroup.
        path: PathBuf,
    },
    /// The end of a session could not put a file back; the journal is kept for `enforcer recover`.
    #[error("{}: {what}", shown(.path))]
    NotRestored {
        /// The cgroup.
        path: PathBuf,
        /// Which file, and why.
        what: String,
    },
}

impl ActuateError {
    pub(crate) fn state(path: impl Into<PathBuf>, call: &'static str, source: impl Into<io::Error>) -> Self {
        Self::StateDir { path: path.into(), call, source: source.into() }
    }

    /// Whether the disk of the state directory, or the user's share of it, is full.
    pub fn is_full(&self) -> bool {
        match self {
            Self::StateDir { source, .. } => {
                matches!(source.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
            }
            Self::Cgroup(_)
            | Self::InProgress { .. }
            | Self::Unsettled { .. }
            | Self::TooManyJournals { .. }
            | Self::Locked { .. }
            | Self::PathTooLong { .. }
            | Self::Restorer { .. }
            | Self::NoSafeWrite { .. }
            | Self::System { .. }
            | Self::Undone { .. }
            | Self::NotRestored { .. } => false,
        }
    }

    pub(crate) fn system(what: &'static str, source: impl Into<io::Error>) -> Self {
        Self::System { what, source: source.into() }
    }
}

fn advice(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => {
            "free some space there, or name another (--state-dir; the agent's is agent.state_dir)"
        }
        Some(libc::EROFS) => "name one that can be written (--state-dir; the agent's is agent.state_dir)",
        Some(libc::EMFILE | libc::ENFILE) => "it is not the folder's fault",
        Some(libc::EACCES | libc::EPERM) => {
            "run as root, or name one of your own (--state-dir; the agent's is agent.state_dir)"
        }
        Some(_) | None => "name another (--state-dir; the agent's is agent.state_dir)",
    }
}
