//! What can go wrong, each with what a person can do about it.

use super::frame::PAYLOAD_BYTES_MAX;
use crate::cgroup::shown;
use std::{io, path::PathBuf};

/// Why a store can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder or a file in it can't be used.
    #[error("{}: can't {call}: {source}", shown(.path))]
    Io {
        /// Which.
        path: PathBuf,
        /// What was tried.
        call: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// Another process writes to it.
    #[error("{}: another process writes to it; end that one, or name another folder", shown(.path))]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// Another version of enforcer wrote to it, in a format that this one does not know. Nothing was changed.
    #[error(
        "{}: it has the format {version} of another version of enforcer: read and write it with that one, move the folder \
         away, or name another",
        shown(.path)
    )]
    Version {
        /// The newest segment of it that was found.
        path: PathBuf,
        /// The format.
        version: u16,
    },
    /// The record is longer than any may be. Nothing was written.
    #[error("a record of {bytes} bytes is longer than {PAYLOAD_BYTES_MAX}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The bounds can't be kept.
    #[error("the store's bounds can't hold: {why}")]
    Bounds {
        /// Why not.
        why: &'static str,
    },
}

impl StoreError {
    pub(super) fn io(path: impl Into<PathBuf>, call: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, call, source }
    }

    /// Whether the disk, or the user's share of it, is full.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Io { source, .. } => matches!(
                source.kind(),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
            ),
            Self::Locked { .. } | Self::Version { .. } | Self::TooLong { .. } | Self::Bounds { .. } => false,
        }
    }

    /// Whether there is no such folder.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}
