//! A liveness-style probe: a fresh process in the cgroup, against a time-out.

use crate::args::Args;
use crate::life::Life;
use crate::say;
use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Runs this program's `true` each period. The first run, which reads the program from disk, counts
/// towards neither figure.
pub(crate) fn run(mut args: Args, mut life: Life) -> Result<()> {
    let period = args.span("period")?.unwrap_or(Duration::from_secs(1));
    let timeout = args.span("timeout")?.unwrap_or(Duration::from_secs(1));
    let report = args.flag("report");
    args.finish()?;
    once(timeout.max(Duration::from_mins(1)))?;
    say::ready(0);
    let (mut runs, mut timeouts, mut longest) = (0_u64, 0_u64, Duration::ZERO);
    while life.wait(period) {
        let begun = Instant::now();
        let in_time = once(timeout)?;
        let took = begun.elapsed();
        runs += 1;
        timeouts += u64::from(!in_time);
        longest = longest.max(took);
        if report || !in_time {
            let word = if in_time { "ok" } else { "timeout" };
            say::line(format_args!("probe {word} us {}", took.as_micros()));
        }
    }
    say::line(format_args!("probe runs {runs} timeouts {timeouts} longest_us {}", longest.as_micros()));
    Ok(())
}

/// False when it ran out of time (it is killed then) or failed.
fn once(timeout: Duration) -> Result<bool> {
    let mut command = Command::new("/proc/self/exe");
    let mut child = command.arg("true").stdin(Stdio::null()).spawn().context("starting the probe")?;
    let ended = wait(&child, timeout)?;
    if !ended {
        child.kill().context("killing the probe")?;
    }
    Ok(child.wait().context("waiting for the probe")?.success() && ended)
}

fn wait(child: &Child, timeout: Duration) -> Result<bool> {
    // SAFETY: pidfd_open takes a process id and flags, and gives a new descriptor or -1.
    let fd = unsafe { nix::libc::syscall(nix::libc::SYS_pidfd_open, child.id(), 0) };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).context("pidfd_open")?;
    // SAFETY: the descriptor was opened above and belongs to nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let millis = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    let timeout = PollTimeout::try_from(millis).context("time-out")?;
    Ok(poll(&mut [PollFd::new(fd.as_fd(), PollFlags::POLLIN)], timeout).context("poll")? > 0)
}
