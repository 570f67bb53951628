//! Taking a shrink back through the API: from the kernel's limit being raised to one of three named ends. No I/O, no clock.
//!
//! - *restored*: spec, what was admitted and the kernel agree on the old limit.
//! - *held*: the kernel has the old limit and the spec has not, with the reason and a deadline; it may still be restored.
//! - *yielded*: somebody has decided anew since; the pod is guarded and no more is written.
//!
//! ```text
//! Open => (Open | Held | Restored | Yielded)
//! Held => (Held | Restored | Yielded)
//! ```

use super::{
    patch::{Outcome, Want},
    resize::Resize,
    state::PodState,
};
use enforcer_gate::{Bytes, Limit, Micros, PAGE_SIZE};
use serde::Serialize;

/// What is decided on: it holds for this pod at this generation, and no other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decided {
    /// The pod's uid.
    pub uid: String,
    /// The generation whose limit is taken back.
    pub generation: i64,
    /// The container.
    pub container: String,
    /// The limit that it is to have again.
    pub limit: Bytes,
}

/// How it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "take_back")]
pub enum Standing {
    /// It is being tried.
    Open,
    /// All agree.
    Restored,
    /// The kernel has it, the spec has not.
    Held {
        /// Why: the API server's or the kubelet's words, or that nobody answers.
        reason: String,
        /// Until when it is tried: microseconds since 1970.
        deadline_us: u64,
        /// That has passed: no more is sent, and a person is told.
        given_up: bool,
    },
    /// Somebody else has decided.
    Yielded {
        /// Their field manager, where it is known.
        manager: String,
    },
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Patch the pod as it was seen last.
    Patch(Want),
    /// Look at the pod again.
    Look,
    /// Wait for news.
    Wait,
    /// It has ended.
    End,
}

/// One take-back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakeBack {
    decided: Decided,
    /// The generation that our own patch made.
    ours: Option<i64>,
    standing: Standing,
    began_us: u64,
    deadline_us: u64,
}

impl TakeBack {
    /// Begins one; the kernel's limit was raised already. It is tried for so long.
    pub fn begin(decided: Decided, now_us: u64, tried_for: Micros) -> Self {
        let deadline_us = now_us.saturating_add(tried_for.get());
        Self { decided, ours: None, standing: Standing::Open, began_us: now_us, deadline_us }
    }

    /// What was decided.
    pub fn decided(&self) -> &Decided {
        &self.decided
    }

    /// How it stands.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// When it began: microseconds since 1970.
    pub fn began_us(&self) -> u64 {
        self.began_us
    }

    /// The pod as it is now, and the kernel's limit where it can be read. `None`: the pod is gone.
    pub fn on_pod(&mut self, pod: Option<&PodState>, kernel: Option<Limit>, now_us: u64) -> Next {
        if self.is_over() {
            return Next::End;
        }
        let Some(pod) = pod.filter(|pod| pod.uid == self.decided.uid && pod.holds_room()) else {
            // With the pod its limit is gone.
            return self.end(Standing::Yielded { manager: String::new() });
        };
        let Some(container) = pod.container(&self.decided.container) else {
            return self.end(Standing::Yielded { manager: String::new() });
        };
        let is_ours = |limit: Option<Bytes>| {
            limit.is_some_and(|limit| limit.get().abs_diff(self.decided.limit.get()) < PAGE_SIZE)
        };
        let wanted = is_ours(container.level.desired.limits.memory);
        let known = pod.generation == self.decided.generation || self.ours == Some(pod.generation);
        if !known && !wanted {
            let manager = pod.last_resize.as_ref().map(|writer| writer.manager.clone()).unwrap_or_default();
            return self.end(Standing::Yielded { manager });
        }
        if !wanted {
            return if self.ours.is_none() { self.patch(now_us) } else { Next::Wait };
        }
        let admitted = pod.allocated_limits(&container.level).and_then(|limits| limits.memory);
        let in_force = kernel.is_none_or(|limit| limit >= Limit::Bytes(self.decided.limit).held());
        if is_ours(admitted) && in_force && Resize::of(pod).changes().is_empty() {
            return self.end(Standing::Restored);
        }
        let reason = match Resize::of(pod) {
            Resize::Deferred { condition, .. }
            | Resize::Infeasible { condition, .. }
            | Resize::Error { condition, .. } => condition.message,
            Resize::None | Resize::InFlight { .. } => {
                return self.wait_or_give_up("the kubelet has not carried it out", now_us);
            }
        };
        self.hold(reason, now_us);
        Next::Wait
    }

    /// What came of the patch that [`Next::Patch`] asked for.
    pub fn on_outcome(&mut self, outcome: &Outcome, now_us: u64) -> Next {
        if self.is_over() {
            return Next::End;
        }
        match outcome {
            Outcome::Patched(pod) => {
                self.ours = Some(pod.generation);
                self.on_pod(Some(pod), None, now_us)
            }
            Outcome::Conflict => Next::Look,
            Outcome::Gone => self.end(Standing::Yielded { manager: String::new() }),
            Outcome::Refused(refusal) => {
                self.hold(refusal.message.clone(), now_us);
                Next::Wait
            }
            Outcome::Unavailable { why, .. } => {
                self.hold(why.to_string(), now_us);
                // The answer may have been lost alone.
                Next::Look
            }
        }
    }

    /// Something else keeps the patch from being made.
    pub fn stuck(&mut self, why: &str, now_us: u64) {
        if !self.is_over() {
            self.hold(why.to_owned(), now_us);
        }
    }

    fn patch(&mut self, now_us: u64) -> Next {
        if now_us >= self.deadline_us {
            return self.wait_or_give_up("it was not taken in time", now_us);
        }
        let limits = super::amounts::Amounts { memory: Some(self.decided.limit), cpu: None };
        Next::Patch(Want { container: Some(self.decided.container.clone()), limits })
    }

    fn wait_or_give_up(&mut self, why: &str, now_us: u64) -> Next {
        if now_us >= self.deadline_us {
            let reason = match &self.standing {
                Standing::Held { reason, .. } => reason.clone(),
                Standing::Open | Standing::Restored | Standing::Yielded { .. } => why.to_owned(),
            };
            self.hold(reason, now_us);
        }
        Next::Wait
    }

    fn hold(&mut self, reason: String, now_us: u64) {
        let given_up = now_us >= self.deadline_us;
        self.standing = Standing::Held { reason, deadline_us: self.deadline_us, given_up };
    }

    fn end(&mut self, standing: Standing) -> Next {
        self.standing = standing;
        Next::End
    }

    fn is_over(&self) -> bool {
        matches!(self.standing, Standing::Restored | Standing::Yielded { .. })
    }
}

#[cfg(test)]
#[path = "tests/takeback.rs"]
mod tests;
