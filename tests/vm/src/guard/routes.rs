//! Every way in which bytes come to a limit file.

use super::queued::{aio, io_uring_inline, io_uring_polled, io_uring_worker};
use super::{Armed, MIB, Tenant};
use crate::guest::SWAP;
use enforcer::guard::{GuardMode, Reason, Source, Verdict};
use enforcer::probe::Judged;
use enforcer_gate::{Bytes, Limit};
use enforcer_vm_tests::scratch::{Scratch, Swap};
use std::fs::File;
use std::io::Error;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;

/// Under what the tenant uses.
pub(super) const LOW: &[u8] = b"16M\n";

/// One try by one route: the descriptor, and the errno (0 for none).
type Route = fn(&File) -> i32;

/// The `errno` of a call that failed, 0 of one that did not.
fn errno(result: libc::ssize_t) -> i32 {
    if result < 0 { Error::last_os_error().raw_os_error().unwrap_or(0) } else { 0 }
}

fn open(cgroup: &Scratch) -> File {
    File::options().write(true).open(cgroup.path().join("memory.max")).expect("open memory.max")
}

fn piece(bytes: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

fn write(file: &File) -> i32 {
    // SAFETY: the bytes are there, in this and every call below.
    errno(unsafe { libc::write(file.as_raw_fd(), LOW.as_ptr().cast(), LOW.len()) })
}

fn pwrite(file: &File) -> i32 {
    // SAFETY: as above.
    errno(unsafe { libc::pwrite(file.as_raw_fd(), LOW.as_ptr().cast(), LOW.len(), 0) })
}

fn writev(file: &File) -> i32 {
    let pieces = [piece(b" "), piece(b"1"), piece(b""), piece(b"6M"), piece(b"\n")];
    // SAFETY: as above.
    errno(unsafe { libc::writev(file.as_raw_fd(), pieces.as_ptr(), 5) })
}

fn pwritev(file: &File) -> i32 {
    let pieces = [piece(b"16"), piece(b"M\n")];
    // SAFETY: as above.
    errno(unsafe { libc::pwritev(file.as_raw_fd(), pieces.as_ptr(), 2, 0) })
}

fn pwritev2(file: &File) -> i32 {
    let pieces = [piece(LOW)];
    // SAFETY: as above.
    errno(unsafe { libc::pwritev2(file.as_raw_fd(), pieces.as_ptr(), 1, -1, 0) })
}

/// A pipe's read end with the value in it.
fn filled_pipe() -> File {
    let mut ends = [0; 2];
    // SAFETY: two descriptors fit; both are nobody else's.
    let (read, write) = unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0, "make a pipe");
        (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1]))
    };
    std::io::Write::write_all(&mut &write, LOW).expect("fill the pipe");
    read
}

fn splice(file: &File) -> i32 {
    let pipe = filled_pipe();
    let none = std::ptr::null_mut();
    // SAFETY: as above.
    errno(unsafe { libc::splice(pipe.as_raw_fd(), none, file.as_raw_fd(), none, LOW.len(), 0) })
}

fn sendfile(file: &File) -> i32 {
    let mut source = tempfile::tempfile_in("/data").expect("a file");
    std::io::Write::write_all(&mut source, LOW).expect("fill it");
    let mut offset = 0;
    // SAFETY: as above.
    errno(unsafe { libc::sendfile(file.as_raw_fd(), source.as_raw_fd(), &raw mut offset, LOW.len()) })
}

/// A page that the kernel can only read by waiting for it.
fn not_resident(file: &File) -> i32 {
    let source = tempfile::tempfile_in("/data").expect("a file");
    std::io::Write::write_all(&mut &source, LOW).expect("fill it");
    source.set_len(4096).expect("a page");
    source.sync_all().expect("on disk");
    // SAFETY: a new mapping of a file that stays open; it is taken away again below.
    let page = unsafe {
        libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_PRIVATE, source.as_raw_fd(), 0)
    };
    assert_ne!(page, libc::MAP_FAILED, "map it");
    // Never touched, so no page table entry: only a fault brings it.
    // SAFETY: the mapping is there.
    let result = errno(unsafe { libc::write(file.as_raw_fd(), page, LOW.len()) });
    // SAFETY: nobody uses it any more.
    unsafe { libc::munmap(page, 4096) };
    result
}

fn too_long(file: &File) -> i32 {
    let mut text = vec![b' '; 200];
    text.extend(LOW);
    // SAFETY: as above.
    errno(unsafe { libc::write(file.as_raw_fd(), text.as_ptr().cast(), text.len()) })
}

fn many_pieces(file: &File) -> i32 {
    let mut pieces = vec![piece(b" "); 8];
    pieces.push(piece(LOW));
    // SAFETY: as above.
    errno(unsafe { libc::writev(file.as_raw_fd(), pieces.as_ptr(), 9) })
}

/// `write` by its 32-bit number, from a page below 4 GiB.
#[cfg(target_arch = "x86_64")]
fn compat(file: &File) -> i32 {
    // SAFETY: a new mapping, taken away again below.
    let page = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT,
            -1,
            0,
        )
    };
    assert_ne!(page, libc::MAP_FAILED, "map a page below 4 GiB");
    let mut result: i64 = 4;
    // SAFETY: the bytes fit the page. The call keeps all registers but the one of its result, and `rbx`, which
    // Rust keeps for itself, is put back.
    unsafe {
        std::ptr::copy_nonoverlapping(LOW.as_ptr(), page.cast(), LOW.len());
        std::arch::asm!(
            "xchg {first}, rbx",
            "int 0x80",
            "xchg {first}, rbx",
            first = inout(reg) i64::from(file.as_raw_fd()) => _,
            inout("rax") result,
            in("rcx") page as u64,
            in("rdx") LOW.len() as u64,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
        libc::munmap(page, 4096);
    }
    // A 32-bit call leaves 32 bits.
    let bytes = result.to_le_bytes();
    let result = i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    if result < 0 { -result } else { 0 }
}

/// Each route, and how the value is expected to come.
const ROUTES: [(&str, Route, Source); 15] = [
    ("write", write, Source::Write),
    ("pwrite64", pwrite, Source::Pwrite),
    ("writev", writev, Source::Writev),
    ("pwritev", pwritev, Source::Pwritev),
    ("pwritev2", pwritev2, Source::OtherCall),
    ("splice", splice, Source::OtherCall),
    ("sendfile", sendfile, Source::OtherCall),
    ("aio", aio, Source::OtherCall),
    // The kernel leaves it to a worker: a cgroup file can't be written without waiting.
    ("io_uring inline", io_uring_inline, Source::KernelThread),
    ("io_uring worker", io_uring_worker, Source::KernelThread),
    ("io_uring polled", io_uring_polled, Source::KernelThread),
    ("32-bit write", compat, Source::Compat),
    ("not resident", not_resident, Source::NotResident),
    ("too long", too_long, Source::TooLong),
    ("many pieces", many_pieces, Source::TooManyPieces),
];

fn has_value(source: Source) -> bool {
    matches!(source, Source::Write | Source::Pwrite | Source::Writev | Source::Pwritev)
}

/// Kernels may be built without AIO, `io_uring` or 32-bit calls.
fn is_missing(errno: i32) -> bool {
    errno == libc::ENOSYS || errno == libc::EPERM
}

/// Whether a page of this process is there without a fault (bit 63 of its entry in `/proc/self/pagemap`).
fn is_mapped(address: u64) -> bool {
    let mut entry = [0; 8];
    let pagemap = File::open("/proc/self/pagemap").expect("open the page map");
    pagemap.read_exact_at(&mut entry, address / 4096 * 8).expect("read the page map");
    u64::from_le_bytes(entry) >> 63 == 1
}

/// The writer's buffer was swapped out: the guard may not wait for it.
pub(super) fn swapped() {
    let _swap = Swap::on(SWAP);
    let tenant = Tenant::new("swapped");
    let mut armed = Armed::over(&tenant.cgroup, GuardMode::Enforce);
    let file = open(&tenant.cgroup);
    // SAFETY: a new mapping, filled, pushed out, written from, and taken away again.
    let errno = unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let page = libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0);
        assert_ne!(page, libc::MAP_FAILED, "map a page");
        std::ptr::copy_nonoverlapping(LOW.as_ptr(), page.cast(), LOW.len());
        // A test before this one may have locked everything to come.
        assert_eq!(libc::munlock(page, 4096), 0, "unlock it");
        let began = std::time::Instant::now();
        while is_mapped(page as u64) {
            assert!(began.elapsed().as_secs() < 60, "the page is not pushed out");
            assert_eq!(libc::madvise(page, 4096, libc::MADV_PAGEOUT), 0, "push it out");
        }
        let result = errno(libc::write(file.as_raw_fd(), page, LOW.len()));
        libc::munmap(page, 4096);
        result
    };
    let judged = armed.one("a write from swap");
    assert_eq!(
        (errno, judged.reason, judged.source),
        (libc::EBUSY, Reason::Unavailable, Source::NotResident)
    );
}

pub(super) fn every_route() {
    let tenant = Tenant::new("routes");
    let cgroup = &tenant.cgroup;
    let mut armed = Armed::over(cgroup, GuardMode::Enforce);
    for (name, route, source) in ROUTES {
        let errno = route(&open(cgroup));
        if is_missing(errno) {
            println!("{name}: not on this kernel");
            continue;
        }
        let told = armed.told();
        let denied = |judged: &&Judged| judged.verdict == Verdict::Denied;
        let Some(judged) = told.iter().find(denied) else {
            panic!("{name} ({errno}) was not refused: {told:#?}, limit {}", cgroup.limit("memory.max"))
        };
        println!("{name:<16} errno {errno:<3} {} by {}", judged.reason.name(), judged.source.name());
        assert_eq!(judged.source, source, "{name}: {judged:#?}");
        let (reason, asked) = if has_value(source) {
            (Reason::NoLease, Some(Limit::Bytes(Bytes::from_mib(16))))
        } else {
            (Reason::Unavailable, None)
        };
        assert_eq!((judged.reason, judged.asked), (reason, asked), "{name}: {judged:#?}");
        assert_eq!(errno, libc::EBUSY, "{name}");
        assert_eq!(cgroup.limit("memory.max"), (64 * MIB).to_string(), "{name}");
    }
    assert_eq!(cgroup.kills(), 0);
}
