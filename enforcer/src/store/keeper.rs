//! Keeping records beside work that goes on without them: what the store does not take is counted, and told in a
//! record as soon as it takes one.

use super::{Bounds, Kind, Record, StoreError, Writer};
use std::path::{Path, PathBuf};

/// What its owner puts into a store: payloads of some kinds.
pub trait Payload: Sized {
    /// `Ok(None)` for a kind that is somebody else's.
    fn decode(record: &Record) -> Result<Option<Self>, serde_json::Error>;

    /// The kind, and the payload: one that the store takes.
    fn encode(&self) -> Result<(Kind, Vec<u8>), serde_json::Error>;
}

/// The writer of a store whose failures stop nobody.
#[derive(Debug)]
pub struct Keeper {
    folder: PathBuf,
    writer: Writer,
    unstored: u64,
    unsynced: bool,
    /// Why the last record was not taken.
    trouble: Option<String>,
}

impl Keeper {
    /// As [`Writer::open`].
    pub fn open(folder: &Path, bounds: Bounds) -> Result<Self, StoreError> {
        let writer = Writer::open(folder, bounds)?;
        Ok(Self { folder: folder.into(), writer, unstored: 0, unsynced: false, trouble: None })
    }

    /// Appends a record, as [`Writer::append`]. That it could not be stored is counted.
    pub fn keep(&mut self, record: &impl Payload) -> Result<(), StoreError> {
        let kept = self.append(record);
        if kept.is_err() {
            self.unstored = self.unstored.saturating_add(1);
        }
        kept
    }

    /// How many records could not be stored since that was last told.
    pub fn unstored(&self) -> u64 {
        self.unstored
    }

    /// Why the last record was not taken; `None` where it was.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Appends a note of what was lost, made of [`Self::unstored`], which is told thereby. `None` where there is no
    /// room for it either: it is told with the next one.
    pub fn note_lost<T: Payload>(&mut self, note: impl FnOnce(u64) -> T) -> Option<T> {
        let note = note(self.unstored);
        self.append(&note).ok()?;
        self.unstored = 0;
        Some(note)
    }

    /// Hands what was appended to the disk. One that does not take it now may do so next time; until then the kernel
    /// holds it.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        if self.unsynced {
            self.writer.sync()?;
            self.unsynced = false;
        }
        Ok(())
    }

    fn append(&mut self, record: &impl Payload) -> Result<(), StoreError> {
        let (kind, payload) = record
            .encode()
            .map_err(|error| StoreError::io(&self.folder, "encode a record for")(error.into()))?;
        let appended = self.writer.append(kind, &payload);
        self.trouble = appended.as_ref().err().map(ToString::to_string);
        self.unsynced |= appended.is_ok();
        appended.map(drop)
    }
}
