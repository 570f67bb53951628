//! Why a resize is stuck, or may not be what it seems: each reason with a stable code, what is, the values that it is
//! read from, and what to do. No I/O, no clock.
//!
//! What a kubelet says is told apart by its words, as 1.35.8, 1.36.2 and 1.37.0 have them; words that are not known are
//! given as they are. Texts hold other people's names and words: they are escaped where they are printed.

mod code;
mod pending;
mod refused;
mod standing;
mod stuck;

use super::{
    amounts::Kind,
    flapping::Flapping,
    node::NodeState,
    resize::Resize,
    scheduler::{Rules, figures},
    state::{PodName, PodState},
};
pub use code::Code;
use enforcer_gate::{Bytes, Limit};
pub use refused::{Refusal, of_refusal};
use serde::Serialize;
use std::{collections::BTreeMap, fmt};

/// Most values that a reason is told with.
const EVIDENCE_MAX: usize = 12;

/// One reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// Which one; it stays the same from version to version.
    pub code: Code,
    /// What is, in a sentence.
    pub what: String,
    /// The values that it is read from: a name and a value each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<(String, String)>,
    /// What to do; empty where there is nothing to do.
    #[serde(rename = "do", skip_serializing_if = "String::is_empty")]
    pub todo: String,
}

impl Reason {
    fn new(code: Code, what: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { code, what: what.into(), evidence: Vec::new(), todo: todo.into() }
    }

    fn with(mut self, name: &str, value: impl fmt::Display) -> Self {
        if self.evidence.len() < EVIDENCE_MAX {
            self.evidence.push((name.into(), format!("{value}")));
        }
        self
    }

    fn with_some(self, name: &str, value: Option<impl fmt::Display>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }
}

/// What the reasons are read from.
#[derive(Debug, Clone, Copy)]
pub struct Given<'a> {
    /// The pod.
    pub pod: &'a PodState,
    /// Its node, where it is known.
    pub node: Option<&'a NodeState>,
    /// The pods of its node that are known, itself among them or not.
    pub pods: &'a [PodState],
    /// What its cgroups say, where they can be read.
    pub kernel: Option<&'a Kernel>,
    /// Who changes it to and fro.
    pub flapping: Option<&'a Flapping>,
}

/// What a pod's cgroups say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kernel {
    /// Its own.
    pub pod: Option<Usage>,
    /// Each container's, by name.
    pub containers: BTreeMap<String, Usage>,
}

/// What one cgroup says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// `memory.current`, where it was read.
    pub current: Option<Bytes>,
    /// `memory.max`.
    pub limit: Limit,
    /// What stays whatever is reclaimed, where that was computed.
    pub floor: Option<Bytes>,
}

/// Every reason that is found, the one that stops it first.
pub fn reasons(given: &Given<'_>) -> Vec<Reason> {
    let resize = Resize::of(given.pod);
    let mut found = Vec::new();
    match &resize {
        Resize::None => {}
        Resize::InFlight { .. } => found.extend(standing::in_flight(given, &resize)),
        Resize::Deferred { condition, .. } => found.push(pending::deferred(given, condition)),
        Resize::Infeasible { condition, .. } => found.push(pending::infeasible(given, condition)),
        Resize::Error { condition, .. } => found.extend(stuck::error(given, condition)),
    }
    found.extend(standing::of_node(given, &resize));
    found.extend(standing::of_pod(given, &resize));
    found.extend(given.flapping.map(standing::flapping));
    found
}

/// Who holds most of a resource on the node as the kubelet has admitted it, without the pod itself.
fn holders(given: &Given<'_>, kind: Kind) -> Vec<(PodName, u64)> {
    let here = |pod: &&PodState| pod.node == given.pod.node && pod.uid != given.pod.uid && pod.holds_room();
    let rules = Rules::of(given.node.and_then(|node| node.kubelet));
    let mut all: Vec<_> = (given.pods.iter().filter(here))
        .filter_map(|pod| Some((pod.name.clone(), figures(pod, rules).allocated.get(kind)?)))
        .filter(|(_, held)| *held > 0)
        .collect();
    all.sort_by(|(one, held), (other, more)| more.cmp(held).then_with(|| one.cmp(other)));
    all
}

/// A number that follows `before` in a message.
fn number_after(message: &str, before: &str) -> Option<u64> {
    let (_, rest) = message.split_once(before)?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    rest[..digits].parse().ok()
}

#[cfg(test)]
#[path = "../tests/reasons/mod.rs"]
mod tests;
