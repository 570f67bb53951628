//! The thread that carries out the gate's commands, one at a time.
//!
//! Reading and lowering may block in the kernel for long, so they happen here and never on the event
//! loop. Raising does not come through here: see [`RestoreHandle`].

use crate::actuate::{RestoreHandle, Session};
use crate::cgroup::{CgroupError, Sampler};
use enforcer_gate::{Action, Command, CommandId, Limit, Outcome, OutcomeKind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A restore: its command, and what `memory.high` and `memory.max` go back to.
type Raise = (CommandId, Option<Limit>, Option<Limit>);

/// The worker threads of one shrink and the way to them. The gate has at most one command in flight and
/// one restore beside it, which bounds the channels.
pub(super) struct Actuator {
    commands: Option<Sender<Command>>,
    restores: Option<Sender<Raise>>,
    outcomes: UnboundedReceiver<Outcome>,
    worker: JoinHandle<Worker>,
    raiser: JoinHandle<()>,
}

/// What the worker owns.
pub(super) struct Worker {
    /// Reads the cgroup.
    pub(super) sampler: Sampler,
    /// Lowers limits; `None` for a dry run, which has nothing to lower.
    pub(super) session: Option<Session>,
    /// The longest that a commit may take.
    pub(super) commit_deadline: Duration,
}

impl Actuator {
    /// Starts the threads.
    pub(super) fn start(worker: Worker) -> std::io::Result<Self> {
        let (commands, command_queue) = channel();
        let (restores, restore_queue) = channel();
        let (done, outcomes) = unbounded_channel();
        let handle = worker.session.as_ref().map(Session::restore_handle);
        let raiser_done = done.clone();
        let raiser = std::thread::Builder::new()
            .name("enforcer-raise".into())
            .spawn(move || raise(handle.as_ref(), &restore_queue, &raiser_done))?;
        let worker = std::thread::Builder::new()
            .name("enforcer-write".into())
            .spawn(move || worker.serve(&command_queue, &done))?;
        Ok(Self { commands: Some(commands), restores: Some(restores), outcomes, worker, raiser })
    }

    /// Hands over one command; returns at once.
    pub(super) fn submit(&self, command: Command) {
        // A send fails only when a worker has panicked; the gate's deadline for the outcome then ends the
        // shrink, and the restorer process puts the files back.
        if let Action::Restore { high, max } = command.action {
            if let Some(restores) = &self.restores {
                let _ = restores.send((command.id, high, max));
            }
        } else if let Some(commands) = &self.commands {
            let _ = commands.send(command);
        }
    }

    /// The next outcome. Cancel safe.
    pub(super) async fn outcome(&mut self) -> Option<Outcome> {
        self.outcomes.recv().await
    }

    /// An outcome that is there already.
    pub(super) fn landed(&mut self) -> Option<Outcome> {
        self.outcomes.try_recv().ok()
    }

    /// Ends the threads and gives back what the worker owned; `None` where it panicked.
    pub(super) fn stop(mut self) -> Option<Worker> {
        self.commands = None;
        self.restores = None;
        let worker = self.worker.join().ok();
        self.raiser.join().ok()?;
        worker
    }
}

impl Worker {
    fn serve(mut self, queue: &Receiver<Command>, done: &UnboundedSender<Outcome>) -> Self {
        while let Ok(command) = queue.recv() {
            let kind = self.carry_out(&command.action);
            if done.send(Outcome { id: command.id, kind }).is_err() {
                break;
            }
        }
        self
    }

    fn carry_out(&mut self, action: &Action) -> OutcomeKind {
        match (action, self.session.as_mut()) {
            (Action::Observe, _) => match self.sampler.sample() {
                Ok(sample) => OutcomeKind::Sampled(Box::new(sample)),
                Err(CgroupError::Gone { .. }) => OutcomeKind::Gone,
                Err(error) => OutcomeKind::Failed { what: error.to_string(), errno: 0 },
            },
            (Action::Reclaim { bytes }, Some(session)) => session.reclaim(*bytes),
            (Action::SetBrake { high }, Some(session)) => session.set_brake(*high),
            (Action::Commit { max, usage_at_most }, Some(session)) => {
                session.commit(*max, *usage_at_most, self.commit_deadline)
            }
            (Action::Restore { .. }, Some(_)) | (_, None) => {
                OutcomeKind::Failed { what: format!("{action:?} does not belong here"), errno: 0 }
            }
        }
    }
}

fn raise(handle: Option<&RestoreHandle>, queue: &Receiver<Raise>, done: &UnboundedSender<Outcome>) {
    while let Ok((id, high, max)) = queue.recv() {
        let kind = match handle {
            Some(handle) => handle.restore(high, max),
            None => OutcomeKind::Failed { what: "a dry run has nothing to restore".into(), errno: 0 },
        };
        if done.send(Outcome { id, kind }).is_err() {
            return;
        }
    }
}
