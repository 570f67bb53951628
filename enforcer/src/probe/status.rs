//! Which hooks are in use.

use super::hooks::{Hook, Need};

/// A hook that was passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// Its name.
    pub name: &'static str,
    /// Why it is not in use.
    pub why: String,
}

/// What answers a need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookStatus {
    /// The need.
    pub need: Need,
    /// The name of the hook in use; `None` where there is none.
    pub in_use: Option<&'static str>,
    /// The better ones that were passed over, best first.
    pub tried: Vec<Tried>,
    /// What is lost without the best hook.
    pub lost: Option<&'static str>,
}

impl HookStatus {
    pub(crate) fn new(need: Need, in_use: Option<&Hook>, tried: Vec<Tried>) -> Self {
        let lost = match in_use {
            Some(hook) => hook.lost,
            None => Some(need.lost()),
        };
        Self { need, in_use: in_use.map(|hook| hook.name), tried, lost }
    }
}
