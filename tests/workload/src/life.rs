//! How long a workload goes on.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Until standard input ends, or until a point in time where one is set.
pub(crate) struct Life {
    ends: Option<Instant>,
    over: bool,
}

impl Life {
    /// With `span` standard input is not looked at.
    pub(crate) fn new(span: Option<Duration>) -> Self {
        Self { ends: span.map(|span| Instant::now() + span), over: false }
    }

    /// Waits for the end, at most for `span`. False when the end has come.
    pub(crate) fn wait(&mut self, span: Duration) -> bool {
        let until = Instant::now() + span;
        while !self.over {
            let now = Instant::now();
            let next = self.ends.map_or(until, |ends| ends.min(until));
            let left = next.saturating_duration_since(now);
            if left.is_zero() {
                self.over = self.ends.is_some_and(|ends| ends <= now);
                break;
            }
            if self.ends.is_some() {
                std::thread::sleep(left);
            } else {
                self.over = stdin_ended(left);
            }
        }
        !self.over
    }

    /// Waits for the end, however long it takes.
    pub(crate) fn rest(&mut self) {
        while self.wait(Duration::from_hours(1)) {}
    }
}

fn stdin_ended(within: Duration) -> bool {
    let stdin = io::stdin();
    let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    match ppoll(&mut fds, Some(TimeSpec::from_duration(within)), None) {
        Ok(0) | Err(Errno::EINTR) => false,
        Ok(_) => {
            let mut sink = [0; 256];
            io::stdin().lock().read(&mut sink).map_or(true, |read| read == 0)
        }
        Err(_) => true,
    }
}
