//! One record as bytes, and back. No I/O.
//!
//! All numbers are little-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 4 | length of the payload |
//! | 2 | kind |
//! | 2 | zero |
//! | 8 | number of the record |
//! | 4 | CRC-32 of the segment's number and the 16 bytes above |
//! | length | payload |
//! | 4 | CRC-32 of the segment's number, the 16 bytes and the payload |
//!
//! The head has a checksum of its own, so that one damaged payload does not cost the records after it. The
//! segment's number is part of both, so that a block of another file never passes for one of this.

/// Most bytes of a payload.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// Bytes before the payload.
const HEAD_BYTES: usize = 20;
/// Bytes that a checksum takes.
const CHECK_BYTES: usize = 4;
/// Bytes of the head that its checksum covers.
const COVERED: usize = HEAD_BYTES - CHECK_BYTES;
/// Most bytes of a record with all that belongs to it.
pub(super) const FRAME_BYTES_MAX: usize = HEAD_BYTES + PAYLOAD_BYTES_MAX + CHECK_BYTES;

/// What a record is about. The store's users share the numbers out among themselves (docs/store.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind(pub u16);

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its number: each record's is higher than those of all before it.
    pub number: u64,
    /// What it is about.
    pub kind: Kind,
    /// What it says.
    pub payload: Vec<u8>,
}

/// What stands at a place of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// A record, and how many bytes it takes.
    Whole { number: u64, kind: Kind, payload: &'a [u8], size: usize },
    /// A record whose payload does not match its checksum, and how many bytes it takes.
    Damaged { number: u64, size: usize },
    /// No record: nothing more, the beginning of one, or something else.
    Nothing,
}

/// Appends a record's bytes to `out`. `None`, and nothing is appended, where the payload is too long.
pub(super) fn encode(segment: u64, number: u64, kind: Kind, payload: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let length = u32::try_from(payload.len()).ok().filter(|_| payload.len() <= PAYLOAD_BYTES_MAX)?;
    let begin = out.len();
    out.extend(length.to_le_bytes());
    out.extend(kind.0.to_le_bytes());
    out.extend([0; 2]);
    out.extend(number.to_le_bytes());
    let mut crc = checksum(segment, &out[begin..]);
    out.extend(crc.clone().finalize().to_le_bytes());
    crc.update(payload);
    out.extend(payload);
    out.extend(crc.finalize().to_le_bytes());
    Some(())
}

/// What `bytes` begin with.
pub(super) fn decode(segment: u64, bytes: &[u8]) -> Found<'_> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else { return Found::Nothing };
    let (covered, check) = head.split_at(COVERED);
    let mut crc = checksum(segment, covered);
    if check != crc.clone().finalize().to_le_bytes() {
        return Found::Nothing;
    }
    let [l0, l1, l2, l3, k0, k1, _, _, number @ ..] = covered else { return Found::Nothing };
    let length = usize::try_from(u32::from_le_bytes([*l0, *l1, *l2, *l3])).unwrap_or(usize::MAX);
    let Ok(number) = number.try_into().map(u64::from_le_bytes) else { return Found::Nothing };
    if length > PAYLOAD_BYTES_MAX || rest.len() < length + CHECK_BYTES {
        return Found::Nothing;
    }
    let (payload, rest) = rest.split_at(length);
    crc.update(payload);
    let size = HEAD_BYTES + length + CHECK_BYTES;
    if rest.starts_with(&crc.finalize().to_le_bytes()) {
        Found::Whole { number, kind: Kind(u16::from_le_bytes([*k0, *k1])), payload, size }
    } else {
        Found::Damaged { number, size }
    }
}

fn checksum(segment: u64, covered: &[u8]) -> crc32fast::Hasher {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&segment.to_le_bytes());
    crc.update(covered);
    crc
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bytes_are_those_of_the_documentation() {
        let mut bytes = Vec::new();
        encode(7, 0x0102, Kind(0x0304), b"ab", &mut bytes).expect("fits");
        assert_eq!(
            bytes,
            [
                2, 0, 0, 0, 4, 3, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, // length, kind, zero, number
                0x83, 0x89, 0xcf, 0x6b, // checksum of the head
                b'a', b'b', 0xae, 0xd3, 0x49, 0x1a,
            ],
            "{bytes:02x?}"
        );
    }

    #[test]
    fn one_that_is_too_long_is_not_encoded() {
        let mut bytes = vec![1];
        assert_eq!(encode(1, 1, Kind(1), &vec![0; PAYLOAD_BYTES_MAX + 1], &mut bytes), None);
        assert_eq!(bytes, [1]);
        assert_eq!(encode(1, 1, Kind(1), &vec![0; PAYLOAD_BYTES_MAX], &mut bytes), Some(()));
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(
            segment: u64, number: u64, kind: u16, payload in proptest::collection::vec(any::<u8>(), 0..300),
            after in proptest::collection::vec(any::<u8>(), 0..30),
        ) {
            let mut bytes = Vec::new();
            encode(segment, number, Kind(kind), &payload, &mut bytes).expect("fits");
            let size = bytes.len();
            bytes.extend(after);
            let whole = Found::Whole { number, kind: Kind(kind), payload: &payload, size };
            prop_assert_eq!(decode(segment, &bytes), whole);
            prop_assert_eq!(decode(segment ^ 1, &bytes), Found::Nothing);
            prop_assert_eq!(decode(segment, &bytes[..size - 1]), Found::Nothing);
        }

        #[test]
        fn any_bytes_are_safe(segment: u64, bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(decode(segment, &bytes), Found::Nothing);
        }
    }
}
