//! What the gate wants done.

use crate::{Bytes, Limit};
use serde::{Deserialize, Serialize};

/// Names one command of one gate; outcomes carry it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommandId(pub u64);

/// One thing to do. At most one is in flight, with one exception: `Restore` may come while another is,
/// takes its place, and must not wait for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Its name.
    pub id: CommandId,
    /// What to do.
    pub action: Action,
}

/// The closed set of things that the gate can ask for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Read the cgroup's figures now.
    Observe,
    /// Write `bytes` to `memory.reclaim`.
    Reclaim {
        /// How much to ask for.
        bytes: Bytes,
    },
    /// Lower `memory.high` to brake growth; never raises it.
    SetBrake {
        /// The value to write.
        high: Limit,
    },
    /// Lower `memory.max`, if usage read immediately before is at most `usage_at_most`.
    Commit {
        /// The value to write.
        max: Bytes,
        /// The check right before the write.
        usage_at_most: Bytes,
    },
    /// Put files back as found. Only raises, and only where the file still holds our value.
    Restore {
        /// `memory.high` as found, where it is to go back.
        high: Option<Limit>,
        /// `memory.max` as found, where it is to go back.
        max: Option<Limit>,
    },
}
