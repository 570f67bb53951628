//! What goes to standard output, and what is said where it does not arrive.

use super::{Exit, Failure, failure, json, screen::Screen};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;
use std::{
    io::{self, Write as _},
    os::fd::AsFd as _,
    time::Duration,
};

/// How long who is told to stop waits for its last lines to be taken.
const GRACE: Duration = Duration::from_secs(1);

/// Prints a command's result. Fails where it is lost; a reader that has gone is no failure.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    printed(text).map(drop)
}

/// As [`print`]; false where nobody reads any more.
pub(super) fn printed(text: &str) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    taken(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// What became of a write to standard output; false where nobody reads any more.
pub(super) fn taken(written: io::Result<()>) -> Result<bool, Failure> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => {
            let todo = failure::of_the_process(&error)
                .unwrap_or_else(|| "what was done stays done; send the output where there is room".into());
            Err(Failure::new(Exit::Failed, "can't write to", "standard output", &error, todo))
        }
    }
}

/// Says that the kernel programs are being loaded, which takes its time on a slow node.
pub(super) fn loading(as_json: bool) {
    if !as_json {
        aside(LOADING);
    }
}

/// Says something on standard error without waiting for whoever reads: it is left out where that is closed, or
/// where nobody takes what is there already. A pipe takes no more than 4096 bytes at once: longer text may wait.
pub(super) fn aside(text: &str) {
    if stderr_has_room() {
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

/// What is said while the kernel programs are being loaded.
pub(super) const LOADING: &str = "loading the kernel programs\n";

/// For what tells on standard output what happens, and must not wait for whoever reads.
pub(super) fn screen(as_json: bool) -> io::Result<Screen> {
    #[derive(Serialize)]
    struct LeftOut {
        /// Lines that nobody took in time.
        left_out: u64,
    }
    let note: fn(u64) -> String = if as_json {
        |left_out| json::line(&LeftOut { left_out })
    } else {
        |lines| format!("{lines} lines left out: nobody took them in time\n")
    };
    Screen::start(io::stdout(), note)
}

/// Ends what told on standard output what happened, by its own will or told to: nobody who does not read keeps it.
pub(super) fn end(screen: Screen, last: &str, exit: Exit) -> Result<Exit, Failure> {
    let written = screen.end(last, Some(GRACE));
    let hangs = written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut);
    match taken(written) {
        Ok(_) => Ok(exit),
        // It is often the same pipe.
        Err(_) if hangs && !stderr_has_room() => Ok(Exit::Failed),
        Err(failure) => Err(failure),
    }
}

fn stderr_has_room() -> bool {
    let stderr = io::stderr();
    poll(&mut [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)], PollTimeout::ZERO) != Ok(0)
}
