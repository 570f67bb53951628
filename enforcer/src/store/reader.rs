//! Reading a store, oldest record first, also while it is being written.

use super::{
    StoreError, files,
    frame::{self, FRAME_BYTES_MAX, Found, Record},
    header::HEADER_BYTES,
};
use std::{
    fs::File,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

/// Faults that are kept; more are only counted.
const FAULT_COUNT_MAX: usize = 32;

/// Something that is not a record where one should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// A file that is no segment, or one of another format; nothing of it was read.
    Segment {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A record whose payload does not match its checksum; it was passed over.
    Record {
        /// In which file.
        path: PathBuf,
        /// Its number.
        number: u64,
    },
    /// The end of a segment is no whole record, as a crash leaves it; it was cut off.
    Tail {
        /// In which file.
        path: PathBuf,
        /// From which byte on.
        offset: u64,
    },
}

/// All that was passed over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    /// The first ones.
    pub first: Vec<Fault>,
    /// How many there are in all.
    pub count: u64,
}

impl Faults {
    fn add(&mut self, fault: Fault) {
        self.count += 1;
        if self.first.len() < FAULT_COUNT_MAX {
            self.first.push(fault);
        }
    }
}

/// A place in a store.
#[derive(Debug)]
pub struct Reader {
    folder: PathBuf,
    open: Option<Segment>,
    /// Segments up to this one are done with.
    done: Option<u64>,
    /// The segment after the one that is open, once it is known to be there.
    successor: Option<u64>,
    last: u64,
    faults: Faults,
}

#[derive(Debug)]
struct Segment {
    number: u64,
    first: u64,
    path: PathBuf,
    file: File,
    /// Where in the file `buffer[at..]` begins.
    offset: u64,
    buffer: Vec<u8>,
    at: usize,
}

impl Reader {
    /// Begins with the oldest record. Fails where the folder can't be listed.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        files::list(folder)?;
        Ok(Self {
            folder: folder.into(),
            open: None,
            done: None,
            successor: None,
            last: 0,
            faults: Faults::default(),
        })
    }

    /// The next record; `None` where there is none yet: a later call may find one.
    pub fn next_record(&mut self) -> Result<Option<Record>, StoreError> {
        loop {
            if self.open.is_none() && !self.advance()? {
                return Ok(None);
            }
            let Some(segment) = &mut self.open else { continue };
            if let Some(record) = segment.next(&mut self.faults)? {
                if record.number > self.last {
                    self.last = record.number;
                    return Ok(Some(record));
                }
                // A copy of an older file, put among the others.
                self.faults.add(Fault::Record { path: segment.path.clone(), number: record.number });
                continue;
            }
            if let Some(next) = self.successor.take() {
                self.close()?;
                self.enter(next)?;
                continue;
            }
            // The writer goes on to a new segment only once it is done with the one before: one more look at
            // that, and then it is over.
            self.successor = self.after()?;
            if self.successor.is_none() {
                return Ok(None);
            }
        }
    }

    /// What was passed over so far.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The number of the last record that was read; 0 before the first.
    pub fn last_number(&self) -> u64 {
        self.last
    }

    /// Whether the segment that is open ends with the record that was read last, and where that is.
    pub(super) fn clean_end(&self) -> Result<Option<(u64, u64)>, StoreError> {
        let Some(segment) = &self.open else { return Ok(None) };
        Ok((segment.length()? == segment.offset).then_some((segment.number, segment.offset)))
    }

    /// The number that the first record of the open segment was to get.
    pub(super) fn first_of_open(&self) -> Option<u64> {
        self.open.as_ref().map(|segment| segment.first)
    }

    /// The lowest segment that was not looked at.
    fn after(&self) -> Result<Option<u64>, StoreError> {
        let listing = files::list(&self.folder)?;
        Ok(listing.segments.into_iter().find(|found| self.done.is_none_or(|done| *found > done)))
    }

    /// Goes to the next segment; false where there is none.
    fn advance(&mut self) -> Result<bool, StoreError> {
        let Some(next) = self.after()? else { return Ok(false) };
        self.enter(next)?;
        Ok(true)
    }

    /// Opens a segment, or notes why it can't be read.
    fn enter(&mut self, number: u64) -> Result<(), StoreError> {
        self.done = Some(number);
        let path = files::segment_path(&self.folder, number);
        let why = match files::open(&path) {
            // Removed meanwhile, to make room.
            Ok(None) => return Ok(()),
            Ok(Some(file)) => match files::header(&file, &path, number)? {
                Ok(header) => {
                    let (first, offset) = (header.first, HEADER_BYTES as u64);
                    self.open =
                        Some(Segment { number, first, path, file, offset, buffer: Vec::new(), at: 0 });
                    return Ok(());
                }
                Err(why) => why.to_string(),
            },
            Err(error) => error.to_string(),
        };
        self.faults.add(Fault::Segment { path, why });
        Ok(())
    }

    fn close(&mut self) -> Result<(), StoreError> {
        if let Some(segment) = self.open.take()
            && segment.length()? > segment.offset
        {
            self.faults.add(Fault::Tail { path: segment.path, offset: segment.offset });
        }
        Ok(())
    }
}

impl Segment {
    fn next(&mut self, faults: &mut Faults) -> Result<Option<Record>, StoreError> {
        let mut fresh = false;
        loop {
            match frame::decode(self.number, &self.buffer[self.at..]) {
                Found::Whole { number, kind, payload, size } => {
                    let record = Record { number, kind, payload: payload.to_vec() };
                    self.pass(size);
                    return Ok(Some(record));
                }
                // A payload that is just being written does not match either: look again first.
                Found::Damaged { number, size } if fresh => {
                    faults.add(Fault::Record { path: self.path.clone(), number });
                    self.pass(size);
                    fresh = false;
                }
                Found::Nothing if fresh => return Ok(None),
                Found::Damaged { .. } | Found::Nothing => {
                    self.fill()?;
                    fresh = true;
                }
            }
        }
    }

    fn pass(&mut self, size: usize) {
        self.at += size;
        self.offset += size as u64;
    }

    /// Reads again from the place on: as much as the longest record takes.
    fn fill(&mut self) -> Result<(), StoreError> {
        let left = usize::try_from(self.length()?.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        self.buffer.resize(left.min(FRAME_BYTES_MAX), 0);
        self.at = 0;
        let mut length = 0;
        while length < self.buffer.len() {
            let offset = self.offset + length as u64;
            match self.file.read_at(&mut self.buffer[length..], offset) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(StoreError::io(&self.path, "read")(error)),
            }
        }
        self.buffer.truncate(length);
        Ok(())
    }

    fn length(&self) -> Result<u64, StoreError> {
        Ok(self.file.metadata().map_err(StoreError::io(&self.path, "look at"))?.len())
    }
}
