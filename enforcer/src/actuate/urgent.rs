//! What the two that raise limits ask of the system, so that they are not kept waiting by what they are there to end.

use nix::errno::Errno;

/// Locks every page that this process has touched and every one that it will touch, without touching any now. The
/// threads that raise limits then never wait for a page to be read back.
pub(super) fn lock_memory() -> Result<(), Errno> {
    // SAFETY: mlockall takes flags only and changes no memory contents.
    let done = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) };
    Errno::result(done).map(drop)
}

/// Lets the calling thread run before every other, those with a real-time policy included: since Linux 6.12 one of these that
/// never sleeps leaves nothing to lower ones, while ordinary threads get a twentieth. It has to sleep nearly always.
pub(super) fn run_first() -> Result<(), Errno> {
    // SAFETY: it takes a number.
    let sched_priority = Errno::result(unsafe { libc::sched_get_priority_max(libc::SCHED_FIFO) })?;
    let highest = libc::sched_param { sched_priority };
    // A child that is started from here is an ordinary one again.
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: zero is the calling thread; the parameter outlives the call.
    Errno::result(unsafe { libc::sched_setscheduler(0, policy, &raw const highest) }).map(drop)
}
