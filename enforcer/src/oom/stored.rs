//! Records as payloads of the store, and back. No I/O.

use super::record::{Began, Lost, OomRecord};
use crate::store::{Kind, PAYLOAD_BYTES_MAX, Payload, Record};
use serde::Serialize;

/// [`OomRecord`] as JSON.
pub const KIND_OOM: Kind = Kind(1);
/// [`Began`] as JSON.
pub const KIND_BEGAN: Kind = Kind(2);
/// [`Lost`] as JSON.
pub const KIND_LOST: Kind = Kind(3);

/// What a record of the store says.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stored {
    /// An OOM.
    Oom(Box<OomRecord>),
    /// A recorder began.
    Began(Began),
    /// Something was lost.
    Lost(Lost),
}

impl Payload for Stored {
    fn decode(record: &Record) -> Result<Option<Self>, serde_json::Error> {
        let payload = &record.payload;
        Ok(Some(match record.kind {
            KIND_OOM => Self::Oom(Box::new(serde_json::from_slice(payload)?)),
            KIND_BEGAN => Self::Began(serde_json::from_slice(payload)?),
            KIND_LOST => Self::Lost(serde_json::from_slice(payload)?),
            Kind(_) => return Ok(None),
        }))
    }

    fn encode(&self) -> Result<(Kind, Vec<u8>), serde_json::Error> {
        let (kind, payload) = match self {
            Self::Oom(record) => (KIND_OOM, serde_json::to_vec(record)?),
            Self::Began(began) => (KIND_BEGAN, serde_json::to_vec(began)?),
            Self::Lost(lost) => (KIND_LOST, serde_json::to_vec(lost)?),
        };
        if payload.len() <= PAYLOAD_BYTES_MAX {
            return Ok((kind, payload));
        }
        match self {
            // Names of the longest kind in every place: fewer victims then.
            Self::Oom(record) if record.victims.len() > 1 => {
                let mut shorter = record.clone();
                let kept = shorter.victims.len() / 2;
                let cut = u32::try_from(shorter.victims.len() - kept).unwrap_or(u32::MAX);
                shorter.victims.truncate(kept);
                shorter.victims_lost = shorter.victims_lost.saturating_add(cut);
                Self::Oom(shorter).encode()
            }
            Self::Oom(_) | Self::Began(_) | Self::Lost(_) => Ok((kind, payload)),
        }
    }
}
