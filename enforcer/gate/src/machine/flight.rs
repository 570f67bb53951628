//! The commands on their way: at most one, except that a restore takes another's place.

use crate::{Action, Command, CommandId, Instant, Micros};

/// One command and when its outcome is due.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub(super) command: Command,
    pub(super) due: Instant,
    /// When it was fetched (asked for, until then).
    pub(super) since: Instant,
    /// How long it may take from when it is fetched; `None`: until `due`, whenever that is.
    span: Option<Micros>,
    /// The shrink that it belongs to; outcomes for an earlier one only free the slot.
    pub(super) run: u64,
}

/// When an outcome is due.
#[derive(Debug, Clone, Copy)]
pub(super) enum Due {
    /// So long after the command was fetched.
    Within(Micros),
    /// Then.
    At(Instant),
}

/// The commands of one gate.
#[derive(Debug, Default)]
pub(super) struct Flight {
    last_id: u64,
    waiting: Option<Slot>,
    flying: Option<Slot>,
}

impl Flight {
    /// Queues a command; it takes the place of one that was not fetched yet, and a restore also that of one in
    /// flight, whose lateness must not count against the restore.
    pub(super) fn push(&mut self, action: Action, due: Due, now: Instant, run: u64) {
        if matches!(action, Action::Restore { .. }) {
            self.flying = None;
        }
        self.last_id = self.last_id.saturating_add(1);
        let command = Command { id: CommandId(self.last_id), action };
        let (due, span) = match due {
            Due::Within(span) => (now.after(span), Some(span)),
            Due::At(due) => (due, None),
        };
        self.waiting = Some(Slot { command, due, since: now, span, run });
    }

    /// The next command to carry out.
    pub(super) fn poll(&mut self, now: Instant) -> Option<Command> {
        if self.flying.is_some() {
            return None;
        }
        self.flying = self.waiting.take().map(|slot| {
            // It may have waited for another shrink's command: its own time begins now.
            let due = slot.span.map_or(slot.due, |span| now.after(span));
            Slot { due, since: now, ..slot }
        });
        self.flying.as_ref().map(|slot| slot.command.clone())
    }

    /// Takes the command that an outcome answers; `None` for one that is not in flight any more.
    pub(super) fn land(&mut self, id: CommandId) -> Option<Slot> {
        let slot = self.flying.take_if(|slot| slot.command.id == id)?;
        Some(slot)
    }

    /// Forgets a command that was not fetched yet.
    pub(super) fn clear_waiting(&mut self) {
        self.waiting = None;
    }

    /// Gives up on a command of another shrink whose outcome is overdue.
    pub(super) fn drop_stale(&mut self, run: Option<u64>, now: Instant) {
        self.flying.take_if(|slot| Some(slot.run) != run && slot.due <= now);
    }

    /// Whether a command of this shrink waits or flies.
    pub(super) fn is_busy(&self, run: u64) -> bool {
        self.slots().any(|slot| slot.run == run)
    }

    /// The command of this shrink that flies.
    pub(super) fn flying(&self, run: u64) -> Option<&Action> {
        self.flying.as_ref().filter(|slot| slot.run == run).map(|slot| &slot.command.action)
    }

    /// When the outcome of this shrink's command is due.
    pub(super) fn due(&self, run: u64) -> Option<Instant> {
        self.slots().filter(|slot| slot.run == run).map(|slot| slot.due).min()
    }

    /// When a command of any shrink is due.
    pub(super) fn due_any(&self) -> Option<Instant> {
        self.slots().map(|slot| slot.due).min()
    }

    fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.waiting.iter().chain(self.flying.iter())
    }
}
