//! What goes over the socket. No I/O.

use crate::actuate::record::{limit_code, limit_of_code};
use enforcer_gate::{Limit, LimitFile};

/// Bytes of every message.
pub(in crate::actuate) const MESSAGE_BYTES: usize = 32;

/// To the restorer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::actuate) enum Message {
    /// This value is about to be written.
    Lower {
        file: LimitFile,
        found: Limit,
        before: Limit,
        ours: Limit,
        /// Number of the journal's next record.
        next_record: u32,
    },
    /// The session's loop runs, and will say so again within so many milliseconds; zero: it says so no more.
    Beat { within_ms: u32 },
    /// Everything ended properly.
    Done,
}

/// How a restorer ends: its exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::actuate) enum Exit {
    /// It was told that the session is done, and has put nothing back.
    Idle = 0,
    /// Something could not be put back; the journal stays.
    Failed = 1,
    /// It has put everything back.
    Acted = 2,
}

/// What the restorer could not have; it does its work all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::actuate) struct Notes {
    pub(in crate::actuate) not_locked: bool,
    pub(in crate::actuate) not_oom_exempt: bool,
    pub(in crate::actuate) not_moved: bool,
}

impl Message {
    pub(in crate::actuate) fn encode(self) -> [u8; MESSAGE_BYTES] {
        let mut bytes = [0; MESSAGE_BYTES];
        if let Self::Beat { within_ms } = self {
            bytes[0] = 3;
            bytes[4..8].copy_from_slice(&within_ms.to_le_bytes());
        }
        if let Self::Lower { file, found, before, ours, next_record } = self {
            bytes[0] = match file {
                LimitFile::High => 1,
                LimitFile::Max => 2,
            };
            bytes[4..8].copy_from_slice(&next_record.to_le_bytes());
            for (at, limit) in [found, before, ours].into_iter().enumerate() {
                bytes[8 + at * 8..16 + at * 8].copy_from_slice(&limit_code(limit).to_le_bytes());
            }
        }
        bytes
    }

    pub(in crate::actuate) fn decode(bytes: &[u8; MESSAGE_BYTES]) -> Option<Self> {
        let limit = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[8 + at * 8..16 + at * 8]);
            limit_of_code(u64::from_le_bytes(word))
        };
        let number = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        let file = match bytes[0] {
            0 => return Some(Self::Done),
            1 => LimitFile::High,
            2 => LimitFile::Max,
            3 => return Some(Self::Beat { within_ms: number }),
            _ => return None,
        };
        let next_record = number;
        Some(Self::Lower { file, found: limit(0), before: limit(1), ours: limit(2), next_record })
    }
}

impl Notes {
    pub(super) fn encode(self) -> u8 {
        u8::from(self.not_locked) | u8::from(self.not_oom_exempt) << 1 | u8::from(self.not_moved) << 2
    }

    pub(super) fn decode(bits: u8) -> Self {
        Self { not_locked: bits & 1 != 0, not_oom_exempt: bits & 2 != 0, not_moved: bits & 4 != 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use enforcer_gate::Bytes;
    use proptest::prelude::*;

    #[test]
    fn notes_come_back() {
        for bits in 0..8 {
            assert_eq!(Notes::decode(bits).encode(), bits);
        }
    }

    proptest! {
        #[test]
        fn messages_come_back(found in 0..u64::MAX, before: u64, ours: u64, next_record: u32, max: bool) {
            let file = if max { LimitFile::Max } else { LimitFile::High };
            let found = Limit::Bytes(Bytes::new(found));
            let (before, ours) = (limit_of_code(before), limit_of_code(ours));
            let message = Message::Lower { file, found, before, ours, next_record };
            prop_assert_eq!(Message::decode(&message.encode()), Some(message));
            prop_assert_eq!(Message::decode(&Message::Done.encode()), Some(Message::Done));
            let beat = Message::Beat { within_ms: next_record };
            prop_assert_eq!(Message::decode(&beat.encode()), Some(beat));
        }

        #[test]
        fn any_bytes_decode_or_fail_without_a_panic(bytes: [u8; MESSAGE_BYTES]) {
            let _ = Message::decode(&bytes);
        }
    }
}
