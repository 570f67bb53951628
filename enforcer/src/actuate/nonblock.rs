//! Finds out whether a limit write can be kept from reclaiming and killing.

use super::limit_fd::{LimitFd, NumberFd};
use crate::cgroup::{Cgroup, CgroupError, Mount};
use enforcer_gate::{Bytes, Limit, LimitFile};
use nix::{
    errno::Errno,
    fcntl::OFlag,
    sys::{stat::Mode, wait::waitpid},
    unistd::{ForkResult, UnlinkatFlags, fork, pipe2, unlinkat, write},
};
use std::{
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
    path::PathBuf,
    ptr,
    sync::{Arc, OnceLock},
};

/// How a lower `memory.max` is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMethod {
    /// On a descriptor opened with `O_NONBLOCK` the kernel sets the limit and returns (6.16 and later).
    NonBlocking,
    /// The kernel would reclaim and then kill until usage fits, but sets the limit and returns where it finds a signal
    /// pending; one is seen to be (userfaultfd).
    PendingSignal,
}

/// Memory that the helper offers for reclaim.
const OFFER_BYTES: usize = 4 * 1024 * 1024;
/// A difference that can't be a CPU's charge batch.
const TAKEN_BYTES_MIN: u64 = 1024 * 1024;

static METHOD: OnceLock<WriteMethod> = OnceLock::new();

/// What this kernel does, found out once a process on a scratch cgroup of our own. Where that can't be had (no right to
/// make one, or no memory controller for it), the method that works everywhere.
pub fn write_method(mount: &Arc<Mount>) -> WriteMethod {
    *METHOD.get_or_init(|| match probe(mount) {
        Ok(true) => WriteMethod::NonBlocking,
        Ok(false) | Err(_) => WriteMethod::PendingSignal,
    })
}

/// A cgroup of ours, removed when dropped.
struct Scratch {
    mount: Arc<Mount>,
    name: PathBuf,
}

impl Scratch {
    fn make(mount: &Arc<Mount>) -> Result<Self, CgroupError> {
        let name = PathBuf::from(format!("enforcer-probe-{}", std::process::id()));
        nix::sys::stat::mkdirat(mount.as_fd(), &name, Mode::from_bits_truncate(0o755))
            .map_err(|errno| CgroupError::io(mount.point().join(&name), "make", errno))?;
        Ok(Self { mount: Arc::clone(mount), name })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing lives in it any more; a leftover is empty and harmless.
        let _ = unlinkat(self.mount.as_fd(), &self.name, UnlinkatFlags::RemoveDir);
    }
}

/// A child process in the scratch cgroup whose memory reclaim can take without swap or a disk.
struct Helper {
    pid: nix::unistd::Pid,
    hold: Option<OwnedFd>,
}

impl Drop for Helper {
    fn drop(&mut self) {
        drop(self.hold.take());
        while waitpid(self.pid, None) == Err(Errno::EINTR) {}
    }
}

/// `memory.high` behaves as `memory.max` does in this respect, and never kills. The offer is taken by a blocking write
/// and left by a non-blocking one; only both together are a proof.
fn probe(mount: &Arc<Mount>) -> Result<bool, CgroupError> {
    let scratch = Scratch::make(mount)?;
    let cgroup = Cgroup::open_in(mount, &scratch.name)?;
    let current = NumberFd::open(&cgroup, "memory.current")?;
    let quiet = LimitFd::open(&cgroup, LimitFile::High)?;
    let blocking = cgroup.open_file(LimitFile::High.name(), OFlag::O_WRONLY)?;
    let io = |errno: Errno| CgroupError::io(cgroup.absolute(), "probe", errno);
    let helper = start_helper(&cgroup)?;
    let before = current.read().map_err(io)?;
    quiet.write(Limit::Bytes(Bytes::ZERO)).map_err(io)?;
    let after_quiet = current.read().map_err(io)?;
    write(&blocking, b"0").map_err(io)?;
    let after_blocking = current.read().map_err(io)?;
    quiet.write(Limit::Max).map_err(io)?;
    drop(helper);
    let taken = |from: Bytes, to: Bytes| from.saturating_sub(to).get() >= TAKEN_BYTES_MIN;
    Ok(!taken(before, after_quiet) && taken(after_quiet, after_blocking))
}

/// Returns when the helper has made its offer.
fn start_helper(cgroup: &Cgroup) -> Result<Helper, CgroupError> {
    let io = |errno: Errno| CgroupError::io(cgroup.absolute(), "start a process in", errno);
    let procs = cgroup.open_file("cgroup.procs", OFlag::O_WRONLY)?;
    let (wait, hold) = pipe2(OFlag::O_CLOEXEC).map_err(io)?;
    let (is_ready, ready) = pipe2(OFlag::O_CLOEXEC).map_err(io)?;
    let (procs_fd, wait_fd, ready_fd, hold_fd) =
        (procs.as_raw_fd(), wait.as_raw_fd(), ready.as_raw_fd(), hold.as_raw_fd());
    // SAFETY: the child calls async-signal-safe functions only, and ends by _exit.
    match unsafe { fork() }.map_err(io)? {
        // SAFETY: as above.
        ForkResult::Child => unsafe {
            libc::close(hold_fd);
            let offered = libc::write(procs_fd, c"0".as_ptr().cast(), 1) == 1 && offer();
            if offered && libc::write(ready_fd, c"r".as_ptr().cast(), 1) == 1 {
                let mut byte = 0_u8;
                libc::read(wait_fd, (&raw mut byte).cast(), 1);
            }
            libc::_exit(0)
        },
        ForkResult::Parent { child } => {
            drop((wait, ready));
            let helper = Helper { pid: child, hold: Some(hold) };
            match nix::unistd::read(&is_ready, &mut [0; 1]) {
                Ok(1) => Ok(helper),
                Ok(_) => Err(io(Errno::ECHILD)),
                Err(errno) => Err(io(errno)),
            }
        }
    }
}

/// Touches memory and gives it up lazily: it stays charged until reclaim wants it.
///
/// # Safety
/// Async-signal-safe; for a process that ends soon, as the mapping is never undone.
unsafe fn offer() -> bool {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh private mapping, checked before use, written within its bounds.
    unsafe {
        let memory = libc::mmap(ptr::null_mut(), OFFER_BYTES, protection, flags, -1, 0);
        if memory == libc::MAP_FAILED {
            return false;
        }
        libc::madvise(memory, OFFER_BYTES, libc::MADV_NOHUGEPAGE);
        // A locked page can't be given up; the process may have inherited no lock, but be sure.
        libc::munlock(memory, OFFER_BYTES);
        libc::memset(memory, 1, OFFER_BYTES);
        libc::madvise(memory, OFFER_BYTES, libc::MADV_FREE) == 0
    }
}
