//! The head of a segment as bytes, and back. No I/O.
//!
//! All numbers are little-endian: magic (8 bytes), version (2), bytes of this head (2), zero (4), number of
//! the segment (8), number of its first record (8), when it was made (8, microseconds since 1970), CRC-32 of
//! all that (4). Every version has the magic, the version, the length and, at the end, the checksum: so that one that is not
//! known is told from one that is damaged.

/// What every segment begins with.
const MAGIC: [u8; 8] = *b"enfstore";
/// The version that this program writes, and the only one that it reads.
pub(super) const VERSION: u16 = 1;
/// Bytes of the head.
pub(super) const HEADER_BYTES: usize = 44;
/// Most bytes of a head of any version that are looked at.
pub(super) const HEAD_BYTES_MAX: usize = 4096;
const CHECK_BYTES: usize = 4;

/// The head of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Its number: higher than those of all segments before it.
    pub(super) segment: u64,
    /// The number of the first record that was to be written to it.
    pub(super) first: u64,
    /// When it was made: wall clock, microseconds since 1970.
    pub(super) made_us: u64,
}

/// What bytes are instead of a head that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum HeadError {
    #[error("it does not begin as a segment does")]
    Foreign,
    #[error("its head is damaged")]
    Damaged,
    #[error("it has the format {0} of another version of enforcer, this one reads {VERSION}")]
    Version(u16),
    #[error("it is segment {0} by its head")]
    Elsewhere(u64),
}

impl Header {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        #[expect(clippy::cast_possible_truncation, reason = "44")]
        bytes.extend((HEADER_BYTES as u16).to_le_bytes());
        bytes.extend([0; 4]);
        for number in [self.segment, self.first, self.made_us] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, HeadError> {
        if !bytes.starts_with(&MAGIC) {
            return Err(HeadError::Foreign);
        }
        let short = |at| number(bytes, at, 2).and_then(|found| u16::try_from(found).ok());
        let (version, length) = short(8).zip(short(10)).ok_or(HeadError::Damaged)?;
        let checked = usize::from(length).checked_sub(CHECK_BYTES).ok_or(HeadError::Damaged)?;
        let covered = bytes.get(..checked).ok_or(HeadError::Damaged)?;
        if number(bytes, checked, CHECK_BYTES) != Some(u64::from(crc32fast::hash(covered))) {
            return Err(HeadError::Damaged);
        }
        if version != VERSION {
            return Err(HeadError::Version(version));
        }
        if usize::from(length) != HEADER_BYTES {
            return Err(HeadError::Damaged);
        }
        let field = |at| number(bytes, at, 8).ok_or(HeadError::Damaged);
        Ok(Self { segment: field(16)?, first: field(24)?, made_us: field(32)? })
    }

    /// The head of the next version, of a length of its own.
    #[cfg(test)]
    pub(super) fn of_the_next_version() -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend((VERSION + 1).to_le_bytes());
        bytes.extend(64_u16.to_le_bytes());
        bytes.resize(64 - CHECK_BYTES, 7);
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }
}

fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let found = bytes.get(at..at + length)?;
    Some(found.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header { segment: 3, first: 0x0102, made_us: 5 };

    #[test]
    fn the_bytes_are_those_of_the_documentation() {
        let bytes = HEADER.encode();
        let (covered, check) = bytes.split_at(HEADER_BYTES - 4);
        let mut expected = b"enfstore\x01\0\x2c\0\0\0\0\0".to_vec();
        expected.extend(b"\x03\0\0\0\0\0\0\0\x02\x01\0\0\0\0\0\0\x05\0\0\0\0\0\0\0");
        assert_eq!(covered, expected);
        assert_eq!(check, crc32fast::hash(covered).to_le_bytes());
        assert_eq!(Header::decode(&bytes), Ok(HEADER));
    }

    #[test]
    fn any_changed_bit_and_any_cut_is_seen() {
        let bytes = HEADER.encode();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&changed).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(Header::decode(&bytes[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn another_version_is_told_from_damage() {
        let mut later = Header::of_the_next_version();
        assert_eq!(Header::decode(&later), Err(HeadError::Version(VERSION + 1)));
        later[20] ^= 1;
        assert_eq!(Header::decode(&later), Err(HeadError::Damaged));
    }
}
