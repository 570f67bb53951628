//! The journal's bytes. No I/O.
//!
//! ```text
//! header, 8192 bytes: magic, version, pid, boot id, cgroup id, path length, checksum, path
//! 256 records of 64 bytes: checksum, sequence number, kind, file, values
//! ```
//! Records are read up to the first that does not hold: its checksum covers its sequence number and the header's
//! checksum, so a torn tail or another journal's leftover ends the reading and is never taken for a record.

use enforcer_gate::{Bytes, CgroupId, Limit, LimitFile};
use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::PathBuf,
};

const MAGIC: [u8; 8] = *b"enfjrnl\0";
const VERSION: u32 = 1;
const PATH_AT: usize = 64;
const CRC_AT: usize = 60;

/// Bytes of the header.
pub(super) const HEADER_BYTES: usize = 8192;
/// Bytes of one record.
pub(super) const RECORD_BYTES: usize = 64;
/// Most records in one journal.
pub(super) const RECORD_COUNT_MAX: usize = 256;
/// Bytes of a journal, always.
pub(super) const JOURNAL_BYTES: usize = HEADER_BYTES + RECORD_BYTES * RECORD_COUNT_MAX;
/// Longest path of a cgroup that fits.
pub(super) const PATH_BYTES_MAX: usize = 4096;

/// Whose work a journal is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    /// Process that works on it.
    pub(super) pid: u32,
    /// `/proc/sys/kernel/random/boot_id`.
    pub(super) boot_id: [u8; 16],
    /// The cgroup.
    pub(super) cgroup: CgroupId,
    /// Its path below the mount.
    pub(super) path: PathBuf,
}

/// One entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Record {
    /// A lower value is about to be written.
    Intent {
        file: LimitFile,
        /// What the file held before any of our writes.
        found: Limit,
        /// What it holds right before this write: `found`, or our value of an earlier record.
        before: Limit,
        /// What it will hold.
        ours: Limit,
    },
    /// The file is no longer our concern.
    Settled {
        file: LimitFile,
        /// What it was left with.
        left: Limit,
    },
    /// The whole work ended properly.
    Finished,
}

/// Why bytes are no journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum HeaderError {
    #[error("not a journal of this program")]
    Foreign,
    #[error("it has the format {0} of another version of enforcer, this one reads {VERSION}")]
    Version(u32),
    #[error("the header is damaged")]
    Damaged,
}

impl Header {
    /// `None` where the path is too long.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        let path = self.path.as_os_str().as_bytes();
        let length = u16::try_from(path.len()).ok().filter(|_| path.len() <= PATH_BYTES_MAX)?;
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.pid.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.boot_id);
        bytes[32..40].copy_from_slice(&self.cgroup.get().to_le_bytes());
        bytes[40..42].copy_from_slice(&length.to_le_bytes());
        bytes[PATH_AT..PATH_AT + path.len()].copy_from_slice(path);
        let crc = header_crc(&bytes);
        bytes[CRC_AT..PATH_AT].copy_from_slice(&crc.to_le_bytes());
        Some(bytes)
    }

    /// Reads a header; the second value seeds the records' checksums.
    pub(super) fn decode(bytes: &[u8]) -> Result<(Self, u32), HeaderError> {
        if !bytes.starts_with(&MAGIC) {
            return Err(HeaderError::Foreign);
        }
        // Magic and version stay where they are, whatever else another version has.
        let version = bytes.get(8..12).map(|version| u32_at(version, 0)).ok_or(HeaderError::Damaged)?;
        if version != VERSION {
            return Err(HeaderError::Version(version));
        }
        let bytes = bytes.get(..HEADER_BYTES).ok_or(HeaderError::Damaged)?;
        let crc = u32_at(bytes, CRC_AT);
        let length = usize::from(u16::from_le_bytes([bytes[40], bytes[41]]));
        if crc != header_crc(bytes) || length > PATH_BYTES_MAX {
            return Err(HeaderError::Damaged);
        }
        let mut boot_id = [0; 16];
        boot_id.copy_from_slice(&bytes[16..32]);
        let path = PathBuf::from(OsString::from_vec(bytes[PATH_AT..PATH_AT + length].to_vec()));
        let cgroup = CgroupId::new(u64_at(bytes, 32));
        Ok((Self { pid: u32_at(bytes, 12), boot_id, cgroup, path }, crc))
    }
}

fn header_crc(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..CRC_AT]);
    hasher.update(&bytes[PATH_AT..HEADER_BYTES]);
    hasher.finalize()
}

impl Record {
    /// The record with this sequence number (its place in the file), under a header with this checksum.
    pub(super) fn encode(self, sequence: u32, seed: u32) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[4..8].copy_from_slice(&sequence.to_le_bytes());
        let (kind, file, values) = match self {
            Self::Intent { file, found, before, ours } => (1, file_code(file), [found, before, ours]),
            Self::Settled { file, left } => (2, file_code(file), [left; 3]),
            Self::Finished => (3, 0, [Limit::Max; 3]),
        };
        bytes[8] = kind;
        bytes[9] = file;
        for (at, value) in values.into_iter().enumerate() {
            bytes[16 + at * 8..24 + at * 8].copy_from_slice(&limit_code(value).to_le_bytes());
        }
        let crc = record_crc(&bytes, seed);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8], sequence: u32, seed: u32) -> Option<Self> {
        if u32_at(bytes, 0) != record_crc(bytes, seed) || u32_at(bytes, 4) != sequence {
            return None;
        }
        let file = match bytes[9] {
            0 => LimitFile::High,
            1 => LimitFile::Max,
            _ => return None,
        };
        let value = |at: usize| limit_of_code(u64_at(bytes, 16 + at * 8));
        match bytes[8] {
            1 => Some(Self::Intent { file, found: value(0), before: value(1), ours: value(2) }),
            2 => Some(Self::Settled { file, left: value(0) }),
            3 => Some(Self::Finished),
            _ => None,
        }
    }
}

/// Every record of a journal up to the first that does not hold.
pub(super) fn records(journal: &[u8], seed: u32) -> Vec<Record> {
    let body = journal.get(HEADER_BYTES..).unwrap_or_default();
    (0..)
        .zip(body.chunks_exact(RECORD_BYTES).take(RECORD_COUNT_MAX))
        .map_while(|(sequence, bytes)| Record::decode(bytes, sequence, seed))
        .collect()
}

fn record_crc(bytes: &[u8], seed: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.update(&bytes[4..RECORD_BYTES]);
    hasher.finalize()
}

const fn file_code(file: LimitFile) -> u8 {
    match file {
        LimitFile::High => 0,
        LimitFile::Max => 1,
    }
}

/// A limit in 64 bits; the kernel has no limit of `u64::MAX` bytes beside `max`.
pub(super) const fn limit_code(limit: Limit) -> u64 {
    match limit {
        Limit::Bytes(bytes) => bytes.get(),
        Limit::Max => u64::MAX,
    }
}

/// Undoes [`limit_code`].
pub(super) const fn limit_of_code(code: u64) -> Limit {
    if code == u64::MAX { Limit::Max } else { Limit::Bytes(Bytes::new(code)) }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests;
