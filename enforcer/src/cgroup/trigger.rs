//! PSI triggers.

use super::{Cgroup, CgroupError};
use enforcer_gate::Micros;
use nix::{
    fcntl::OFlag,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    unistd::write,
};
use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    path::PathBuf,
};

/// Which stall a trigger counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stall {
    /// At least one task waits for memory.
    Some,
    /// Every task that is not idle waits for memory.
    Full,
}

/// A trigger on a cgroup's `memory.pressure`: the descriptor polls as priority data (`POLLPRI`) when the stall
/// within a window passed the threshold, at most once a window, and as `POLLERR` when the cgroup is gone
/// (Documentation/accounting/psi.rst). It ends when it is dropped.
#[derive(Debug)]
pub struct PressureTrigger {
    fd: OwnedFd,
    path: PathBuf,
}

impl AsRawFd for PressureTrigger {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl PressureTrigger {
    /// Registers a trigger. `window` is 500 ms to 10 s; a process without `CAP_SYS_RESOURCE` gets whole multiples
    /// of 2 s only (6.5). `Ok(None)` where PSI is off.
    pub fn new(
        cgroup: &Cgroup,
        stall: Stall,
        threshold: Micros,
        window: Micros,
    ) -> Result<Option<Self>, CgroupError> {
        let name = "memory.pressure";
        let path = cgroup.absolute().join(name);
        let fd = match cgroup.open_file(name, OFlag::O_RDWR | OFlag::O_NONBLOCK) {
            Ok(fd) => fd,
            Err(error) if error.is_gone() && cgroup.exists()? => return Ok(None),
            Err(error) => return Err(error),
        };
        let kind = match stall {
            Stall::Some => "some",
            Stall::Full => "full",
        };
        let text = format!("{kind} {} {}", threshold.get(), window.get());
        match write(&fd, text.as_bytes()) {
            Ok(_) => Ok(Some(Self { fd, path })),
            Err(nix::errno::Errno::EOPNOTSUPP) => Ok(None),
            Err(errno) => Err(CgroupError::io(path, "register a trigger on", errno)),
        }
    }

    /// Waits up to `timeout_ms`. `true`: the trigger fired. Fails with [`CgroupError::Gone`] when the cgroup was
    /// removed.
    pub fn wait(&self, timeout_ms: u16) -> Result<bool, CgroupError> {
        let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLPRI)];
        match poll(&mut fds, PollTimeout::from(timeout_ms)) {
            Ok(0) | Err(nix::errno::Errno::EINTR) => Ok(false),
            Ok(_) => self.fired(fds[0].revents().unwrap_or(PollFlags::empty())),
            Err(errno) => Err(CgroupError::io(&self.path, "poll", errno)),
        }
    }

    /// What a poller's result for this descriptor means.
    pub fn fired(&self, ready: PollFlags) -> Result<bool, CgroupError> {
        if ready.contains(PollFlags::POLLERR) {
            return Err(CgroupError::Gone { path: self.path.clone() });
        }
        Ok(ready.contains(PollFlags::POLLPRI))
    }
}

impl AsFd for PressureTrigger {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
