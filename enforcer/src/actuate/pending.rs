//! A limit write that neither reclaims nor kills, on kernels whose limit writes block (before 6.16).
//!
//! The kernel sets the limit first and then loops: it reclaims, and after sixteen attempts without progress it kills,
//! which without swap is a matter of microseconds; no timer is sure to come in between. But its first look is for a pending
//! signal (`memory_max_write` in `mm/memcontrol.c`), and it copies the text that is written before it looks. So the text
//! ends on a page that is missing: the copy waits for a thread of ours (userfaultfd), which sends the writer a signal
//! and only then lets the page in. The write sets the limit, sees the signal, and returns.

use super::{
    interrupt::Interrupt,
    limit_fd::{LimitFd, limit_text},
};
use enforcer_gate::{Limit, PAGE_SIZE};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    unistd::gettid,
};
use std::{
    io::{PipeReader, PipeWriter},
    os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd},
    ptr,
    thread::JoinHandle,
};

const PAGE: usize = 4096;
const _: () = assert!(PAGE as u64 == PAGE_SIZE);
/// `UFFD_API` of `linux/userfaultfd.h`.
const API: u64 = 0xaa;
const MODE_MISSING: u64 = 1;

/// `struct uffdio_api`
#[repr(C)]
struct ApiArgs {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_register`
#[repr(C)]
struct RegisterArgs {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

/// `struct uffdio_zeropage`
#[repr(C)]
struct ZeropageArgs {
    start: u64,
    len: u64,
    mode: u64,
    zeropage: i64,
}

nix::ioctl_readwrite!(uffdio_api, API, 0x3f, ApiArgs);
nix::ioctl_readwrite!(uffdio_register, API, 0x00, RegisterArgs);
nix::ioctl_readwrite!(uffdio_zeropage, API, 0x04, ZeropageArgs);

/// Writes `limit` to the file with a signal pending for the calling thread from before the kernel looks.
///
/// `check` runs when all is ready, right before the write; where it answers something, nothing is written. Fails with
/// what userfaultfd(2) fails with where this process may not use it for faults in the kernel (`CAP_SYS_PTRACE`, or a
/// seccomp filter); nothing is written then either.
pub(super) fn write_with_signal<T>(
    file: &LimitFd,
    limit: Limit,
    interrupt: Interrupt,
    check: impl FnOnce() -> Result<Option<T>, Errno>,
) -> Result<Option<T>, Errno> {
    interrupt.unblock();
    let writer = gettid();
    let uffd = open_uffd()?;
    let text = Text::new(limit, uffd.as_raw_fd())?;
    let pager = Pager::start(uffd, text.last_page(), move || interrupt.kick(writer))?;
    // Without the fault there would be no signal, and the kernel could kill.
    if !text.is_missing()? {
        return Err(Errno::EBUSY);
    }
    let result = match check() {
        Ok(None) => file.write_raw(text.start, text.len).map(|()| None),
        answer => answer,
    };
    // A write that did not come as far as the page has left the pager waiting.
    drop(pager);
    result
}

/// A thread that waits for one fault, runs what it was given, and lets a page of zeros in. Ends when it is dropped,
/// whether or not there was a fault.
struct Pager {
    thread: Option<JoinHandle<()>>,
    /// Its other end tells the thread that nobody needs it any more.
    wanted: Option<PipeWriter>,
}

impl Pager {
    fn start(uffd: OwnedFd, page: u64, before: impl FnOnce() + Send + 'static) -> Result<Self, Errno> {
        let system = |error: std::io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EAGAIN));
        let (unwanted, wanted) = std::io::pipe().map_err(system)?;
        let serve = move || {
            if fault_comes(&uffd, &unwanted) {
                before();
                let mut zero = ZeropageArgs { start: page, len: PAGE_SIZE, mode: 0, zeropage: 0 };
                // SAFETY: the descriptor is a userfaultfd and the argument outlives the call. A page that is there already
                // is an error without effect. When this fails the closing of the descriptor, which follows, lets the
                // fault go on as well.
                let _ = unsafe { uffdio_zeropage(uffd.as_raw_fd(), &raw mut zero) };
            }
        };
        let thread = std::thread::Builder::new().name("enforcer-page".into()).spawn(serve).map_err(system)?;
        Ok(Self { thread: Some(thread), wanted: Some(wanted) })
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        self.wanted = None;
        if let Some(thread) = self.thread.take() {
            // It does nothing that could panic.
            let _ = thread.join();
        }
    }
}

/// Waits for a fault, or until the other end of `unwanted` is closed.
fn fault_comes(uffd: &OwnedFd, unwanted: &PipeReader) -> bool {
    let mut fds =
        [PollFd::new(uffd.as_fd(), PollFlags::POLLIN), PollFd::new(unwanted.as_fd(), PollFlags::POLLIN)];
    while let Err(Errno::EINTR) = poll(&mut fds, PollTimeout::NONE) {}
    fds[0].any().unwrap_or(false)
}

/// Whether [`write_with_signal`] can be used here at all; fails as it would.
pub(super) fn usable() -> Result<(), Errno> {
    open_uffd().map(drop)
}

fn open_uffd() -> Result<OwnedFd, Errno> {
    // Polling a blocking one is an error (userfaultfd_poll in fs/userfaultfd.c).
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: takes one number and touches no memory of ours.
    let fd = Errno::result(unsafe { libc::syscall(libc::SYS_userfaultfd, flags) })?;
    let fd = RawFd::try_from(fd).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just made it for us.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut api = ApiArgs { api: API, features: 0, ioctls: 0 };
    // SAFETY: as above; the argument outlives the call.
    unsafe { uffdio_api(fd.as_raw_fd(), &raw mut api) }?;
    Ok(fd)
}

/// Two pages of its own. The limit's text ends the first; one more byte is on the second, which is missing, and whose
/// fault `uffd` is told of. Whatever it turns out to be made of, it is a zero, which ends the text: a limit that is cut
/// short can't be written.
///
/// The second page is registered before anything is written to the first. Until then both are one mapping, which the
/// kernel may merge with its neighbours, and a huge page that the first write brings in would fill the second as well.
struct Text {
    map: *mut u8,
    start: *const u8,
    len: usize,
}

impl Text {
    fn new(limit: Limit, uffd: RawFd) -> Result<Self, Errno> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let map = unsafe { libc::mmap(ptr::null_mut(), 2 * PAGE, protection, flags, -1, 0) };
        if map == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        // SAFETY: just mapped, and nobody else knows of it.
        unsafe { Self::within(map.cast(), limit, uffd) }
    }

    /// # Safety
    /// `map` is the start of two pages, readable and writable, that nobody else uses. They are unmapped with this.
    unsafe fn within(map: *mut u8, limit: Limit, uffd: RawFd) -> Result<Self, Errno> {
        let mut text = [0; 20];
        let text = limit_text(limit, &mut text);
        let start = map.wrapping_add(PAGE - text.len());
        let this = Self { map, start, len: text.len() + 1 };
        let mut register =
            RegisterArgs { start: this.last_page(), len: PAGE_SIZE, mode: MODE_MISSING, ioctls: 0 };
        // SAFETY: both pages are ours, and the argument outlives the call. Whatever has filled the second page until it
        // was registered is taken out again; only an unlocked page can be. The text has at most 20 bytes, so it fits the
        // first page.
        unsafe {
            uffdio_register(uffd, &raw mut register)?;
            Errno::result(libc::munlock(map.cast(), 2 * PAGE))?;
            Errno::result(libc::madvise(map.add(PAGE).cast(), PAGE, libc::MADV_DONTNEED))?;
            ptr::copy_nonoverlapping(text.as_ptr(), start, text.len());
        }
        Ok(this)
    }

    fn last_page(&self) -> u64 {
        self.map.wrapping_add(PAGE) as u64
    }

    /// Whether an access to the second page has to wait.
    fn is_missing(&self) -> Result<bool, Errno> {
        let mut resident = 0_u8;
        // SAFETY: the second page is ours, and one byte of answer is what one page takes.
        Errno::result(unsafe { libc::mincore(self.map.add(PAGE).cast(), PAGE, &raw mut resident) })?;
        Ok(resident & 1 == 0)
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and nobody has a reference into it.
        unsafe { libc::munmap(self.map.cast(), 2 * PAGE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::fixture::Fixture;
    use enforcer_gate::{Bytes, LimitFile};

    #[test]
    fn the_text_arrives_whole_and_the_check_can_stop_it() {
        let tree = Fixture::new();
        tree.cgroup("a");
        tree.write("a/memory.max", "");
        let file = LimitFd::open(&tree.open("a").unwrap(), LimitFile::Max).unwrap();
        let interrupt = Interrupt::install().unwrap();
        let limit = Limit::Bytes(Bytes::new(123_456_789));
        let stopped = write_with_signal(&file, limit, interrupt, || Ok(Some(7)));
        if stopped == Err(Errno::EPERM) {
            eprintln!("skipped: userfaultfd is not permitted here");
            return;
        }
        assert_eq!((stopped, tree.read("a/memory.max").as_str()), (Ok(Some(7)), ""));
        assert_eq!(write_with_signal(&file, limit, interrupt, || Ok(None::<u8>)), Ok(None));
        assert_eq!(tree.read("a/memory.max"), "123456789\0");
    }

    /// With huge pages a write to the first page fills the second one as well, where both are part of a larger mapping.
    #[test]
    fn the_last_page_is_missing_whatever_lies_around_it() {
        const HUGE: usize = 2 << 20;
        let Ok(uffd) = open_uffd() else {
            eprintln!("skipped: userfaultfd is not permitted here");
            return;
        };
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh mapping at an address of the kernel's choice, left in place, of which nothing else is used.
        let around = unsafe {
            let around = libc::mmap(ptr::null_mut(), 4 * HUGE, protection, flags, -1, 0);
            assert_ne!(around, libc::MAP_FAILED);
            assert_eq!(libc::madvise(around, 4 * HUGE, libc::MADV_HUGEPAGE), 0);
            around.cast::<u8>()
        };
        // SAFETY: as above.
        let text = unsafe { Text::within(around.add(2 * HUGE), Limit::Max, uffd.as_raw_fd()) }.unwrap();
        assert!(text.is_missing().unwrap());
    }

    #[test]
    fn a_pager_that_nobody_needs_ends() {
        let Ok(uffd) = open_uffd() else {
            eprintln!("skipped: userfaultfd is not permitted here");
            return;
        };
        drop(Pager::start(uffd, 0, || panic!("there was no fault")).unwrap());
    }
}
