//! What systemd-oomd and its like do: kill where memory pressure is.

use crate::args::Args;
use crate::cgroup;
use crate::life::Life;
use crate::say;
use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Sets a PSI trigger on `--watch` and kills its biggest process each time it fires. Prints
/// `killed <pid>`.
pub(crate) fn run(mut args: Args, mut life: Life) -> Result<()> {
    let dir = PathBuf::from(args.needed("watch")?);
    let kind = if args.flag("full") { "full" } else { "some" };
    let stall = args.span("stall")?.unwrap_or(Duration::from_millis(150));
    let window = args.span("window")?.unwrap_or(Duration::from_secs(1));
    args.finish()?;
    let path = dir.join("memory.pressure");
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .with_context(|| format!("opening {}", path.display()))?;
    // In one write: the kernel takes each write as a whole trigger.
    let trigger = format!("{kind} {} {}\0", stall.as_micros(), window.as_micros());
    file.write_all(trigger.as_bytes())
        .with_context(|| format!("writing {trigger:?} to {}", path.display()))?;
    say::ready(0);
    while life.wait(Duration::from_millis(1)) {
        let mut fds = [PollFd::new(file.as_fd(), PollFlags::POLLPRI)];
        let fired = poll(&mut fds, PollTimeout::from(20_u8)).context("poll")? > 0;
        let events = fds[0].revents().unwrap_or(PollFlags::empty());
        anyhow::ensure!(!events.contains(PollFlags::POLLERR), "{} is gone", dir.display());
        if fired && let Some(pid) = biggest(&dir) {
            kill(Pid::from_raw(pid), Signal::SIGKILL).with_context(|| format!("killing {pid}"))?;
            say::line(format_args!("killed {pid}"));
        }
    }
    Ok(())
}

fn biggest(dir: &Path) -> Option<i32> {
    let own = std::process::id().cast_signed();
    cgroup::processes(dir).into_iter().filter(|pid| *pid != own).max_by_key(|pid| resident(*pid))
}

fn resident(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0)
}
