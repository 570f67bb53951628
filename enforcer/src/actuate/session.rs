//! One piece of work on one cgroup.

use super::{
    ActuateError, StateDir,
    handle::{Raiser, RestoreHandle},
    interrupt::Interrupt,
    journal::Journal,
    limit_fd::{LimitFd, NumberFd},
    memory::lock_memory,
    nonblock::{WriteMethod, write_method},
    overlap::overlap,
    pending::write_with_signal,
    record::{Header, Record},
    recover::recover_overlapping,
    restorer::{Message, Restorer, Spawn},
    settle::{Ours, Settled, failed, settle},
    shared::Shared,
    state_dir::{JournalFile, boot_id},
};
use crate::cgroup::{Cgroup, CgroupError};
use enforcer_gate::{Bytes, Limit, LimitFile, Micros, OutcomeKind};
use nix::{errno::Errno, fcntl::OFlag, unistd::write};
use std::{
    os::fd::OwnedFd,
    sync::Arc,
    time::{Duration, Instant},
};

/// What can be set about a session.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// The restorer puts everything back this long after the begin, whatever this process is doing.
    pub deadline: Duration,
    /// How limits are written; `None` finds out, once a process.
    pub method: Option<WriteMethod>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self { deadline: Duration::from_mins(10), method: None }
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
    shared: Arc<Shared>,
    interrupt: Interrupt,
    method: WriteMethod,
    high: Target,
    max: Target,
    current: NumberFd,
    reclaim: OwnedFd,
    notes: Vec<String>,
}

/// What [`Session::begin`] makes after the journal.
struct Ready {
    raiser: Raiser,
    restorer: Restorer,
    shared: Arc<Shared>,
    interrupt: Interrupt,
    method: WriteMethod,
    high: Target,
    max: Target,
    current: NumberFd,
    reclaim: OwnedFd,
}

#[derive(Debug)]
struct Target {
    fd: LimitFd,
    found: Limit,
}

impl Session {
    /// Takes the cgroup, starts the restorer and the raising thread, and opens everything. Changes no limit.
    ///
    /// A killed run's leftover that is in the way is settled first, as [`recover`](super::recover) does. Fails with
    /// [`ActuateError::InProgress`] where a living one is, and with [`ActuateError::StateDir`] where no journal can be kept.
    pub fn begin(cgroup: &Cgroup, state: &StateDir, options: &SessionOptions) -> Result<Self, ActuateError> {
        let mut notes = Vec::new();
        let journal = claim(cgroup, state, &mut notes)?;
        match Self::prepare(cgroup, &journal, options, &mut notes) {
            Ok(ready) => Ok(Self {
                cgroup: cgroup.clone(),
                raiser: ready.raiser,
                restorer: ready.restorer,
                journal,
                shared: ready.shared,
                interrupt: ready.interrupt,
                method: ready.method,
                high: ready.high,
                max: ready.max,
                current: ready.current,
                reclaim: ready.reclaim,
                notes,
            }),
            Err(error) => {
                // Nothing was lowered; a file that stays says so, and goes with the next begin.
                let _ = journal.close();
                Err(error)
            }
        }
    }

    fn prepare(
        cgroup: &Cgroup,
        journal: &Journal,
        options: &SessionOptions,
        notes: &mut Vec<String>,
    ) -> Result<Ready, ActuateError> {
        let open = |file| -> Result<Target, ActuateError> {
            let fd = LimitFd::open(cgroup, file)?;
            let io = |errno| CgroupError::io(cgroup.absolute().join(file.name()), "read", errno);
            let found = fd.read().map_err(io)?;
            Ok(Target { fd, found })
        };
        // After the claim: settling a leftover changes what is found.
        let (high, max) = (open(LimitFile::High)?, open(LimitFile::Max)?);
        let current = NumberFd::open(cgroup, "memory.current")?;
        let reclaim = cgroup.open_file("memory.reclaim", OFlag::O_WRONLY)?;
        let method = options.method.unwrap_or_else(|| write_method(cgroup.mount()));
        if let Err(errno) = lock_memory() {
            let why = errno.desc();
            notes.push(format!("memory is not locked ({why}): a restore may have to wait for a disk"));
        }
        let interrupt = Interrupt::install()?;
        let shared = Arc::new(Shared::new());
        let inside = is_inside(cgroup);
        if inside {
            notes.push("this process is in the cgroup itself: its brake slows this process as well".into());
        }
        let spawn = Spawn { cgroup, journal, deadline: options.deadline, move_out: inside };
        let (restorer, missing) = Restorer::spawn(&spawn)?;
        for (is_missing, what) in [
            (missing.not_locked, "the restorer's memory is not locked"),
            (missing.not_oom_exempt, "the restorer is not exempt from the OOM killer"),
            (missing.not_moved, "the restorer could not leave the cgroup"),
        ] {
            if is_missing {
                notes.push(what.into());
            }
        }
        let raiser = Raiser::start(cgroup, Arc::clone(&shared), interrupt)?;
        Ok(Ready { raiser, restorer, shared, interrupt, method, high, max, current, reclaim })
    }

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

    /// The restorer's process id.
    pub fn restorer_pid(&self) -> u32 {
        self.restorer.pid()
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
            Err(Errno::EAGAIN) => OutcomeKind::Reclaimed { took, partial: true },
            Err(Errno::ENODEV) => OutcomeKind::Gone,
            Err(Errno::EINTR) if self.shared.is_restoring() => interrupted("memory.reclaim"),
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
        if let Err(why) = self.announce(file, found, before, value) {
            return why;
        }
        self.shared.set_pending(file, value);
        let Some(flight) = self.shared.enter(self.raiser.thread()) else {
            self.shared.drop_pending(file);
            return interrupted(file.name());
        };
        let written = write(self, before);
        // It acts at its deadline, and what was announced to it too late it has not heard of.
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
            (Ok(None), Ok(_)) if self.restorer.is_gone() => restorer_gone(Errno::EPIPE),
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
    ) -> Result<(), OutcomeKind> {
        let recorded = self.journal.append(Record::Intent { file, found, before, ours }, true);
        recorded.map_err(|error| OutcomeKind::Failed { what: error.to_string(), errno: 0 })?;
        let next_record = self.journal.position().0;
        self.restorer.tell(Message::Lower { file, found, before, ours, next_record }).map_err(restorer_gone)
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

    /// Ends the work. The brake comes off if it is still on. `kept`: a committed limit stays; else it goes back as found
    /// too, where a restore has not done so before.
    ///
    /// Fails with [`ActuateError::NotRestored`] where a file of ours could not be put back; the journal then stays for
    /// [`recover`](super::recover). A cgroup that is gone, or a value of somebody else, is no failure.
    pub fn finish(self, kept: bool) -> Result<(), ActuateError> {
        let mut files = vec![LimitFile::High];
        if !kept {
            files.insert(0, LimitFile::Max);
        }
        for file in files {
            let target = self.target(file);
            let ours = self.shared.ours(file);
            if ours == Ours::default() {
                continue;
            }
            if let Settled::Failed(errno) = settle(&target.fd, ours, target.found) {
                let what = format!("can't put {} back to {}: {}", file.name(), target.found, errno.desc());
                // Dropped as after a crash: the restorer tries once more.
                return Err(ActuateError::NotRestored { path: self.cgroup.absolute().into(), what });
            }
            self.shared.forget(file);
        }
        let Self { raiser, restorer, journal, .. } = self;
        drop(raiser);
        restorer.done();
        journal.close()
    }
}

fn restorer_gone(errno: Errno) -> OutcomeKind {
    OutcomeKind::Failed {
        what: "the restorer is gone: nothing is lowered without one".into(),
        errno: errno as i32,
    }
}

fn interrupted(file: &str) -> OutcomeKind {
    OutcomeKind::Failed { what: format!("{file}: interrupted by a restore"), errno: Errno::EINTR as i32 }
}

/// Makes sure that nobody else works on the cgroup, settles what is in the way, and leaves a locked journal.
fn claim(cgroup: &Cgroup, state: &StateDir, notes: &mut Vec<String>) -> Result<Journal, ActuateError> {
    let _lock = state.lock()?;
    let in_the_way = |header: &Header| overlap(&header.path, cgroup.path()) || header.cgroup == cgroup.id();
    let journals = state.journals()?;
    for JournalFile { bytes, lock, .. } in &journals {
        if let Ok((header, _)) = Header::decode(bytes)
            && lock.is_none()
            && in_the_way(&header)
        {
            return Err(ActuateError::InProgress { pid: header.pid, path: header.path });
        }
    }
    for settled in recover_overlapping(journals, cgroup) {
        if settled.is_open() {
            return Err(ActuateError::Unsettled { path: settled.cgroup.clone(), why: settled.describe() });
        }
        notes.push(format!("settled an earlier run: {}", settled.describe()));
    }
    let header = Header {
        pid: std::process::id(),
        boot_id: boot_id()?,
        cgroup: cgroup.id(),
        path: cgroup.path().into(),
    };
    Journal::create(state, &header)
}

/// Whether this process lives in the cgroup or below it.
fn is_inside(cgroup: &Cgroup) -> bool {
    let Ok(text) = std::fs::read_to_string("/proc/self/cgroup") else { return false };
    let own = text.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    !cgroup.is_root() && std::path::Path::new(own).starts_with(cgroup.path())
}
