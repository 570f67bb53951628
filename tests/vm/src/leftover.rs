//! What a test leaves behind, seen by comparing the guest before and after it.

use crate::scratch::MOUNT;
use enforcer::actuate::{STATE_DIR_DEFAULT, StateDir, recover};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::path::Path;

/// What a process that ends may take to do so, under emulation.
const ENDING_MS: u16 = 30_000;
/// Bits of /proc/sys/kernel/tainted (Documentation/admin-guide/tainted-kernels.rst).
const DIED: u64 = 1 << 7;
const WARNED: u64 = 1 << 9;
/// The flag of a kernel thread in /proc/PID/stat (`PF_KTHREAD` in include/linux/sched.h).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The parts of a guest that a test could change for the next one.
#[derive(Debug)]
pub struct Scene {
    things: BTreeSet<Thing>,
    tainted: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Thing {
    Cgroup(String),
    Mount(String),
    Swap(String),
    Process { pid: i32, started: u64, name: String },
}

impl Scene {
    /// The guest as it is.
    pub fn now() -> Self {
        let mut things = BTreeSet::new();
        for entry in fs::read_dir(MOUNT).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                things.insert(Thing::Cgroup(entry.file_name().to_string_lossy().into_owned()));
            }
        }
        let lines = |path| fs::read_to_string(path).unwrap_or_default();
        // Fields after the mount point change by themselves.
        let mounts = lines("/proc/self/mounts");
        things
            .extend(mounts.lines().filter_map(|line| Some(Thing::Mount(line.split(' ').nth(1)?.to_owned()))));
        let swaps = lines("/proc/swaps");
        things.extend(
            swaps
                .lines()
                .skip(1)
                .filter_map(|line| Some(Thing::Swap(line.split_whitespace().next()?.to_owned()))),
        );
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            things.extend(fs::read_to_string(entry.path().join("stat")).ok().and_then(|stat| process(&stat)));
        }
        let tainted = lines("/proc/sys/kernel/tainted").trim().parse().unwrap_or(0);
        Self { things, tainted }
    }

    /// What is there now and was not before: one text each.
    pub fn left_since(before: &Self) -> Vec<String> {
        let after = Self::now();
        let mut left = Vec::new();
        for thing in after.things.difference(&before.things) {
            match thing {
                Thing::Cgroup(name) => left.push(format!("the cgroup {name:?}")),
                Thing::Mount(path) => left.push(format!("a mount on {path:?}")),
                Thing::Swap(path) => left.push(format!("swap on {path:?}")),
                Thing::Process { pid, name, .. } if !ends(*pid) => {
                    left.push(format!("process {pid} ({name:?})"));
                }
                Thing::Process { .. } => {}
            }
        }
        if Path::new(STATE_DIR_DEFAULT).exists() {
            match StateDir::open(Path::new(STATE_DIR_DEFAULT)) {
                Ok(folder) => {
                    left.extend(recover(&folder).iter().map(|one| format!("an unsettled journal: {one:?}")));
                }
                Err(error) => left.push(error.to_string()),
            }
        }
        let new = after.tainted & !before.tainted;
        if new & (DIED | WARNED) != 0 {
            left.push(format!("a kernel that complains (tainted {new:#x}); see its log"));
        }
        left
    }
}

/// A process that is no kernel thread, from its `stat` (`proc_pid_stat(5)`).
fn process(stat: &str) -> Option<Thing> {
    let (front, rest) = stat.rsplit_once(')')?;
    let (pid, name) = front.split_once(" (")?;
    // `rest` begins with field 3; the flags are field 9, the start time is field 22.
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let flags: u64 = fields.get(6)?.parse().ok()?;
    let started = fields.get(19)?.parse().ok()?;
    let is_kernels = flags & KERNEL_THREAD != 0;
    (!is_kernels).then_some(Thing::Process { pid: pid.parse().ok()?, started, name: name.to_owned() })
}

/// Whether a process has ended, or does so soon.
fn ends(pid: i32) -> bool {
    // SAFETY: pidfd_open takes two numbers; a descriptor that it gives is nobody else's.
    let fd = unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        match i32::try_from(fd) {
            Ok(fd) if fd >= 0 => OwnedFd::from_raw_fd(fd),
            // No such process any more.
            Ok(_) | Err(_) => return true,
        }
    };
    let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::from(ENDING_MS)) == Ok(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_of_a_process_and_of_a_kernel_thread() {
        let line = |name: &str, flags: u64| {
            format!("42 ({name}) S 1 42 42 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 777 0 0")
        };
        let found = process(&line("a) S (b", 4_194_560)).expect("a process");
        assert_eq!(found, Thing::Process { pid: 42, started: 777, name: "a) S (b".into() });
        assert_eq!(process(&line("kworker/0:0", KERNEL_THREAD | 0x40)), None);
        assert_eq!(process("42 (cut"), None);
    }

    #[test]
    fn a_process_shows_until_it_ends() {
        let before = Scene::now();
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let found = |scene: &Scene| {
            scene.things.iter().any(|thing| matches!(thing, Thing::Process { pid: its, .. } if *its == pid))
        };
        assert!(!found(&before));
        assert!(found(&Scene::now()));
        drop(child.stdin.take());
        assert!(ends(pid));
        child.wait().unwrap();
        assert!(ends(pid), "one that is gone has ended");
        assert!(!found(&Scene::now()));
    }
}
