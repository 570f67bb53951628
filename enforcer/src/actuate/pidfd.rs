//! A process by descriptor: it tells of its end, and never means another one with the same number.

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use std::{
    os::fd::{AsFd as _, FromRawFd as _, OwnedFd, RawFd},
    time::{Duration, Instant},
};

/// Opens a process that can't have been reaped yet: a child of ours, or our parent. Polls as readable once it has ended.
pub(super) fn pidfd(pid: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: pidfd_open takes two numbers and touches no memory of ours.
    let fd = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    let fd = RawFd::try_from(fd).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Waits until the process has ended, for `span` at most. `false`: it has not.
pub(super) fn ends_within(process: &OwnedFd, span: Duration) -> bool {
    let until = Instant::now() + span;
    loop {
        let left = until.saturating_duration_since(Instant::now()).as_millis();
        let left = PollTimeout::try_from(left.saturating_add(1)).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(process.as_fd(), PollFlags::POLLIN)], left) {
            Ok(0) if Instant::now() < until => {}
            Err(Errno::EINTR) => {}
            Ok(count) => return count > 0,
            // Nothing that waiting longer would change.
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_is_waited_for_until_it_ends_and_no_longer_than_said() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let fd = pidfd(i32::try_from(child.id()).unwrap()).unwrap();
        assert!(!ends_within(&fd, Duration::from_millis(20)));
        drop(child.stdin.take());
        assert!(ends_within(&fd, Duration::from_mins(1)));
        child.wait().unwrap();
    }
}
