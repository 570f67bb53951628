//! The journal of one session, on disk before anything is changed.

use super::{
    ActuateError, StateDir,
    record::{HEADER_BYTES, Header, JOURNAL_BYTES, PATH_BYTES_MAX, RECORD_BYTES, RECORD_COUNT_MAX, Record},
};
use nix::{
    errno::Errno,
    fcntl::{FallocateFlags, Flock, FlockArg, fallocate},
    sys::{
        stat::{fstat, lstat},
        uio::pwrite,
    },
    unistd::fdatasync,
};
use std::{
    fs::{File, OpenOptions},
    io::Write as _,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::OpenOptionsExt as _,
    },
    path::{Path, PathBuf},
};

/// Places that stay free for what ends a run: both files settled, by whoever gets to it, and the end.
const RECORDS_FOR_THE_END: usize = 6;

/// A session's journal. Its file lock says that somebody works on the cgroup; the restorer shares it.
#[derive(Debug)]
pub(super) struct Journal {
    file: Flock<File>,
    path: PathBuf,
    seed: u32,
    next: u32,
}

impl Journal {
    /// Makes the file with all the space it will ever need, durably, under its final name. The caller holds the
    /// folder's lock and has settled what was there before.
    pub(super) fn create(state: &StateDir, header: &Header) -> Result<Self, ActuateError> {
        let path = state.journal_path(header.cgroup);
        let fresh = path.with_extension("new");
        match Self::create_at(&fresh, &path, header) {
            Ok(journal) => {
                sync_folder(state.path())?;
                Ok(journal)
            }
            Err(error) => {
                // It is of no use to anyone; the next attempt overwrites it where it can't be removed.
                let _ = std::fs::remove_file(&fresh);
                Err(error)
            }
        }
    }

    fn create_at(fresh: &Path, path: &Path, header: &Header) -> Result<Self, ActuateError> {
        let mut bytes = header.encode().ok_or_else(|| ActuateError::PathTooLong {
            path: header.path.clone(),
            bytes_max: PATH_BYTES_MAX,
        })?;
        let seed =
            Header::decode(&bytes).map_err(|_| ActuateError::system("encode a journal", Errno::EBADMSG))?.1;
        bytes.resize(JOURNAL_BYTES, 0);
        let io = |call| move |source: std::io::Error| ActuateError::state(fresh, call, source);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(fresh)
            .map_err(io("create"))?;
        match fallocate(&file, FallocateFlags::empty(), 0, offset(JOURNAL_BYTES)) {
            // Not every file system has it; writing every byte below reserves the space as well.
            Ok(()) | Err(Errno::EOPNOTSUPP) => {}
            Err(errno) => return Err(ActuateError::state(fresh, "reserve space in", errno)),
        }
        let mut file = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, errno)| ActuateError::state(fresh, "lock", errno))?;
        file.write_all(&bytes).map_err(io("write"))?;
        file.sync_all().map_err(io("sync"))?;
        std::fs::rename(fresh, path).map_err(io("rename"))?;
        Ok(Self { file, path: path.into(), seed, next: 0 })
    }

    /// Takes up a journal that was read and locked, to add to its end.
    pub(super) fn resume(path: PathBuf, file: Flock<File>, seed: u32, next: u32) -> Self {
        Self { file, path, seed, next }
    }

    /// Adds a record; with `durable`, it is on disk when this returns.
    pub(super) fn append(&mut self, record: Record, durable: bool) -> Result<(), ActuateError> {
        let kept_free = match record {
            Record::Intent { .. } => {
                self.check_findable()?;
                RECORDS_FOR_THE_END
            }
            Record::Settled { .. } | Record::Finished => 0,
        };
        if self.next as usize + kept_free >= RECORD_COUNT_MAX {
            return Err(ActuateError::state(&self.path, "write more than 250 records to", Errno::EFBIG));
        }
        let at = HEADER_BYTES + self.next as usize * RECORD_BYTES;
        let bytes = record.encode(self.next, self.seed);
        let written = pwrite(&*self.file, &bytes, offset(at))
            .map_err(|errno| ActuateError::state(&self.path, "write", errno))?;
        if written != RECORD_BYTES {
            return Err(ActuateError::state(&self.path, "write", Errno::EIO));
        }
        if durable {
            fdatasync(&*self.file).map_err(|errno| ActuateError::state(&self.path, "sync", errno))?;
        }
        self.next += 1;
        Ok(())
    }

    /// Fails where the file has lost its name (somebody removed it, or the folder): it still takes every write, and
    /// nobody would find it after a kill.
    fn check_findable(&self) -> Result<(), ActuateError> {
        let own = fstat(&*self.file).map_err(|errno| ActuateError::state(&self.path, "look at", errno))?;
        match lstat(&self.path) {
            Ok(named) if (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino) => Ok(()),
            Ok(_) => Err(ActuateError::state(&self.path, "find", Errno::ESTALE)),
            Err(errno) => Err(ActuateError::state(&self.path, "find", errno)),
        }
    }

    /// Says that the work is over and takes the file away.
    pub(super) fn close(mut self) -> Result<(), ActuateError> {
        let marked = self.append(Record::Finished, false);
        match std::fs::remove_file(&self.path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            // The mark does as well: nothing will be undone on its account.
            Err(_) if marked.is_ok() => Ok(()),
            Err(source) => Err(ActuateError::state(&self.path, "remove", source)),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Number of the next record, and the checksums' seed: what another process needs to go on.
    pub(super) fn position(&self) -> (u32, u32) {
        (self.next, self.seed)
    }
}

impl AsFd for Journal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn offset(at: usize) -> libc::off_t {
    // A journal has 24 KiB.
    libc::off_t::try_from(at).unwrap_or(libc::off_t::MAX)
}

fn sync_folder(path: &Path) -> Result<(), ActuateError> {
    let folder = File::open(path).map_err(|source| ActuateError::state(path, "open", source))?;
    folder.sync_all().map_err(|source| ActuateError::state(path, "sync", source))
}
