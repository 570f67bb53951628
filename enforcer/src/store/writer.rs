//! Appending to a store.
//!
//! A record is one `write` at the end of the newest segment, so a killed process leaves at most one record
//! cut short, as the last thing of its segment. What a crash left is never written to again: the next writer
//! begins a new segment. [`Writer::append`] hands records to the kernel, which is enough to survive the end of
//! the process; [`Writer::sync`] hands them to the disk, which is what surviving a power cut takes.

use super::{
    Kind, Reader, StoreError,
    files::{self, SEGMENT_COUNT_MAX},
    frame::{self, FRAME_BYTES_MAX},
    header::{HEADER_BYTES, HeadError, Header},
};
use crate::private_dir::private_dir;
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};
use std::{
    fs::{File, OpenOptions},
    io::Write as _,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

/// How large a store may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// A segment that has this many bytes is full.
    pub segment_bytes: u64,
    /// All segments together; the oldest go first.
    pub total_bytes: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { segment_bytes: 4 << 20, total_bytes: 64 << 20 }
    }
}

impl Bounds {
    /// So much in all, in segments of the usual size or a quarter of that.
    pub fn within(total_bytes: u64) -> Self {
        Self { segment_bytes: Self::default().segment_bytes.min(total_bytes / 4), total_bytes }
    }

    fn check(&self) -> Result<(), StoreError> {
        let refused = |why| Err(StoreError::Bounds { why });
        if self.segment_bytes == 0 {
            return refused("a segment must have room for something");
        }
        // The newest may be longer by one record than a segment should be.
        if self.total_bytes / 2 < self.segment_bytes {
            return refused("all segments together need room for two");
        }
        Ok(())
    }
}

/// The one writer of a store.
#[derive(Debug)]
pub struct Writer {
    folder: PathBuf,
    bounds: Bounds,
    /// The segment that is being written; `None` until the next record wants one.
    open: Option<Open>,
    /// The number of the newest segment ever.
    segment: u64,
    /// The number of the next record.
    next: u64,
    buffer: Vec<u8>,
    lock: Flock<File>,
}

#[derive(Debug)]
struct Open {
    path: PathBuf,
    file: File,
    length: u64,
}

impl Writer {
    /// Opens a store and makes it where it is missing. Fails with [`StoreError::Locked`] where it has a writer, and with
    /// [`StoreError::Version`] where there is a segment of another format: what its records are numbered is not known.
    pub fn open(folder: &Path, bounds: Bounds) -> Result<Self, StoreError> {
        bounds.check()?;
        private_dir(folder).map_err(|(call, source)| StoreError::io(folder, call)(source))?;
        let lock = lock(folder)?;
        refuse_other_versions(folder)?;
        for path in files::list(folder)?.unfinished {
            std::fs::remove_file(&path).map_err(StoreError::io(path, "remove"))?;
        }
        // Read whole: only so is it known where it ends, and what the last number was.
        let mut reader = Reader::open(folder)?;
        let mut first_free = 1;
        while let Some(record) = reader.next_record()? {
            first_free = record.number.saturating_add(1);
        }
        let clean = reader.clean_end()?;
        let segment = files::list(folder)?.segments.last().copied().unwrap_or(0);
        let mut writer = Self {
            folder: folder.into(),
            bounds,
            open: None,
            segment,
            next: first_free.max(reader.first_of_open().unwrap_or(0)),
            buffer: Vec::new(),
            lock,
        };
        if let Some((number, length)) = clean
            && number == segment
        {
            let path = files::segment_path(folder, number);
            let file = OpenOptions::new().append(true).custom_flags(libc::O_NOFOLLOW).open(&path);
            let file = file.map_err(StoreError::io(&path, "open"))?;
            writer.open = Some(Open { path, file, length });
        }
        Ok(writer)
    }

    /// Appends a record and says its number. Where the disk is full, the oldest segments make room. After an
    /// error the store is as it was before. A folder that was removed is made anew.
    pub fn append(&mut self, kind: Kind, payload: &[u8]) -> Result<u64, StoreError> {
        loop {
            match self.append_once(kind, payload) {
                Err(error) if error.is_full() && self.remove_oldest()? => {}
                other => return other,
            }
        }
    }

    fn append_once(&mut self, kind: Kind, payload: &[u8]) -> Result<u64, StoreError> {
        self.keep_names()?;
        if self.open.as_ref().is_some_and(|open| open.length >= self.bounds.segment_bytes) {
            self.sync()?;
            self.open = None;
        }
        if self.open.is_none() {
            self.begin_segment()?;
        }
        let number = self.next;
        self.buffer.clear();
        frame::encode(self.segment, number, kind, payload, &mut self.buffer)
            .ok_or(StoreError::TooLong { bytes: payload.len() })?;
        let Some(open) = &mut self.open else { return Err(StoreError::Bounds { why: "no segment" }) };
        if let Err(source) = open.file.write_all(&self.buffer) {
            let error = StoreError::io(&open.path, "write")(source);
            if open.file.set_len(open.length).is_err() {
                // What is there stays, as after a crash; nothing is appended to it.
                self.open = None;
            }
            return Err(error);
        }
        open.length += self.buffer.len() as u64;
        self.next = number.saturating_add(1);
        Ok(number)
    }

    /// What was removed under this writer takes every write, and nobody can read it: a folder is taken up anew (or made),
    /// and a segment followed by another one.
    fn keep_names(&mut self) -> Result<(), StoreError> {
        if !is_named(&self.folder.join("lock"), &self.lock) {
            let next = self.next;
            let fresh = Self::open(&self.folder, self.bounds)?;
            *self = Self { next: next.max(fresh.next), ..fresh };
        }
        if self.open.as_ref().is_some_and(|open| !is_named(&open.path, &open.file)) {
            self.open = None;
        }
        Ok(())
    }

    /// The number that the next record gets.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// Waits until all that was appended is on disk.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        match &self.open {
            Some(open) => open.file.sync_data().map_err(StoreError::io(&open.path, "sync")),
            None => Ok(()),
        }
    }

    fn begin_segment(&mut self) -> Result<(), StoreError> {
        self.make_room()?;
        let segment = self.segment.saturating_add(1);
        let fresh = files::unfinished_path(&self.folder, segment);
        let path = files::segment_path(&self.folder, segment);
        let made = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let made_us = u64::try_from(made.as_micros()).unwrap_or(u64::MAX);
        let header = Header { segment, first: self.next, made_us };
        let result = write_head(&fresh, &header).and_then(|file| {
            std::fs::rename(&fresh, &path).map_err(StoreError::io(&path, "make"))?;
            let folder = File::open(&self.folder).map_err(StoreError::io(&self.folder, "open"))?;
            folder.sync_all().map_err(StoreError::io(&self.folder, "sync"))?;
            Ok(file)
        });
        match result {
            Ok(file) => {
                self.segment = segment;
                self.open = Some(Open { path, file, length: HEADER_BYTES as u64 });
                Ok(())
            }
            Err(error) => {
                // It is of no use to anyone.
                let _ = std::fs::remove_file(&fresh);
                let _ = std::fs::remove_file(&path);
                Err(error)
            }
        }
    }

    /// Removes the oldest segments until a new one fits in.
    fn make_room(&mut self) -> Result<(), StoreError> {
        let listing = files::list(&self.folder)?;
        let mut sizes = Vec::with_capacity(listing.segments.len());
        for segment in listing.segments {
            let path = files::segment_path(&self.folder, segment);
            let size = std::fs::symlink_metadata(&path).map_or(0, |metadata| metadata.len());
            sizes.push((path, size));
        }
        let new = self.bounds.segment_bytes.saturating_add(FRAME_BYTES_MAX as u64);
        let room = self.bounds.total_bytes.saturating_sub(new.min(self.bounds.total_bytes / 2));
        let mut total: u64 = sizes.iter().map(|(_, size)| size).sum();
        let mut count = sizes.len();
        for (path, size) in sizes {
            if total <= room && count < SEGMENT_COUNT_MAX / 2 {
                break;
            }
            std::fs::remove_file(&path).map_err(StoreError::io(path, "remove"))?;
            total -= size;
            count -= 1;
        }
        Ok(())
    }

    /// Removes the oldest segment but the one that is being written; false where there is none.
    fn remove_oldest(&mut self) -> Result<bool, StoreError> {
        let newest = self.open.as_ref().map(|_| self.segment);
        let oldest = files::list(&self.folder)?.segments.first().copied();
        let Some(oldest) = oldest.filter(|oldest| Some(*oldest) != newest) else { return Ok(false) };
        let path = files::segment_path(&self.folder, oldest);
        std::fs::remove_file(&path).map_err(StoreError::io(path, "remove"))?;
        Ok(true)
    }
}

fn refuse_other_versions(folder: &Path) -> Result<(), StoreError> {
    for segment in files::list(folder)?.segments.into_iter().rev() {
        let path = files::segment_path(folder, segment);
        // What can't be opened or is no segment is the reader's to name.
        let Ok(Some(file)) = files::open(&path) else { continue };
        if let Err(HeadError::Version(version)) = files::header(&file, &path, segment)? {
            return Err(StoreError::Version { path, version });
        }
    }
    Ok(())
}

fn write_head(path: &Path, header: &Header) -> Result<File, StoreError> {
    let file = OpenOptions::new()
        .append(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path);
    let mut file = file.map_err(StoreError::io(path, "make"))?;
    file.write_all(&header.encode()).map_err(StoreError::io(path, "write"))?;
    file.sync_all().map_err(StoreError::io(path, "sync"))?;
    Ok(file)
}

/// Whether the path still leads to the file.
fn is_named(path: &Path, file: &File) -> bool {
    let (named, own) = (std::fs::symlink_metadata(path), file.metadata());
    matches!((named, own), (Ok(named), Ok(own)) if (named.dev(), named.ino()) == (own.dev(), own.ino()))
}

fn lock(folder: &Path) -> Result<Flock<File>, StoreError> {
    let path = folder.join("lock");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&path)
        .map_err(StoreError::io(&path, "open"))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| {
        if errno == Errno::EWOULDBLOCK {
            StoreError::Locked { path: folder.into() }
        } else {
            StoreError::io(path, "lock")(errno.into())
        }
    })
}
