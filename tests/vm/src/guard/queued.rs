//! Writes that the kernel carries out for somebody: `io_uring` and AIO.

use super::routes::LOW;
use std::ffi::c_void;
use std::fs::File;
use std::io::Error;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// One request and its answer, laid out as the kernel's headers say (`include/uapi/linux/io_uring.h`).
fn io_uring(file: &File, setup_flags: u32, request_flags: u8) -> i32 {
    const WRITE: u8 = 23;
    const GET_EVENTS: u32 = 1;
    const WAKE_UP: u32 = 2;
    let mut parameters = [0_u32; 30];
    parameters[2] = setup_flags;
    // SAFETY: 120 bytes are what the kernel fills; the descriptor is nobody else's.
    let ring = unsafe {
        let fd = libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr());
        if fd < 0 {
            return Error::last_os_error().raw_os_error().unwrap_or(0);
        }
        File::from_raw_fd(i32::try_from(fd).expect("a descriptor"))
    };
    let map = |offset: i64, len: usize| {
        // SAFETY: a new mapping of the ring; it lives until the process ends, some pages a test.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                ring.as_raw_fd(),
                offset,
            )
        };
        assert_ne!(at, libc::MAP_FAILED, "map the ring");
        at
    };
    // sq_off begins at word 10: head, tail, ring_mask, ring_entries, flags, dropped, array.
    // cq_off begins at word 20: head, tail, ring_mask, ring_entries, overflow, cqes.
    let (submit, requests) = (map(0, 4096), map(0x1000_0000, 4096));
    let answers = map(0x800_0000, 4096);
    // SAFETY: offsets that the kernel gave, inside the mappings; the request is 64 bytes.
    unsafe {
        requests.cast::<u8>().write(WRITE);
        requests.byte_add(1).cast::<u8>().write(request_flags);
        requests.byte_add(4).cast::<i32>().write(file.as_raw_fd());
        requests.byte_add(16).cast::<u64>().write(LOW.as_ptr() as u64);
        requests.byte_add(24).cast::<u32>().write(u32::try_from(LOW.len()).expect("a few bytes"));
        submit.byte_add(parameters[16] as usize).cast::<u32>().write(0);
        let tail = submit.byte_add(parameters[11] as usize).cast::<AtomicU32>();
        (*tail).store(1, Ordering::Release);
        let none = std::ptr::null::<c_void>();
        let flags = GET_EVENTS | if setup_flags == 0 { 0 } else { WAKE_UP };
        let entered = libc::syscall(libc::SYS_io_uring_enter, ring.as_raw_fd(), 1, 1, flags, none, 0);
        assert!(entered >= 0, "{}", Error::last_os_error());
        let result = answers.byte_add(parameters[25] as usize).cast::<i32>().add(2).read_volatile();
        if result < 0 { -result } else { 0 }
    }
}

pub(super) fn io_uring_inline(file: &File) -> i32 {
    io_uring(file, 0, 0)
}

/// `IOSQE_ASYNC`: a worker does it.
pub(super) fn io_uring_worker(file: &File) -> i32 {
    io_uring(file, 0, 1 << 4)
}

/// `IORING_SETUP_SQPOLL`: a thread of the kernel's submits.
pub(super) fn io_uring_polled(file: &File) -> i32 {
    io_uring(file, 1 << 1, 0)
}

/// `io_submit` of one `IOCB_CMD_PWRITE`.
pub(super) fn aio(file: &File) -> i32 {
    let mut context = 0_u64;
    let mut request = [0_u64; 8];
    // aio_lio_opcode (IOCB_CMD_PWRITE) in the low 16 bits, aio_fildes in the high 32.
    request[2] = 1 | u64::try_from(file.as_raw_fd()).expect("a descriptor") << 32;
    request[3] = LOW.as_ptr() as u64;
    request[4] = LOW.len() as u64;
    let requests = [request.as_mut_ptr()];
    let mut event = [0_i64; 4];
    // SAFETY: structures as include/uapi/linux/aio_abi.h lays them out; all live until the answer is there.
    unsafe {
        assert_eq!(libc::syscall(libc::SYS_io_setup, 1, &raw mut context), 0, "io_setup");
        let submitted = libc::syscall(libc::SYS_io_submit, context, 1, requests.as_ptr());
        let result = if submitted == 1 {
            let none = std::ptr::null::<c_void>();
            libc::syscall(libc::SYS_io_getevents, context, 1, 1, event.as_mut_ptr(), none);
            i32::try_from(event[2]).unwrap_or(0)
        } else {
            -Error::last_os_error().raw_os_error().unwrap_or(0)
        };
        libc::syscall(libc::SYS_io_destroy, context);
        if result < 0 { -result } else { 0 }
    }
}
