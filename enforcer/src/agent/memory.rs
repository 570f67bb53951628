//! The agent's own memory, kept small.

use nix::sys::prctl::set_thp_disable;

/// From here on a page that is touched is one page: huge ones would be mostly empty. Holds for this process and those
/// that it starts.
pub(super) fn small_pages() {
    // Where it is refused the process is larger, and that is all.
    let _ = set_thp_disable(true);
}

/// Gives back what loading the kernel programs needed: the kernel's types alone are some 40 MiB while they are read, and
/// glibc would keep them for ever.
pub(super) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes the allocator's locks and moves nothing that is in use (`malloc_trim(3)`).
    unsafe {
        libc::malloc_trim(0);
    }
}
