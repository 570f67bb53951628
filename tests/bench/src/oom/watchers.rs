//! Three ways to hear of an OOM kill, each on a thread of its own.

use crate::clock::now_ns;
use anyhow::{Context, Result};
use enforcer::probe::{Event, Need, Probe, ProbeOptions};
use enforcer_vm_tests::scratch::Scratch;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// How somebody hears of a kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    Ring,
    Inotify,
    KernelLog,
}

impl Way {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring buffer",
            Self::Inotify => "inotify",
            Self::KernelLog => "kernel log",
        }
    }
}

/// One kill that was heard of.
pub(super) struct Seen {
    heard_ns: u64,
    /// The victim, where the way tells.
    pub(super) pid: Option<u32>,
    /// When the kernel marked it, where the way tells.
    pub(super) marked_ns: Option<u64>,
}

impl Seen {
    /// Time from the mark to here. A way that names no victim is matched with the last mark before it, which is
    /// right for one kill at a time.
    #[expect(clippy::cast_precision_loss, reason = "microseconds of one run are far below 2^52")]
    pub(super) fn latency_us(&self, marks: &BTreeMap<u32, u64>) -> Option<f64> {
        let marked = match self.pid {
            Some(pid) => *marks.get(&pid)?,
            None => *marks.values().filter(|mark| **mark <= self.heard_ns).max()?,
        };
        Some(self.heard_ns.saturating_sub(marked) as f64 / 1e3)
    }
}

/// A look at `stop` comes at least so often.
const TICK_MS: u16 = 200;

type Threads = BTreeMap<Way, JoinHandle<Result<Vec<Seen>>>>;

/// Starts all three; each ends after `stop` is set and it has heard what there was.
pub(super) fn start(cgroup: &Scratch, stop: &Arc<AtomicBool>) -> Result<Threads> {
    let probe = Probe::load(&ProbeOptions::only([Need::OomKill]))?;
    let inotify = Inotify::init(InitFlags::IN_NONBLOCK)?;
    let events = cgroup.path().join("memory.events");
    inotify.add_watch(&events, AddWatchFlags::IN_MODIFY).context("watch memory.events")?;
    let mut log = File::options().read(true).custom_flags(nix::libc::O_NONBLOCK).open("/dev/kmsg")?;
    log.seek(SeekFrom::End(0))?;
    let flag = || Arc::clone(stop);
    let (a, b, c) = (flag(), flag(), flag());
    Ok(BTreeMap::from([
        (Way::Ring, std::thread::spawn(move || ring(probe, &a))),
        (Way::Inotify, std::thread::spawn(move || modified(&inotify, &events, &b))),
        (Way::KernelLog, std::thread::spawn(move || kernel_log(log, &c))),
    ]))
}

/// Waits for `fd`; `false` when it is time to stop.
fn ready(fd: BorrowedFd<'_>, stop: &AtomicBool) -> Result<bool> {
    loop {
        let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
        if poll(&mut fds, PollTimeout::from(TICK_MS))? > 0 {
            return Ok(true);
        }
        if stop.load(Ordering::Acquire) {
            return Ok(false);
        }
    }
}

fn ring(mut probe: Probe, stop: &AtomicBool) -> Result<Vec<Seen>> {
    let mut seen = Vec::new();
    while ready(probe.as_fd(), stop)? {
        probe.drain(|event| {
            if let Event::OomKill(kill) = event {
                seen.push(Seen {
                    heard_ns: now_ns(),
                    pid: Some(kill.victim.tgid),
                    marked_ns: Some(kill.at_ns),
                });
            }
        })?;
    }
    Ok(seen)
}

fn modified(inotify: &Inotify, events: &PathBuf, stop: &AtomicBool) -> Result<Vec<Seen>> {
    let mut seen = Vec::new();
    let mut known = 0;
    while ready(inotify.as_fd(), stop)? {
        drop(inotify.read_events()?);
        let text = std::fs::read_to_string(events)?;
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.parse::<u64>().ok());
        let count = count.context("memory.events has no oom_kill")?;
        if count > known {
            known = count;
            seen.push(Seen { heard_ns: now_ns(), pid: None, marked_ns: None });
        }
    }
    Ok(seen)
}

fn kernel_log(mut log: File, stop: &AtomicBool) -> Result<Vec<Seen>> {
    let mut seen = Vec::new();
    let mut record = vec![0; 8192];
    while ready(log.as_fd(), stop)? {
        match log.read(&mut record) {
            Ok(length) => {
                let heard_ns = now_ns();
                let text = String::from_utf8_lossy(&record[..length]);
                let pid = text
                    .split("Killed process ")
                    .nth(1)
                    .and_then(|rest| rest.split(' ').next()?.parse().ok());
                if pid.is_some() {
                    seen.push(Seen { heard_ns, pid, marked_ns: None });
                }
            }
            // Records were overwritten before they were read; the next read goes on.
            Err(error) if error.raw_os_error() == Some(nix::libc::EPIPE) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error).context("read /dev/kmsg"),
        }
    }
    Ok(seen)
}
