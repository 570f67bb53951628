//! Restoring: files go back as found; a failure is tried again until the deadline.

use super::run::Run;
use crate::{Action, Instant, Limit, LimitFile, Policy, Reason, Verdict, text::escaped};
use alloc::{format, string::String};
use core::fmt::Write as _;

/// So many tries fit before the deadline.
const TRIES: u64 = 16;
const WHAT_BYTES_MAX: usize = 160;

/// What this state remembers.
#[derive(Debug, Clone)]
pub(super) struct Restoring {
    /// The verdict once everything is back.
    pub(super) goal: Verdict,
    pub(super) high: Option<Limit>,
    pub(super) max: Option<Limit>,
    last_error: Option<(String, i32)>,
}

impl Restoring {
    pub(super) fn new(goal: Verdict, high: Option<Limit>, max: Option<Limit>) -> Self {
        Self { goal, high, max, last_error: None }
    }

    pub(super) fn action(&self) -> Action {
        Action::Restore { high: self.high, max: self.max }
    }

    /// Whether the shrink is on its way back (and not merely letting go of the brake).
    pub(super) fn is_roll_back(&self) -> bool {
        self.goal != Verdict::Committed
    }

    /// A try failed: when the next is.
    pub(super) fn failed(&mut self, what: &str, errno: i32, policy: &Policy, now: Instant) -> Instant {
        self.last_error = Some((escaped(what, WHAT_BYTES_MAX), errno));
        now.after(policy.restore_deadline.scaled(1, TRIES))
    }

    /// The deadline passed: what is left, for people.
    pub(super) fn given_up(&self, run: &Run) -> Verdict {
        let mut what = String::from("not restored in time:");
        let mut left = |file: LimitFile, ours: Option<Limit>, found: Option<Limit>| {
            if let (Some(ours), Some(found)) = (ours, found) {
                let name = file.name();
                // Writing to a string does not fail.
                let (ours, found) = (ours.raw(), found.raw());
                let _ = write!(what, " {name} may be left at {ours} (was {found});");
            }
        };
        left(LimitFile::High, run.high_written, self.high);
        left(LimitFile::Max, Some(Limit::Bytes(run.target)), self.max);
        let (error, errno) = self.last_error.clone().unwrap_or_else(|| (String::from("no answer"), 0));
        Verdict::Failed(Reason::Io { what: format!("{what} {error}"), errno })
    }
}
