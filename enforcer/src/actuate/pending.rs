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
    unistd::{gettid, read},
};
use std::{
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd},
    ptr,
    sync::mpsc,
};

const PAGE: usize = 4096;
const _: () = assert!(PAGE as u64 == PAGE_SIZE);
/// `UFFD_API` of `linux/userfaultfd.h`.
const API: u64 = 0xaa;
const MODE_MISSING: u64 = 1;
/// `sizeof(struct uffd_msg)`.
const MESSAGE_BYTES: usize = 32;

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
    let text = Text::new(limit)?;
    text.register(uffd.as_raw_fd())?;
    let last_page = text.last_page();
    let (ready, is_ready) = mpsc::sync_channel(1);
    let serve = move || {
        // Nothing to do about a receiver that is gone: then there is no fault to serve.
        let _ = ready.send(());
        serve_one_fault(&uffd, last_page, || interrupt.kick(writer));
    };
    let pager = std::thread::Builder::new().name("enforcer-page".into()).spawn(serve);
    let pager = pager.map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EAGAIN)))?;
    let _ = is_ready.recv();
    let result = match check() {
        Ok(None) => file.write_raw(text.start, text.len).map(|()| None),
        answer => answer,
    };
    // Where the write did not come as far as the page, this does, and so the pager ends in any case.
    text.touch();
    // It does nothing that could panic.
    let _ = pager.join();
    result
}

/// Waits for the fault, runs `before`, and lets a page of zeros in.
fn serve_one_fault(uffd: &OwnedFd, page: u64, before: impl FnOnce()) {
    while let Err(Errno::EINTR) = read(uffd, &mut [0; MESSAGE_BYTES]) {}
    before();
    let mut zero = ZeropageArgs { start: page, len: PAGE_SIZE, mode: 0, zeropage: 0 };
    // SAFETY: the descriptor is a userfaultfd and the argument outlives the call. A page that is there already is an
    // error without effect. When this fails the closing of the descriptor, which follows, lets the fault go on as well.
    let _ = unsafe { uffdio_zeropage(uffd.as_raw_fd(), &raw mut zero) };
}

/// Whether [`write_with_signal`] can be used here at all; fails as it would.
pub(super) fn usable() -> Result<(), Errno> {
    open_uffd().map(drop)
}

fn open_uffd() -> Result<OwnedFd, Errno> {
    // SAFETY: takes one number and touches no memory of ours.
    let fd = Errno::result(unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) })?;
    let fd = RawFd::try_from(fd).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just made it for us.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut api = ApiArgs { api: API, features: 0, ioctls: 0 };
    // SAFETY: as above; the argument outlives the call.
    unsafe { uffdio_api(fd.as_raw_fd(), &raw mut api) }?;
    Ok(fd)
}

/// Two pages of its own. The limit's text ends the first; one more byte is on the second, which is missing. Whatever it
/// turns out to be made of, it is a zero, which ends the text: a limit that is cut short can't be written.
struct Text {
    map: *mut u8,
    start: *const u8,
    len: usize,
}

impl Text {
    fn new(limit: Limit) -> Result<Self, Errno> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let map = unsafe { libc::mmap(ptr::null_mut(), 2 * PAGE, protection, flags, -1, 0) };
        if map == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        let map: *mut u8 = map.cast();
        let mut text = [0; 20];
        let text = limit_text(limit, &mut text);
        let start = map.wrapping_add(PAGE - text.len());
        let this = Self { map, start, len: text.len() + 1 };
        // SAFETY: both pages are ours. Locking everything in advance may have filled the second one; only an
        // unlocked one can be emptied. The text has at most 20 bytes, so it fits the first page.
        unsafe {
            Errno::result(libc::munlock(map.cast(), 2 * PAGE))?;
            Errno::result(libc::madvise(map.cast(), 2 * PAGE, libc::MADV_DONTNEED))?;
            ptr::copy_nonoverlapping(text.as_ptr(), start, text.len());
        }
        Ok(this)
    }

    fn last_page(&self) -> u64 {
        self.map.wrapping_add(PAGE) as u64
    }

    fn register(&self, uffd: RawFd) -> Result<(), Errno> {
        let mut register =
            RegisterArgs { start: self.last_page(), len: PAGE_SIZE, mode: MODE_MISSING, ioctls: 0 };
        // SAFETY: the range is ours; the argument outlives the call.
        unsafe { uffdio_register(uffd, &raw mut register) }.map(drop)
    }

    fn touch(&self) {
        // SAFETY: the second page is mapped readable until this is dropped.
        unsafe { self.map.wrapping_add(PAGE).read_volatile() };
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
}
