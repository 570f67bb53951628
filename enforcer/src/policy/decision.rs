//! What the schedule is told of a container, and what it says.

use super::Why;
use enforcer_gate::{Bytes, CgroupId, Instant, Limit};

/// A container's place in its pod, which outlives the container: what was learned of one holds for the next.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// The pod's UID.
    pub pod: String,
    /// The container's name in the pod.
    pub container: String,
}

/// How a container is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Its cgroup: another one in the same slot is a container that was started anew.
    pub cgroup: CgroupId,
    /// The limit in force.
    pub limit: Limit,
    /// What it uses.
    pub usage: Bytes,
    /// The lowest limit that the gate would let in; `None` where that is not known.
    pub safe_minimum: Option<Bytes>,
    /// Share of the last ten seconds in which some task waited for memory, in hundredths of a per cent.
    pub psi_some_avg10: u64,
    /// Its limits are being changed, by whomever.
    pub in_flight: bool,
    /// All actuation is stopped.
    pub paused: bool,
    /// Limits of its pod, or of another container of it, are being changed.
    pub pod_busy: bool,
}

/// What is to be done with a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Lower its limit. It counts as begun; [`super::Scheduler::ended`] is to be told how it ended.
    Shrink {
        /// The new limit: whole mebibytes.
        target: Bytes,
        /// Why.
        why: Why,
    },
    /// Nothing yet.
    Wait {
        /// Until then at least; later than now, unless time itself ends there.
        until: Instant,
        /// What is waited for.
        why: Why,
    },
    /// Nothing, for as long as that is so.
    Blocked {
        /// What is in the way.
        why: Why,
    },
}

impl Decision {
    /// Why it is what it is.
    pub const fn why(self) -> Why {
        match self {
            Self::Shrink { why, .. } | Self::Wait { why, .. } | Self::Blocked { why } => why,
        }
    }

    /// One line for people, with times from `now`.
    pub fn told(self, now: Instant) -> String {
        match self {
            Self::Shrink { target, why } => format!("is lowered to {target}: {why}"),
            Self::Wait { until, why } => format!("waits {}: {why}", until.since(now)),
            Self::Blocked { why } => format!("is left alone: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_people() {
        let now = Instant::new(5_000_000);
        let told = |decision: Decision| decision.told(now);
        assert_eq!(
            told(Decision::Shrink { target: Bytes::from_mib(116), why: Why::Gain }),
            "is lowered to 116Mi: the limit is well above what it needs"
        );
        assert_eq!(
            told(Decision::Wait { until: Instant::new(125_000_000), why: Why::Budget }),
            "waits 2m: the node's changes are spread over the hour; none is due yet"
        );
        assert_eq!(told(Decision::Blocked { why: Why::Guard }), "is left alone: its mode is guard");
    }
}
