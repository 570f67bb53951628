//! What a session does to its cgroup.

use super::{Foretold, Session};
use crate::actuate::{
    ActuateError, WriteMethod,
    pending::write_with_signal,
    record::Record,
    restorer::Message,
    settle::{Ours, Settled, failed, settle},
};
use crate::guard::{Terms, grant_everywhere};
use crate::probe::LimitKind;
use enforcer_gate::{Bytes, Limit, LimitFile, Micros, OutcomeKind};
use nix::{errno::Errno, unistd::write};
use std::time::{Duration, Instant};

impl Session {
    /// Asks the kernel to reclaim `bytes` (`memory.reclaim`, 5.19). Interrupted by a restore.
    pub fn reclaim(&mut self, bytes: Bytes) -> OutcomeKind {
        self.interrupt.unblock();
        let begun = Instant::now();
        let Some(flight) = self.shared.enter(self.raiser.thread()) else {
            return interrupted("memory.reclaim");
        };
        let result = write(&self.reclaim, bytes.get().to_string().as_bytes());
        drop(flight);
        let took = Micros::new(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
        match result {
            Ok(_) => OutcomeKind::Reclaimed { took, partial: false },
            Err(Errno::ENODEV) => OutcomeKind::Gone,
            Err(Errno::EINTR) if self.shared.is_restoring() => interrupted("memory.reclaim"),
            // EINTR is somebody else's signal, such as SIGSTOP and SIGCONT: what was reclaimed until then stays so.
            Err(Errno::EAGAIN | Errno::EINTR) => OutcomeKind::Reclaimed { took, partial: true },
            Err(errno) => OutcomeKind::Failed {
                what: format!("can't write memory.reclaim: {}", errno.desc()),
                errno: errno as i32,
            },
        }
    }

    /// Lowers `memory.high`. A value that is not lower than what the file holds is not written.
    pub fn set_brake(&mut self, high: Limit) -> OutcomeKind {
        let Limit::Bytes(bytes) = high else { return self.check_unlowered(LimitFile::High) };
        let high = Limit::Bytes(bytes.page_floor());
        self.lower(LimitFile::High, high, |session, _| session.high.fd.write(high).map(|()| None))
    }

    /// Lowers `memory.max` if `memory.current`, read immediately before, is at most `usage_at_most`.
    ///
    /// The write itself neither reclaims nor kills, on any kernel (see [`WriteMethod`]). Where usage turns out to be over
    /// the new limit right after it, which a process that allocates in between can bring about, the limit goes back up at
    /// once. After `deadline` (a slow disk under the journal) nothing is written.
    pub fn commit(&mut self, max: Bytes, usage_at_most: Bytes, deadline: Duration) -> OutcomeKind {
        let begun = Instant::now();
        let max = max.page_floor();
        self.lower(LimitFile::Max, Limit::Bytes(max), |session, before| {
            let check = || {
                if begun.elapsed() > deadline {
                    return Err(Errno::ETIMEDOUT);
                }
                let usage = session.current.read()?;
                Ok((usage > usage_at_most).then_some(OutcomeKind::UsageTooHigh { usage }))
            };
            if let Some(too_high) = session.write_max(Limit::Bytes(max), check)? {
                return Ok(Some(too_high));
            }
            let usage = session.current.read()?;
            if usage <= max {
                return Ok(None);
            }
            let ours = Ours { written: Some(Limit::Bytes(max)), pending: None };
            match settle(&session.max.fd, ours, before) {
                Settled::Failed(errno) => Err(errno),
                Settled::Restored | Settled::AsFound => Ok(Some(OutcomeKind::UsageTooHigh { usage })),
                other @ (Settled::Superseded(_) | Settled::Gone) => Ok(Some(other.outcome(LimitFile::Max))),
            }
        })
    }

    /// From here on the foretold value of `memory.max` is this session's, whoever writes it: on disk and with the restorer.
    /// Nothing is written.
    pub(super) fn foretold(mut self, foretold: Option<&Foretold>) -> Result<Self, ActuateError> {
        let (found, file) = (self.max.found, LimitFile::Max);
        let value = foretold.map(|foretold| Limit::Bytes(foretold.max.page_floor()));
        // What is no lower limit is nothing to take back.
        let Some(value) = value.filter(|value| *value < found) else { return Ok(self) };
        let announced = self.announce(file, found, found, value);
        announced.map_err(|why| ActuateError::Restorer { why: why.what })?;
        self.shared.set_pending(file, value);
        self.shared.confirm(file);
        Ok(self)
    }

    fn write_max<T>(
        &self,
        max: Limit,
        check: impl FnOnce() -> Result<Option<T>, Errno>,
    ) -> Result<Option<T>, Errno> {
        match self.method {
            WriteMethod::NonBlocking => match check()? {
                Some(answer) => Ok(Some(answer)),
                None => self.max.fd.write(max).map(|()| None),
            },
            WriteMethod::PendingSignal => write_with_signal(&self.max.fd, max, self.interrupt, check),
        }
    }

    /// The way of every lower value: checked, on disk, with the restorer, written, read back. `write` is given what the
    /// file held and may answer that it left the file so, and why.
    fn lower(
        &mut self,
        file: LimitFile,
        value: Limit,
        write: impl FnOnce(&Self, Limit) -> Result<Option<OutcomeKind>, Errno>,
    ) -> OutcomeKind {
        self.interrupt.unblock();
        let found = self.target(file).found;
        let before = match self.target(file).fd.read() {
            Ok(now) if now == found || self.shared.ours(file).written == Some(now) => now,
            Ok(now) => return OutcomeKind::Superseded { file, found: now },
            Err(errno) => return failed(file, "read", errno),
        };
        if value == before {
            return OutcomeKind::Done;
        }
        if value > before {
            let what = format!("{value} is not lower than {before} in {}", file.name());
            return OutcomeKind::Failed { what, errno: Errno::EINVAL as i32 };
        }
        if self.restorer.is_gone() {
            return OutcomeKind::Failed { what: RESTORER_GONE.into(), errno: Errno::EPIPE as i32 };
        }
        if let Err(why) = self.announce(file, found, before, value) {
            return OutcomeKind::Failed { what: why.what, errno: why.errno };
        }
        // Where a guard stands on this node, it is told that the gate vouches for the value. One that can't be told
        // refuses the write, which is then this write's outcome.
        let lease = grant_everywhere(self.cgroup.id(), kind(file), terms(value));
        self.shared.set_pending(file, value);
        let Some(flight) = self.shared.enter(self.raiser.thread()) else {
            self.shared.drop_pending(file);
            return interrupted(file.name());
        };
        let written = write(self, before);
        drop(lease);
        // It acts at its deadline, and then again each 50 ms as long as this process lives; here it is known sooner.
        if self.restorer.is_gone() {
            let ours = Ours { written: Some(value), pending: None };
            settle(&self.target(file).fd, ours, found);
        }
        let now = self.target(file).fd.read();
        if now == Ok(value) {
            self.shared.confirm(file);
        } else {
            self.shared.drop_pending(file);
        }
        drop(flight);
        match (written, now) {
            (Ok(Some(outcome)), _) => outcome,
            (Ok(None), Ok(now)) if now == value => OutcomeKind::Done,
            (Ok(None), Ok(_)) if self.shared.is_restoring() => interrupted(file.name()),
            (Ok(None), Ok(_)) if self.restorer.is_gone() => {
                OutcomeKind::Failed { what: RESTORER_GONE.into(), errno: Errno::EPIPE as i32 }
            }
            (Ok(None), Ok(now)) => OutcomeKind::Superseded { file, found: now },
            (Err(Errno::EINTR), _) => interrupted(file.name()),
            (Err(errno), _) => failed(file, "write", errno),
            (Ok(None), Err(errno)) => failed(file, "read", errno),
        }
    }

    /// Puts a value that is about to be written on disk and before the restorer.
    fn announce(
        &mut self,
        file: LimitFile,
        found: Limit,
        before: Limit,
        ours: Limit,
    ) -> Result<(), Unannounced> {
        let recorded = self.journal.append(Record::Intent { file, found, before, ours }, true);
        recorded.map_err(|error| Unannounced { what: error.to_string(), errno: 0 })?;
        let next_record = self.journal.position().0;
        let told = self.restorer.tell(Message::Lower { file, found, before, ours, next_record });
        told.map_err(|errno| Unannounced { what: RESTORER_GONE.into(), errno: errno as i32 })
    }

    /// A brake of `max` brakes nothing; only what the file holds is looked at.
    fn check_unlowered(&self, file: LimitFile) -> OutcomeKind {
        match self.target(file).fd.read() {
            Ok(Limit::Max) => OutcomeKind::Done,
            Ok(now) => OutcomeKind::Failed {
                what: format!("max is not lower than {now} in {}", file.name()),
                errno: Errno::EINVAL as i32,
            },
            Err(errno) => failed(file, "read", errno),
        }
    }
}

/// How long the guard lets a value of ours through: the write follows at once, and ends the lease.
const LEASE: Micros = Micros::from_secs(10);

fn terms(value: Limit) -> Terms {
    let minimum = match value {
        Limit::Bytes(bytes) => bytes,
        Limit::Max => Bytes::new(u64::MAX),
    };
    Terms { minimum, growth_per_second: Bytes::ZERO, lifetime: LEASE }
}

const fn kind(file: LimitFile) -> LimitKind {
    match file {
        LimitFile::High => LimitKind::MemoryHigh,
        LimitFile::Max => LimitKind::MemoryMax,
    }
}

/// Why a value could not be put on disk or before the restorer.
struct Unannounced {
    what: String,
    errno: i32,
}

const RESTORER_GONE: &str = "the restorer is gone: nothing is lowered without one";

fn interrupted(file: &str) -> OutcomeKind {
    OutcomeKind::Failed { what: format!("{file}: interrupted by a restore"), errno: Errno::EINTR as i32 }
}
