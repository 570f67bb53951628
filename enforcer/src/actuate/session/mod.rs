//! One piece of work on one cgroup.

mod begin;
mod lower;

use super::{
    ActuateError,
    above::{Above, settle_below},
    handle::{Raiser, RestoreHandle},
    interrupt::Interrupt,
    journal::Journal,
    lease::Lease,
    limit_fd::{LimitFd, NumberFd},
    nonblock::WriteMethod,
    restorer::{Acted, Heart, Restorer},
    settle::{Ours, Settled},
    shared::Shared,
};
use crate::cgroup::Cgroup;
use enforcer_gate::{Bytes, Limit, LimitFile, Micros, Policy};
use std::{os::fd::OwnedFd, sync::Arc, time::Duration};

/// What can be set about a session.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// The restorer puts everything back this long after the begin, whatever this process is doing.
    pub deadline: Duration,
    /// How limits are written; `None` finds out, once a process.
    pub method: Option<WriteMethod>,
    /// What somebody else writes as well.
    pub foretold: Option<Foretold>,
}

/// A limit that somebody else, a kubelet say, was told to set as well, and may set at any time.
#[derive(Debug, Clone)]
pub struct Foretold {
    /// The value of `memory.max`: where the file holds it, the session takes it for its own from the begin on.
    pub max: Bytes,
    /// The cgroup above whose `memory.max` they lower next, a pod's. Wherever the session, or its restorer, puts `memory.max`
    /// back, this one goes up first to what it held at the begin, if it holds less. `recover` does not know of it.
    pub above: Option<Cgroup>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self { deadline: Duration::from_mins(10), method: None, foretold: None }
    }
}

impl SessionOptions {
    /// For a shrink under this policy: the restorer acts when every state has had all of its time and as much again to
    /// spare.
    pub fn of(policy: &Policy) -> Self {
        let states = [
            policy.observe_window,
            policy.reclaim_deadline,
            policy.trial_window,
            policy.commit_deadline,
            policy.watch_window,
            policy.restore_deadline,
        ];
        let whole: Micros = states.into_iter().sum();
        let spare = Duration::from_mins(1);
        Self {
            deadline: Duration::from_micros(whole.get()).saturating_mul(2).saturating_add(spare),
            ..Self::default()
        }
    }
}

/// Work on one cgroup's `memory.high` and `memory.max`, from [`Self::begin`] to [`Self::finish`].
///
/// Every value that is about to be written is on disk and with the restorer first, so whatever happens to this process
/// leaves the files as found. Calls block; they are meant for a thread of their own, with a [`RestoreHandle`] elsewhere.
/// Dropped without `finish`, everything is put back as after a crash.
#[derive(Debug)]
pub struct Session {
    cgroup: Cgroup,
    // Before the restorer: whoever raises in this process has ended when the restorer is let go.
    raiser: Raiser,
    restorer: Restorer,
    journal: Journal,
    // Last of what says that the cgroup is taken.
    _lease: Lease,
    shared: Arc<Shared>,
    interrupt: Interrupt,
    method: WriteMethod,
    high: Target,
    max: Target,
    above: Option<Above>,
    current: NumberFd,
    reclaim: OwnedFd,
    notes: Vec<String>,
}

#[derive(Debug)]
struct Target {
    fd: LimitFd,
    found: Limit,
}

impl Session {
    /// What could not be had although it would make the work safer, for people.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// How `memory.max` is written here.
    pub fn method(&self) -> WriteMethod {
        self.method
    }

    /// What a file held at the begin.
    pub fn found(&self, file: LimitFile) -> Limit {
        self.target(file).found
    }

    /// Tells that the restorer has put everything back, or has ended, which it must not do before the session.
    pub fn restorer_acted(&self) -> std::io::Result<Acted> {
        self.restorer.acted().try_clone()
    }

    /// The restorer's process id.
    pub fn restorer_pid(&self) -> u32 {
        self.restorer.pid()
    }

    /// A way to tell the restorer, from the loop that drives this session, that the loop runs.
    pub fn heart(&self) -> Heart {
        self.restorer.heart()
    }

    /// A way to put files back from any thread.
    pub fn restore_handle(&self) -> RestoreHandle {
        self.raiser.handle().clone()
    }

    fn target(&self, file: LimitFile) -> &Target {
        match file {
            LimitFile::High => &self.high,
            LimitFile::Max => &self.max,
        }
    }

    /// Ends the work. The brake comes off if it is still on. `kept`: a committed limit stays; else it goes back as found
    /// too, where a restore has not done so before. Answers what people should know of it beside that.
    ///
    /// Fails with [`ActuateError::NotRestored`] where a file of ours could not be put back; the journal then stays for
    /// [`recover`](super::recover). A cgroup that is gone, or a value of somebody else, is no failure. Fails with
    /// [`ActuateError::Undone`] where the restorer had put back what was to be kept; nothing of ours is left then.
    pub fn finish(self, kept: bool) -> Result<Vec<String>, ActuateError> {
        // Dropped from the last to the first where one of these fails, as after a crash: the restorer tries once more.
        let Self { cgroup, above, shared, high, max, journal, restorer, raiser, .. } = self;
        let put_back = |file: LimitFile, target: &Target| {
            let ours = shared.ours(file);
            if ours == Ours::default() {
                return Ok(());
            }
            let above = above.as_ref().filter(|_| file == LimitFile::Max);
            if let Settled::Failed(errno) = settle_below(above, &target.fd, ours, target.found) {
                let what =
                    format!("can't put {} back to {}: {}", file.name(), target.found.raw(), errno.desc());
                return Err(ActuateError::NotRestored { path: cgroup.absolute().into(), what });
            }
            Ok(())
        };
        if !kept {
            put_back(LimitFile::Max, &max)?;
            shared.forget(LimitFile::Max);
        }
        put_back(LimitFile::High, &high)?;
        shared.forget(LimitFile::High);
        drop(raiser);
        let pid = restorer.pid();
        let went = restorer.done();
        let is_undone = kept && went.has_acted && shared.ours(LimitFile::Max) != Ours::default();
        if is_undone {
            // It has done so, unless somebody has written the value again.
            put_back(LimitFile::Max, &max)?;
        }
        journal.close()?;
        if is_undone {
            return Err(ActuateError::Undone { path: cgroup.absolute().into() });
        }
        let stayed = || {
            format!("the restorer (pid {pid}) did not end by itself and was killed; all files are as said")
        };
        Ok(if went.by_itself { Vec::new() } else { vec![stayed()] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_restorer_outlasts_every_state() {
        let policy = Policy::default();
        let spans = policy.trial_window.get() + policy.watch_window.get() + policy.reclaim_deadline.get();
        assert!(SessionOptions::of(&policy).deadline > Duration::from_micros(spans));
    }
}
