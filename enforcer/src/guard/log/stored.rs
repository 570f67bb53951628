//! Records as payloads of the store, and back. No I/O.

use super::record::{Began, Ended, Lost, VerdictRecord};
use crate::store::{Kind, Payload, Record};
use serde::Serialize;

/// [`VerdictRecord`] as JSON.
pub const KIND_VERDICT: Kind = Kind(16);
/// [`Began`] as JSON.
pub const KIND_BEGAN: Kind = Kind(17);
/// [`Lost`] as JSON.
pub const KIND_LOST: Kind = Kind(18);
/// [`Ended`] as JSON.
pub const KIND_ENDED: Kind = Kind(19);

/// What a record of the store says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stored {
    /// A verdict.
    Verdict(Box<VerdictRecord>),
    /// A guard began to stand.
    Began(Began),
    /// Verdicts were lost.
    Lost(Lost),
    /// A guard ended.
    Ended(Ended),
}

impl Payload for Stored {
    fn decode(record: &Record) -> Result<Option<Self>, serde_json::Error> {
        let payload = &record.payload;
        Ok(Some(match record.kind {
            KIND_VERDICT => Self::Verdict(serde_json::from_slice(payload)?),
            KIND_BEGAN => Self::Began(serde_json::from_slice(payload)?),
            KIND_LOST => Self::Lost(serde_json::from_slice(payload)?),
            KIND_ENDED => Self::Ended(serde_json::from_slice(payload)?),
            Kind(_) => return Ok(None),
        }))
    }

    fn encode(&self) -> Result<(Kind, Vec<u8>), serde_json::Error> {
        Ok(match self {
            Self::Verdict(record) => (KIND_VERDICT, serde_json::to_vec(record)?),
            Self::Began(began) => (KIND_BEGAN, serde_json::to_vec(began)?),
            Self::Lost(lost) => (KIND_LOST, serde_json::to_vec(lost)?),
            Self::Ended(ended) => (KIND_ENDED, serde_json::to_vec(ended)?),
        })
    }
}
