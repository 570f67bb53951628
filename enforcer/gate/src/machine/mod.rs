//! The gate itself.
//!
//! ```text
//! Idle       => Observing
//! Observing  => (Reclaiming | Ended)            Ended: Feasible, Refused, Failed(Gone)
//! Reclaiming => (Trial | Ended)                 Ended: Refused, Failed(Gone)
//! Trial      => (Committing | Restoring)        memory.high is lowered first thing
//! Committing => (Watching | Restoring)
//! Watching   => Restoring
//! Restoring  => (Restoring | Ended)             Ended: Committed, RolledBack, Failed
//! Ended      => Observing                       the next request
//! ```
//! Where somebody else writes the target first, as the request said that it might, Observing and Reclaiming lead to Trial and
//! Trial to Committing at once, and none of them to Ended without Restoring.
//! From every state `Gone` leads to Ended with Failed, for there is nothing left to put back. Trial,
//! Committing and Watching end without Restoring only where no file was written. Restoring leads to
//! itself when a shrink that was about to be Committed has to be taken back after all.

mod back_off;
mod committing;
mod ending;
mod evidence;
mod flight;
mod monitor;
mod observing;
mod outcomes;
mod reclaiming;
mod restoring;
mod run;
mod sight;
mod stage;

pub use evidence::Progress;
pub use reclaiming::ReclaimStep;

use crate::{
    Action, Certificate, Command, Instant, Limit, LimitFile, Outcome, Policy, PolicyError, Reason, Request,
    Signal, State, certificate::NOTE_BYTES_MAX, text::escaped,
};
use alloc::format;
use back_off::BackOffs;
use flight::{Due, Flight};
use run::{OBSERVE_DEADLINE, Run};
use stage::{Stage, Step};

/// A state may lead straight to the next, through all of them at most.
const CHAIN_MAX: usize = 8;

/// The shrink gate of one cgroup. It survives its requests: what failed is remembered as back-off.
///
/// Feed it what happens, carry out [`poll_command`](Self::poll_command) until that gives `None`, and
/// call [`handle_timeout`](Self::handle_timeout) at [`poll_timeout`](Self::poll_timeout). `now` must
/// come from one monotonic clock; an earlier one counts as the last.
#[derive(Debug)]
pub struct Gate {
    policy: Policy,
    flight: Flight,
    run: Option<Run>,
    runs: u64,
    certificate: Option<Certificate>,
    back_offs: BackOffs,
    now: Instant,
}

impl Gate {
    /// A gate with nothing asked of it.
    ///
    /// # Errors
    /// Every fault of the policy.
    pub fn new(policy: Policy) -> Result<Self, PolicyError> {
        policy.validate()?;
        Ok(Self {
            policy,
            flight: Flight::default(),
            run: None,
            runs: 0,
            certificate: None,
            back_offs: BackOffs::default(),
            now: Instant::ZERO,
        })
    }

    /// Takes in something that happened. A request while a shrink is on its way does not disturb it and
    /// is noted in its certificate; other signals count only while a shrink is on its way, but for
    /// [`Signal::RestorerGone`]: what it put back after the end is not in force, whatever the certificate said.
    pub fn handle_signal(&mut self, signal: &Signal, now: Instant) {
        let now = self.advance(now);
        match signal {
            Signal::Request(request) => self.request(request, now),
            Signal::ReclaimBegin | Signal::Pressure | Signal::EventsChanged => self.nudge(now),
            Signal::ReclaimEnd { reclaimed: _, took } => {
                if let Some(run) = &mut self.run {
                    run.direct_reclaim = run.direct_reclaim.saturating_add(*took);
                }
                self.nudge(now);
            }
            Signal::OomKill { victim_pid, own_limit: true } => {
                self.stop(Reason::OomKill { victim_pid: *victim_pid }, now);
            }
            Signal::OomKill { victim_pid, own_limit: false } => {
                if let Some(run) = &mut self.run {
                    run.notes.add(format!("pid {victim_pid} was killed for another cgroup's limit"));
                }
                self.nudge(now);
            }
            Signal::LimitWritten { file, new, .. } => self.limit_written(*file, *new, now),
            Signal::ProbeFailed => self.stop(Reason::ProbeFailed, now),
            Signal::Gone => self.stop(Reason::Gone, now),
            Signal::Cancel => self.stop(Reason::Cancelled, now),
            Signal::RestorerGone => {
                self.undone();
                self.stop(Reason::RestorerGone, now);
            }
        }
        self.pass_time(now);
    }

    /// Takes in what came of a command. An outcome of a command that is not in flight is ignored.
    pub fn handle_outcome(&mut self, outcome: &Outcome, now: Instant) {
        let now = self.advance(now);
        let Some(slot) = self.flight.land(outcome.id) else { return };
        if self.run.as_ref().is_none_or(|run| run.number != slot.run) {
            return;
        }
        let Some(step) = self.answered(&slot, &outcome.kind, now) else { return };
        self.apply(step, now);
        self.pass_time(now);
    }

    /// The next thing to do. `Restore` takes the place of a command in flight, whose outcome is ignored
    /// from then on; everything else waits until nothing is in flight.
    pub fn poll_command(&mut self) -> Option<Command> {
        self.flight.poll(self.now)
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called: `Some` in every state but Idle
    /// and Ended.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let run = self.run.as_ref()?;
        [Some(run.deadline), run.wake, self.flight.due_any()].into_iter().flatten().min()
    }

    /// Takes in that time passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.advance(now);
        self.pass_time(now);
    }

    /// What is due by `now`. Signals and outcomes bring it about too, so that a flood of them can't keep
    /// a deadline from its effect.
    fn pass_time(&mut self, now: Instant) {
        self.flight.drop_stale(self.run.as_ref().map(|run| run.number), now);
        let Some(run) = &mut self.run else { return };
        let state = run.stage.state();
        let overdue = self.flight.due(run.number).is_some_and(|due| due <= now);
        if run.deadline <= now || overdue {
            match &run.stage {
                Stage::Restoring(restoring) => {
                    let verdict = restoring.given_up(run);
                    self.apply(Step::Finish(verdict), now);
                }
                Stage::Observing
                | Stage::Reclaiming(_)
                | Stage::Trial(_)
                | Stage::Committing(_)
                | Stage::Watching(_) => {
                    let unseen = !overdue && run.lacks_window();
                    let reason = if unseen { Reason::Unseen { state } } else { Reason::Deadline { state } };
                    self.stop(reason, now);
                }
            }
            return;
        }
        if run.wake.is_some_and(|wake| wake <= now) {
            run.wake = None;
            if !self.flight.is_busy(run.number) {
                let action = match &run.stage {
                    Stage::Restoring(restoring) => restoring.action(),
                    Stage::Observing
                    | Stage::Reclaiming(_)
                    | Stage::Trial(_)
                    | Stage::Committing(_)
                    | Stage::Watching(_) => Action::Observe,
                };
                self.push(action, now);
            }
        }
    }

    /// Time as the gate knows it: it never goes back.
    fn advance(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    fn request(&mut self, request: &Request, now: Instant) {
        if let Some(run) = &mut self.run {
            let wanted = request.target;
            run.notes.add(format!("a second request, for {wanted}, came meanwhile: ignored"));
            return;
        }
        self.certificate = None;
        self.runs = self.runs.saturating_add(1);
        self.run = Some(Run::new(self.runs, request, &self.policy, now));
        self.apply(Step::Observe(now), now);
    }

    /// Something happened that may matter: read soon.
    fn nudge(&mut self, now: Instant) {
        let Some(run) = &mut self.run else { return };
        match run.stage {
            Stage::Trial(_) | Stage::Committing(_) | Stage::Watching(_) => {}
            // Nothing of ours is in force yet, or no longer.
            Stage::Observing | Stage::Reclaiming(_) | Stage::Restoring(_) => return,
        }
        let at = run.nudged_at(&self.policy, now);
        self.read_at(at, now);
    }

    /// A reading at that time, or soon after what is in flight has landed.
    fn read_at(&mut self, at: Instant, now: Instant) {
        let Some(run) = &mut self.run else { return };
        if self.flight.is_busy(run.number) {
            run.nudged = true;
        } else {
            self.apply(Step::Observe(at), now);
        }
    }

    /// Somebody wrote a limit; our own writes are told apart by their value.
    fn limit_written(&mut self, file: LimitFile, new: Limit, now: Instant) {
        let Some(run) = &mut self.run else { return };
        let found = run.found;
        let ours = match file {
            LimitFile::High => run.high_written.or(found.map(|found| found.high)),
            LimitFile::Max if run.max_written => Some(Limit::Bytes(run.target)),
            LimitFile::Max => found.map(|found| found.max),
        };
        let restoring = matches!(run.stage, Stage::Restoring(_));
        let put_back = restoring && file == LimitFile::High;
        let by_other = match file {
            LimitFile::Max => run.awaits(new),
            LimitFile::High => run.loses_brake(new),
        };
        let again = run.max_written && ours == Some(new);
        if file == LimitFile::Max && run.request.by_other && !restoring && (by_other || again) {
            // From here on it is theirs as well.
            run.taken = true;
        }
        if ours.is_none() || ours == Some(new) || put_back {
            return;
        }
        if by_other {
            self.read_at(now, now);
            return;
        }
        self.stop(Reason::LimitWritten { file, found: new }, now);
    }

    /// Carries out what a state wants.
    fn apply(&mut self, step: Step, now: Instant) {
        let mut next = step;
        for _ in 0..CHAIN_MAX {
            let Some(run) = &mut self.run else { return };
            next = match next {
                Step::Observe(at) => {
                    let soon = if core::mem::take(&mut run.nudged) {
                        run.nudged_at(&self.policy, now).min(at)
                    } else {
                        at
                    };
                    if soon <= now {
                        self.push(Action::Observe, now);
                    } else {
                        run.wake = Some(run.wake.map_or(soon, |wake| wake.min(soon)));
                    }
                    return;
                }
                Step::Act(action) => {
                    self.push(action, now);
                    return;
                }
                Step::Go(stage) => run.enter(stage, &self.policy, now),
                Step::Stop(reason) => match Self::way_back(run, reason) {
                    Some(step) => step,
                    None => return,
                },
                Step::Finish(verdict) => {
                    self.finish(verdict, now);
                    return;
                }
            };
        }
    }

    fn stop(&mut self, reason: Reason, now: Instant) {
        self.apply(Step::Stop(reason), now);
    }

    /// Sends a command on its way.
    fn push(&mut self, action: Action, now: Instant) {
        let Some(run) = &mut self.run else { return };
        let due = match &action {
            Action::Observe => Due::Within(OBSERVE_DEADLINE),
            Action::Reclaim { .. } | Action::Restore { .. } => Due::At(run.deadline),
            Action::SetBrake { high } => {
                run.high_written = Some(*high);
                Due::Within(self.policy.commit_deadline)
            }
            Action::Commit { .. } => {
                run.max_written = true;
                Due::Within(self.policy.commit_deadline)
            }
        };
        run.wake = None;
        self.flight.push(action, due, now, run.number);
    }

    /// Adds a note to the certificate of the shrink on its way, for what only the caller sees (a heap
    /// ceiling over the target, a signal that this node lacks). Untrusted text is made fit to print; it
    /// changes no command.
    pub fn note(&mut self, text: &str) {
        if let Some(run) = &mut self.run {
            run.notes.add(escaped(text, NOTE_BYTES_MAX));
        }
    }

    /// The state.
    pub fn state(&self) -> State {
        match (&self.run, &self.certificate) {
            (Some(run), _) => run.stage.state(),
            (None, Some(_)) => State::Ended,
            (None, None) => State::Idle,
        }
    }

    /// The evidence of the last shrink, once that has ended.
    pub fn certificate(&self) -> Option<&Certificate> {
        self.certificate.as_ref()
    }

    /// The thresholds in force.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// How the shrink stands; `None` in Idle and Ended.
    pub fn progress(&self) -> Option<Progress> {
        self.run.as_ref().map(|run| evidence::progress(run, &self.flight, &self.policy))
    }
}
