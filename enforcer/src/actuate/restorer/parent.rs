//! The session's side: starting the restorer and talking to it.

use super::{
    ARGUMENT,
    message::{Exit, MESSAGE_BYTES, Message, Notes},
};
use crate::{
    actuate::{
        ActuateError,
        above::Above,
        journal::Journal,
        lease::Lease,
        limit_fd::{LimitFd, NumberFd},
        pidfd::{ends_within, pidfd},
        record::limit_code,
    },
    cgroup::Cgroup,
};
use enforcer_gate::LimitFile;
use nix::{
    errno::Errno,
    fcntl::OFlag,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socketpair},
};
use std::{
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
        unix::process::CommandExt as _,
    },
    process::{Child, Command, Stdio},
    sync::{Arc, Weak},
    time::Duration,
};

/// A process that has not said that it is ready by then has not started (emulated machines are slow).
const READY_MS_MAX: u16 = 60_000;
/// How long its end is waited for. It needs milliseconds; one that is stopped (SIGSTOP) never ends by itself.
const END_MAX: Duration = Duration::from_secs(15);

/// What a restorer needs.
pub(in crate::actuate) struct Spawn<'a> {
    pub(in crate::actuate) cgroup: &'a Cgroup,
    /// Raised before the cgroup's own limit is.
    pub(in crate::actuate) above: Option<Above>,
    pub(in crate::actuate) journal: &'a Journal,
    pub(in crate::actuate) lease: &'a Lease,
    pub(in crate::actuate) deadline: Duration,
}

/// A running restorer. Dropped without [`Self::done`], it acts as if this process had died.
#[derive(Debug)]
pub(in crate::actuate) struct Restorer {
    child: Child,
    process: OwnedFd,
    acted: Acted,
    /// Only ever borrowed for a moment by a [`Heart`]: its closing tells the restorer that the session is over.
    socket: Option<Arc<OwnedFd>>,
}

/// Says that a restorer has put everything back, or has ended: polls as readable (its writer is gone) from then on.
#[derive(Debug)]
pub struct Acted(OwnedFd);

impl Acted {
    /// Whether it has.
    pub fn is_so(&self) -> bool {
        let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::empty())];
        // POLLHUP is reported unasked.
        matches!(poll(&mut fds, PollTimeout::ZERO), Ok(count) if count > 0)
    }

    pub(in crate::actuate) fn try_clone(&self) -> std::io::Result<Self> {
        self.0.try_clone().map(Self)
    }
}

impl AsFd for Acted {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Acted {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// How a restorer that was sent home went.
#[derive(Debug, Clone, Copy)]
pub(in crate::actuate) struct Went {
    /// It did not have to be killed.
    pub(in crate::actuate) by_itself: bool,
    /// It had put everything back before it heard that the session is done.
    pub(in crate::actuate) has_acted: bool,
}

/// Tells the restorer from another thread that the session's loop runs.
#[derive(Debug, Clone)]
pub struct Heart(Weak<OwnedFd>);

impl Heart {
    /// The loop runs, and says so again within this time (milliseconds count). The restorer puts everything back where
    /// it does not: the process may be stopped or frozen, while what it watches is not.
    pub fn beat(&self, within: Duration) {
        self.tell(u32::try_from(within.as_millis()).unwrap_or(u32::MAX).max(1));
    }

    /// The loop is over, and what is left to do has the session's own deadline.
    pub fn rest(&self) {
        self.tell(0);
    }

    fn tell(&self, within_ms: u32) {
        let Some(socket) = self.0.upgrade() else { return };
        // A restorer that is gone is noticed elsewhere. A full socket holds enough beats.
        let _ = send_message(&socket, Message::Beat { within_ms });
    }
}

fn send_message(socket: &OwnedFd, message: Message) -> Result<(), Errno> {
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    loop {
        match send(socket.as_raw_fd(), &message.encode(), flags) {
            Ok(MESSAGE_BYTES) => return Ok(()),
            Ok(_) => return Err(Errno::EMSGSIZE),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

impl Restorer {
    /// Starts it and waits until it is ready to act.
    pub(in crate::actuate) fn spawn(spawn: &Spawn<'_>) -> Result<(Self, Notes), ActuateError> {
        let system = |what| move |errno: Errno| ActuateError::system(what, errno);
        let (ours, theirs) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
                .map_err(system("make a socket pair"))?;
        let (acted, acts) = std::io::pipe().map_err(|error| ActuateError::system("make a pipe", error))?;
        // Open files of its own: a write that blocks in this process must not hold up the restorer's.
        let high = LimitFd::open(spawn.cgroup, LimitFile::High)?;
        let max = LimitFd::open(spawn.cgroup, LimitFile::Max)?;
        let usage = NumberFd::open(spawn.cgroup, "memory.current")?;
        // Whoever freezes or kills the cgroup of this process, or brakes it, must not do it to the restorer as well.
        let refuge = refuge(spawn.cgroup).ok();
        let journal = spawn.journal.as_fd().as_raw_fd();
        let refuge_fd = refuge.as_ref().map_or(-1, std::os::fd::AsRawFd::as_raw_fd);
        let (above_fd, above_found) = match &spawn.above {
            Some(above) => (above.fd().raw(), limit_code(above.found())),
            None => (-1, 0),
        };
        let told: [RawFd; 8] = [
            theirs.as_raw_fd(),
            acts.as_raw_fd(),
            high.raw(),
            max.raw(),
            usage.raw(),
            journal,
            refuge_fd,
            above_fd,
        ];
        // It need not know of the lease, only to have it.
        let inherited: Vec<RawFd> = told.into_iter().filter(|fd| *fd >= 0).chain(spawn.lease.raw()).collect();
        let mut command = Command::new("/proc/self/exe");
        command.arg(ARGUMENT);
        command.args(told.map(|fd| fd.to_string()));
        command.arg(above_found.to_string());
        command.arg(spawn.journal.position().1.to_string());
        command.arg(spawn.deadline.as_millis().to_string());
        command.arg(std::process::id().to_string());
        command.arg(spawn.journal.path());
        command.env_clear().current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: between fork and exec only fcntl and setsid are called; both are async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                // A terminal's Ctrl-C goes to a whole session.
                libc::setsid();
                for fd in &inherited {
                    Errno::result(libc::fcntl(*fd, libc::F_SETFD, 0))?;
                }
                Ok(())
            });
        }
        let child = command.spawn().map_err(|error| ActuateError::system("start the restorer", error))?;
        drop((theirs, acts));
        let process = pidfd(i32::try_from(child.id()).unwrap_or(-1)).map_err(system("watch the restorer"))?;
        let acted = Acted(acted.into());
        let restorer = Self { child, process, acted, socket: Some(Arc::new(ours)) };
        let notes = restorer.wait_ready()?;
        Ok((restorer, notes))
    }

    fn wait_ready(&self) -> Result<Notes, ActuateError> {
        let Some(socket) = &self.socket else { return Ok(Notes::default()) };
        let failed = |why: &str| ActuateError::Restorer { why: why.into() };
        let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        loop {
            match poll(&mut fds, PollTimeout::from(READY_MS_MAX)) {
                Ok(0) => return Err(failed("it did not get ready in time")),
                Ok(_) => break,
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(ActuateError::system("wait for the restorer", errno)),
            }
        }
        let mut bytes = [0; 1];
        match recv(socket.as_raw_fd(), &mut bytes, MsgFlags::empty()) {
            Ok(1) => Ok(Notes::decode(bytes[0])),
            Ok(_) | Err(_) => Err(failed(
                "it ended at once; the program must call run_restorer_if_asked first thing in main",
            )),
        }
    }

    /// Its process id.
    pub(in crate::actuate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Hands it a message; it is the kernel's from then on, whatever happens to this process.
    pub(in crate::actuate) fn tell(&self, message: Message) -> Result<(), Errno> {
        send_message(self.socket.as_ref().ok_or(Errno::EPIPE)?, message)
    }

    pub(in crate::actuate) fn heart(&self) -> Heart {
        Heart(self.socket.as_ref().map(Arc::downgrade).unwrap_or_default())
    }

    /// Whether it has ended, or has put everything back: from then on nothing may be lowered.
    pub(in crate::actuate) fn is_gone(&self) -> bool {
        self.acted.is_so()
    }

    /// Tells others that it has put everything back, or has ended.
    pub(in crate::actuate) fn acted(&self) -> &Acted {
        &self.acted
    }

    /// Sends it home and waits until it has gone.
    pub(in crate::actuate) fn done(mut self) -> Went {
        // One that was killed is gone already, which is as well.
        let _ = self.tell(Message::Done);
        self.end()
    }

    /// Waits for its end, and brings that about where it does not come by itself: what it would still have to undo is
    /// in the journal.
    fn end(&mut self) -> Went {
        drop(self.socket.take());
        let by_itself = ends_within(&self.process, END_MAX);
        // One that is stopped says it by its pipe, if it had acted before that.
        let mut has_acted = !by_itself && self.acted.is_so();
        // An error says that it has been reaped.
        let killed = by_itself || (self.child.kill().is_ok() && ends_within(&self.process, END_MAX));
        // One that is stuck in the kernel can't be waited for; process 1 reaps it.
        if killed {
            let status = self.child.wait();
            let code = status.ok().filter(|_| by_itself).and_then(|status| status.code());
            has_acted |= code.is_some_and(|code| code != Exit::Idle as i32);
        }
        Went { by_itself, has_acted }
    }
}

impl Drop for Restorer {
    fn drop(&mut self) {
        // After `done` there is nothing to wait for any more.
        self.end();
    }
}

/// Somewhere outside of the cgroup that this process is in: the topmost in sight.
fn refuge(cgroup: &Cgroup) -> Result<OwnedFd, ActuateError> {
    let root = Cgroup::open_in(cgroup.mount(), cgroup.mount().point())?;
    Ok(root.open_file("cgroup.procs", OFlag::O_WRONLY)?)
}
