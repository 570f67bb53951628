//! Keeping a process's pages where they are.

use nix::errno::Errno;

/// Locks every page that this process has touched and every one that it will touch, without touching any now. The
/// threads that raise limits then never wait for a page to be read back.
pub(super) fn lock_memory() -> Result<(), Errno> {
    // SAFETY: mlockall takes flags only and changes no memory contents.
    let done = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) };
    Errno::result(done).map(drop)
}
