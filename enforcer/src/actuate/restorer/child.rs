//! The restorer's own `main`.

use super::{
    ARGUMENT,
    eye::{Eye, LOOK},
    message::{Exit, MESSAGE_BYTES, Message, Notes},
};
use crate::actuate::{
    above::{Above, settle_below},
    journal::Journal,
    limit_fd::{LimitFd, NumberFd},
    pidfd::pidfd,
    record::{Record, limit_of_code},
    settle::{Ours, Settled, settle},
    urgent::{lock_memory, run_first},
};
use enforcer_gate::{Limit, LimitFile};
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{MsgFlags, recv, send},
    unistd::write,
};
use std::{
    env,
    ffi::OsString,
    fs::File,
    os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd},
    path::PathBuf,
    process::exit,
    time::{Duration, Instant},
};

/// Has to be called first thing in `main` of every program that begins a [`Session`](crate::actuate::Session): when
/// the process is the session's restorer, this does its work and does not return.
pub fn run_restorer_if_asked() {
    let mut arguments = env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == ARGUMENT) {
        exit(Restorer::start(arguments).map_or(Exit::Failed, Restorer::run) as i32);
    }
}

struct Restorer {
    socket: OwnedFd,
    /// Its closing tells the session that everything was put back.
    acts: Option<OwnedFd>,
    /// Polls as readable once the session's process is dead: whoever else still holds its end of the socket.
    session: Option<OwnedFd>,
    deadline: Instant,
    /// When the session's loop has to have said again that it runs.
    beat_due: Option<Instant>,
    journal: File,
    journal_path: PathBuf,
    seed: u32,
    next_record: u32,
    high: Watched,
    max: Watched,
    usage: NumberFd,
    eye: Eye,
    /// Goes up before `max` does.
    above: Option<Above>,
}

/// What the restorer is to do.
enum Next {
    /// The session says something.
    Told(Message),
    /// It is silent or out of time, or what it has lowered is about to kill.
    Act,
    /// It is dead, or has closed its end.
    Over,
}

/// Between two looks at what a session may have written after everything was put back for it.
const AGAIN: Duration = Duration::from_millis(50);

/// One limit file and what the session does to it.
struct Watched {
    fd: LimitFd,
    lowered: Option<(Limit, Ours)>,
}

impl Restorer {
    fn start(mut arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        ignore_signals();
        let mut number = || arguments.next()?.to_str()?.parse::<i128>().ok();
        let mut fds = [-1; 8];
        for fd in &mut fds {
            *fd = RawFd::try_from(number()?).ok()?;
        }
        let [socket, acts, high, max, usage, journal, refuge, above] = fds;
        let above_found = limit_of_code(u64::try_from(number()?).ok()?);
        let seed = u32::try_from(number()?).ok()?;
        let deadline = Duration::from_millis(u64::try_from(number()?).ok()?);
        let session_pid = i32::try_from(number()?).ok()?;
        let journal_path = PathBuf::from(arguments.next()?);
        let moved = take(refuge).is_some_and(|fd| write(fd, b"0").is_ok());
        let watched = |file, fd| take(fd).map(|fd| Watched { fd: LimitFd::from_fd(file, fd), lowered: None });
        let restorer = Self {
            socket: take(socket)?,
            acts: Some(take(acts)?),
            session: parent(session_pid),
            deadline: Instant::now().checked_add(deadline)?,
            beat_due: None,
            journal: File::from(take(journal)?),
            journal_path,
            seed,
            next_record: 0,
            high: watched(LimitFile::High, high)?,
            max: watched(LimitFile::Max, max)?,
            usage: NumberFd::from_fd(take(usage)?),
            eye: Eye::default(),
            above: take(above).map(|fd| Above::from_fd(LimitFd::from_fd(LimitFile::Max, fd), above_found)),
        };
        let notes = Notes {
            not_oom_exempt: std::fs::write("/proc/self/oom_score_adj", "-1000").is_err(),
            not_locked: lock_memory().is_err(),
            not_moved: !moved,
        };
        // As good as it gets: a machine that refuses it is slower to restore, and no less safe.
        let _ = run_first();
        // Brings in the code that will have to run without waiting for a disk.
        for watched in [&restorer.high, &restorer.max] {
            settle(&watched.fd, Ours::default(), Limit::Max);
        }
        send(restorer.socket.as_raw_fd(), &[notes.encode()], MsgFlags::MSG_NOSIGNAL).ok()?;
        Some(restorer)
    }

    /// Listens until the session is over.
    ///
    /// A session that is silent, or out of time, may live, and may be about to write what it has announced: whoever has put
    /// everything back for it stays, and does so again, until it has ended.
    fn run(mut self) -> Exit {
        loop {
            match self.next() {
                Next::Told(Message::Lower { file, found, before, ours, next_record }) => {
                    self.next_record = next_record;
                    let written = Some(before).filter(|before| *before != found);
                    let watched = match file {
                        LimitFile::High => &mut self.high,
                        LimitFile::Max => &mut self.max,
                    };
                    watched.lowered = Some((found, Ours { written, pending: Some(ours) }));
                }
                Next::Told(Message::Beat { within_ms }) => {
                    let within = Duration::from_millis(within_ms.into());
                    self.beat_due = (within_ms > 0).then(|| Instant::now() + within);
                }
                // The lock on the journal is the session's too: leave without undoing it.
                Next::Told(Message::Done) if self.acts.is_none() => return Exit::Acted,
                Next::Told(Message::Done) => return Exit::Idle,
                Next::Act => {
                    self.put_back();
                    self.acts = None;
                }
                Next::Over => return self.end(),
            }
        }
    }

    /// The next thing to do. What the session had sent before it died is still read.
    fn next(&mut self) -> Next {
        loop {
            let has_acted = self.acts.is_none();
            if has_acted {
                self.put_back();
            } else if self.sees_peril() {
                return Next::Act;
            }
            let flags = [Some(&self.socket), self.session.as_ref()];
            let mut fds: Vec<_> =
                flags.into_iter().flatten().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)).collect();
            let mut left = self.due().saturating_duration_since(Instant::now());
            if has_acted {
                left = AGAIN;
            } else if self.max.lowered.is_some() {
                left = left.min(LOOK);
            }
            // Rounded up, or the last millisecond would spin.
            let left = u32::try_from(left.as_millis().saturating_add(1)).unwrap_or(u32::MAX);
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            match poll(&mut fds, timeout) {
                Err(Errno::EINTR) => continue,
                Err(_) => return Next::Over,
                Ok(_) => {}
            }
            let is_dead = fds.iter().skip(1).any(|fd| fd.any().unwrap_or(true));
            let mut bytes = [0; MESSAGE_BYTES];
            match recv(self.socket.as_raw_fd(), &mut bytes, MsgFlags::MSG_DONTWAIT) {
                Ok(MESSAGE_BYTES) => return Message::decode(&bytes).map_or(Next::Over, Next::Told),
                Err(Errno::EAGAIN) if is_dead => return Next::Over,
                // Else poll was woken for nothing, or its time-out was cut.
                Err(Errno::EAGAIN) if !has_acted && Instant::now() >= self.due() => return Next::Act,
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                Ok(_) | Err(_) => return Next::Over,
            }
        }
    }

    /// While a lower `memory.max` is in force with the brake below it.
    fn sees_peril(&mut self) -> bool {
        let Some((_, ours)) = self.max.lowered else { return false };
        let (Ok(max), Ok(high), Ok(usage)) = (self.max.fd.read(), self.high.fd.read(), self.usage.read())
        else {
            return false;
        };
        let max = if ours.has(max) { max } else { Limit::Max };
        self.eye.sees(Instant::now(), high, max, usage)
    }

    fn due(&self) -> Instant {
        self.beat_due.map_or(self.deadline, |beat| beat.min(self.deadline))
    }

    /// `memory.max` first: it can kill, `memory.high` only delays.
    fn put_back(&self) -> Vec<(LimitFile, Limit, Settled)> {
        let mut settled = Vec::with_capacity(2);
        for (above, watched) in [(self.above.as_ref(), &self.max), (None, &self.high)] {
            if let Some((found, ours)) = watched.lowered {
                let result = settle_below(above, &watched.fd, ours, found);
                settled.push((watched.fd.file(), found, result));
            }
        }
        settled
    }

    /// The session is over and has not said that it is done.
    fn end(self) -> Exit {
        let settled = self.put_back();
        let Ok(lock) = Flock::lock(self.journal, FlockArg::LockExclusiveNonblock) else {
            return Exit::Failed;
        };
        let mut journal = Journal::resume(self.journal_path, lock, self.seed, self.next_record);
        for (file, found, result) in settled {
            let left = match result {
                Settled::Restored | Settled::AsFound => found,
                Settled::Superseded(now) => now,
                Settled::Gone => continue,
                Settled::Failed(_) => return Exit::Failed,
            };
            // Only in case the file can't be removed below.
            let _ = journal.append(Record::Settled { file, left }, false);
        }
        if journal.close().is_ok() { Exit::Acted } else { Exit::Failed }
    }
}

fn take(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: F_GETFD only asks whether the number is open.
    let open = unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0;
    // SAFETY: it is open, was left open across exec for this process alone, and each number is taken once.
    open.then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `None` where it is dead already, or the kernel has no pidfds: the socket tells as well.
fn parent(pid: i32) -> Option<OwnedFd> {
    if nix::unistd::getppid().as_raw() != pid {
        return None;
    }
    pidfd(pid).ok()
}

/// A service manager or a terminal that ends everything at once must not keep this process from its work.
fn ignore_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE] {
        // SAFETY: no handler is installed, the signal is only ignored.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}
