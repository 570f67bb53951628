//! The agent's own memory, kept small.

use nix::sys::prctl::set_thp_disable;

/// From here on a page that is touched is one page, for huge ones would be mostly empty (this holds for processes that
/// it starts as well), and all threads allocate from one arena: glibc gives back the end of no other. To be called
/// before there are threads.
pub(super) fn keep_small() {
    // Where it is refused the process is larger, and that is all; so too below.
    let _ = set_thp_disable(true);
    #[cfg(target_env = "gnu")]
    // SAFETY: it sets a parameter of the allocator's (`mallopt(3)`).
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
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
