//! Records as they are appended.

use super::{Reader, Record, StoreError};
use nix::{
    errno::Errno,
    sys::inotify::{AddWatchFlags, InitFlags, Inotify},
};
use std::path::{Path, PathBuf};

/// Reads a store to its end and then waits for more, woken by the kernel.
#[derive(Debug)]
pub struct Follower {
    reader: Reader,
    changes: Inotify,
    folder: PathBuf,
}

impl Follower {
    /// Begins with the oldest record. Fails where there is no such folder.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let failed = |errno: Errno| StoreError::io(folder, "watch")(errno.into());
        let changes = Inotify::init(InitFlags::IN_CLOEXEC).map_err(failed)?;
        let what = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_ONLYDIR;
        changes.add_watch(folder, what).map_err(failed)?;
        // Only now, so that no change falls between the last look and the first wait.
        Ok(Self { reader: Reader::open(folder)?, changes, folder: folder.into() })
    }

    /// The next record that is there, without waiting.
    pub fn try_next(&mut self) -> Result<Option<Record>, StoreError> {
        self.reader.next_record()
    }

    /// The next record; waits for it.
    pub fn next_record(&mut self) -> Result<Record, StoreError> {
        loop {
            if let Some(record) = self.reader.next_record()? {
                return Ok(record);
            }
            match self.changes.read_events() {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(StoreError::io(&self.folder, "watch")(errno.into())),
            }
        }
    }

    /// The reader, for what it passed over.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }
}
