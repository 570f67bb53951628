//! How a resize of a pod stands, from what the API says of it. No I/O, no clock.
//!
//! The kubelet's own words decide (`PodResizePending`, `PodResizeInProgress`; `pkg/kubelet/status/status_manager.go`);
//! what differs between spec and status says what is on its way.

use super::{
    amounts::{Amounts, Kind},
    state::{Condition, ContainerState, Level, PodState, Role},
};
use serde::Serialize;
use std::fmt;

/// How a resize stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Resize {
    /// What is desired is in force.
    None,
    /// It is on its way.
    InFlight {
        /// How far it is.
        phase: Phase,
        /// What it changes.
        changes: Vec<Change>,
        /// Since when, where the kubelet says: microseconds since 1970.
        since_us: Option<u64>,
    },
    /// The kubelet has no room for it, and tries again when a pod changes and every so often (30 s, then 3 min).
    Deferred {
        /// Why, in the kubelet's words.
        condition: Condition,
        /// What it would change.
        changes: Vec<Change>,
    },
    /// The kubelet will not do it until the spec changes.
    Infeasible {
        /// Why, in the kubelet's words.
        condition: Condition,
        /// What it would change.
        changes: Vec<Change>,
    },
    /// It was admitted and can't be carried out; the kubelet tries again.
    Error {
        /// Why, in the kubelet's words.
        condition: Condition,
        /// What it changes.
        changes: Vec<Change>,
    },
}

/// How far a resize is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The kubelet has not seen it yet.
    Asked,
    /// The kubelet has admitted it.
    Actuating,
    /// Spec and status differ, and no condition says why: for an instant in each resize, or for good where somebody else
    /// than the kubelet has changed the limit.
    Unexplained,
}

impl Phase {
    /// In a few words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Asked => "the kubelet has not seen it yet",
            Self::Actuating => "the kubelet is at it",
            Self::Unexplained => "no condition says why",
        }
    }
}

/// Request or limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Field {
    /// `requests`.
    Request,
    /// `limits`.
    Limit,
}

/// One amount that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The container; none: the pod's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Of what.
    pub resource: Kind,
    /// Which of the two.
    pub field: Field,
    /// In bytes or thousandths of a CPU; none where it has none.
    pub from: Option<u64>,
    /// As `from`.
    pub to: Option<u64>,
}

impl Change {
    /// A limit that goes down, or that is new.
    pub fn is_shrink(&self) -> bool {
        self.field == Field::Limit && self.to.is_some_and(|to| self.from.is_none_or(|from| to < from))
    }
}

impl fmt::Display for Change {
    /// `main memory limit 400Mi -> 200Mi`; names are escaped where it is printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount =
            |amount: Option<u64>| amount.map_or_else(|| "none".into(), |amount| self.resource.shown(amount));
        let field = match self.field {
            Field::Request => "request",
            Field::Limit => "limit",
        };
        let whose = self.container.as_deref().unwrap_or("pod");
        write!(f, "{whose} {} {field} {} -> {}", self.resource, amount(self.from), amount(self.to))
    }
}

impl Resize {
    /// How the resize of a pod stands.
    pub fn of(pod: &PodState) -> Self {
        let changes = changes(pod);
        let is =
            |found: &Option<Condition>, reason: &str| found.clone().filter(|found| found.reason == reason);
        // Pending comes first: what it says is about the newest spec.
        if let Some(condition) = is(&pod.pending, "Infeasible") {
            return Self::Infeasible { condition, changes };
        }
        if let Some(condition) = &pod.pending {
            return Self::Deferred { condition: condition.clone(), changes };
        }
        if let Some(condition) = is(&pod.in_progress, "Error") {
            return Self::Error { condition, changes };
        }
        if let Some(condition) = &pod.in_progress {
            let since_us = condition.since_us;
            return Self::InFlight { phase: Phase::Actuating, changes, since_us };
        }
        if changes.is_empty() {
            return Self::None;
        }
        let phase = if pod.is_observed() { Phase::Unexplained } else { Phase::Asked };
        Self::InFlight { phase, changes, since_us: None }
    }

    /// What it changes.
    pub fn changes(&self) -> &[Change] {
        match self {
            Self::None => &[],
            Self::InFlight { changes, .. }
            | Self::Deferred { changes, .. }
            | Self::Infeasible { changes, .. }
            | Self::Error { changes, .. } => changes,
        }
    }

    /// In a word.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::InFlight { .. } => "in flight",
            Self::Deferred { .. } => "deferred",
            Self::Infeasible { .. } => "infeasible",
            Self::Error { .. } => "error",
        }
    }
}

/// What is desired and not in force yet. A container that does not run takes what is desired when it starts, and an init
/// container's resources can't be changed.
fn changes(pod: &PodState) -> Vec<Change> {
    let can_change = |one: &&ContainerState| one.running && one.role != Role::Init;
    let own = pod.pod_level.as_ref().map(|level| (None, level));
    let containers =
        pod.containers.iter().filter(can_change).map(|one| (Some(one.name.as_str()), &one.level));
    own.into_iter().chain(containers).flat_map(|(name, level)| of_level(name, level)).collect()
}

fn of_level(name: Option<&str>, level: &Level) -> Vec<Change> {
    let Some(actual) = level.actual else { return Vec::new() };
    let of = |field, desired: Amounts, actual: Amounts| {
        let differs = move |kind: &Kind| is_other(*kind, field, desired.get(*kind), actual.get(*kind));
        Kind::ALL.into_iter().filter(differs).map(move |resource| Change {
            container: name.map(Into::into),
            resource,
            field,
            from: actual.get(resource),
            to: desired.get(resource),
        })
    };
    let desired = level.desired;
    of(Field::Limit, desired.limits, actual.limits)
        .chain(of(Field::Request, desired.requests, actual.requests))
        .collect()
}

/// What a step of `cpu.weight` is in thousandths of a CPU, rounded up: 262,142 shares over 9,999 weights.
const WEIGHT_STEP_MILLI: u64 = 26;

/// Runtimes report whole pages, and CPU requests through `cpu.shares` or even `cpu.weight`, which is coarse
/// (`CPUSharesEqualAfterV2RoundTrip`): what is that near is the same. The API can't take a limit or request away.
fn is_other(kind: Kind, field: Field, desired: Option<u64>, actual: Option<u64>) -> bool {
    let (Some(desired), found) = (desired, actual) else { return false };
    let Some(actual) = found else { return desired != 0 };
    match kind {
        Kind::Memory => desired.abs_diff(actual) >= enforcer_gate::PAGE_SIZE,
        // A period of 100 ms can't hold less than 10m.
        Kind::Cpu if field == Field::Limit => desired.max(10) != actual.max(10),
        Kind::Cpu => desired.abs_diff(actual) > WEIGHT_STEP_MILLI,
    }
}

#[cfg(test)]
#[path = "tests/resize.rs"]
mod tests;
