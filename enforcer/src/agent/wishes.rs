//! Which memory limits the kubelet is to lower, and when way is made for it. No I/O, no clock.

use crate::kube::{
    amounts::Kind,
    resize::{Field, Resize},
    state::{PodName, PodState, Role, Source},
};
use enforcer_gate::{Bytes, Instant, Micros};
use std::collections::BTreeMap;

/// After a first try that came to nothing the next is made this much later, and each further one twice as much.
const REST: Micros = Micros::from_secs(60);
const REST_MAX: Micros = Micros::from_secs(1800);

/// A limit that the kubelet was told to lower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) pod: PodName,
    pub(super) uid: String,
    /// The generation of the spec that says so.
    pub(super) generation: i64,
    pub(super) container: String,
    /// The runtime's id of it.
    pub(super) id: String,
    /// The limit that it is to have.
    pub(super) to: Bytes,
}

/// The limits of a pod that the kubelet is about to lower in place. Not what it puts off or will not do, what it restarts the
/// container for, or what its own manifest says.
pub(super) fn wishes(pod: &PodState) -> Vec<Wish> {
    let changes = match Resize::of(pod) {
        Resize::InFlight { changes, .. } | Resize::Error { changes, .. } => changes,
        Resize::None | Resize::Deferred { .. } | Resize::Infeasible { .. } => return Vec::new(),
    };
    if pod.source == Source::Static {
        return Vec::new();
    }
    let wish = |change: &crate::kube::resize::Change| {
        let is_memory = change.resource == Kind::Memory && change.field == Field::Limit;
        let container = pod.container(change.container.as_deref()?)?;
        let in_place = container.running && container.role != Role::Init && !container.restart_on.memory;
        (is_memory && change.is_shrink() && in_place).then(|| Wish {
            pod: pod.name.clone(),
            uid: pod.uid.clone(),
            generation: pod.generation,
            container: container.name.clone(),
            id: container.id.clone(),
            to: Bytes::new(change.to.unwrap_or_default()).page_floor(),
        })
    };
    changes.iter().filter_map(wish).collect()
}

/// When each was tried.
#[derive(Debug, Default)]
pub(super) struct Tries(BTreeMap<(String, String), Try>);

#[derive(Debug, Clone, Copy)]
struct Try {
    generation: i64,
    failed: u32,
    next: Instant,
}

impl Tries {
    /// Whether it is its turn. Another generation of the spec is another wish.
    pub(super) fn is_due(&self, wish: &Wish, now: Instant) -> bool {
        let tried = self.0.get(&(wish.uid.clone(), wish.container.clone()));
        tried.is_none_or(|tried| tried.generation != wish.generation || tried.next <= now)
    }

    /// It came to nothing.
    pub(super) fn failed(&mut self, wish: &Wish, now: Instant) {
        let tried = self.0.entry((wish.uid.clone(), wish.container.clone())).or_insert(Try {
            generation: wish.generation,
            failed: 0,
            next: now,
        });
        if tried.generation != wish.generation {
            (tried.generation, tried.failed) = (wish.generation, 0);
        }
        let doublings = tried.failed.min(16);
        tried.failed = tried.failed.saturating_add(1);
        tried.next = now.after(REST.scaled(1 << doublings, 1).min(REST_MAX));
    }

    /// Only what is of these pods is kept.
    pub(super) fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.0.retain(|(uid, _), _| is_there(uid));
    }
}

#[cfg(test)]
mod tests;
