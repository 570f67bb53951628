//! The head of a segment as bytes, and back. No I/O.
//!
//! All numbers are little-endian: magic (8 bytes), version (2), bytes of this head (2), zero (4), number of
//! the segment (8), number of its first record (8), when it was made (8, microseconds since 1970), CRC-32 of
//! all that (4).

/// What every segment begins with.
const MAGIC: [u8; 8] = *b"enfstore";
/// The version that this program writes, and the only one that it reads.
pub(super) const VERSION: u16 = 1;
/// Bytes of the head.
pub(super) const HEADER_BYTES: usize = 44;

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

    /// `Err` says what it is instead.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        if !bytes.starts_with(&MAGIC) {
            return Err("it does not begin as a segment does".into());
        }
        if let Some(version) = number(bytes, 8, 2)
            && version != u64::from(VERSION)
        {
            return Err(format!("it has the format {version}, this program reads {VERSION}"));
        }
        let damaged = || "its head is damaged".to_owned();
        let covered = bytes.get(..HEADER_BYTES - 4).ok_or_else(damaged)?;
        if number(bytes, HEADER_BYTES - 4, 4) != Some(u64::from(crc32fast::hash(covered))) {
            return Err(damaged());
        }
        let field = |at| number(bytes, at, 8).ok_or_else(damaged);
        Ok(Self { segment: field(16)?, first: field(24)?, made_us: field(32)? })
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
        let mut later = bytes;
        later[8] = 2;
        assert!(Header::decode(&later).unwrap_err().contains("format 2"));
    }
}
