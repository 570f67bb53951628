//! Processes that tests kill.

use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::fd::{AsFd as _, FromRawFd as _, OwnedFd},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// This program again with hidden arguments; it does what it is told on standard input and answers with a line.
pub(crate) struct Holder {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Holder {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new("/proc/self/exe");
        let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    /// The next line, empty at the end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Sends a line.
    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// Sends a line and waits for the answer.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        self.line()
    }

    /// SIGKILL, and waits until it is dead.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A pipe that takes no more: its reading end, to be kept, and its writing end, on which a write waits.
pub(crate) fn full_pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = nix::unistd::pipe2(OFlag::O_NONBLOCK).unwrap();
    while nix::unistd::write(&writer, &[0; 4096]).is_ok() {}
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    (reader, writer)
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Another process, to be told when it ends.
pub(crate) struct Other {
    pid: Pid,
    fd: OwnedFd,
}

impl Other {
    pub(crate) fn new(pid: u32) -> Self {
        let pid = Pid::from_raw(i32::try_from(pid).unwrap());
        // SAFETY: pidfd_open takes two numbers; the descriptor that it gives is nobody else's.
        let fd = unsafe {
            let fd = libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0);
            OwnedFd::from_raw_fd(i32::try_from(fd).unwrap())
        };
        Self { pid, fd }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid, signal).unwrap();
    }

    /// Whether it has.
    pub(crate) fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO) == Ok(1)
    }

    /// Waits for its end; a minute without it is a failure.
    pub(crate) fn wait(&self) {
        let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut fds, PollTimeout::from(60_000_u16)), Ok(1), "process {} does not end", self.pid);
    }
}
