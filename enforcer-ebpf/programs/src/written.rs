//! What the running task is about to write: from the registers of its system call, and its memory.
//!
//! The hook that asks (`file_permission`) is told the file and not the bytes, and may not wait for a page.

use crate::kernel::{Ptr, follow, load, number};
use crate::maps::Scratch;
use aya_ebpf::helpers::generated::{bpf_get_current_task_btf, bpf_probe_read_user, bpf_task_pt_regs};
use core::hint::black_box;
use enforcer_abi::{Asked, Field, LIMIT_WRITE_MAX, Source};

/// `PF_KTHREAD` and `PF_IO_WORKER` of `task_struct.flags`: defines, so not in the kernel's type information.
const KERNEL_THREAD: u32 = 0x0020_0000 | 0x10;
/// `TS_COMPAT` of `thread_info.status`: a 32-bit system call runs.
const COMPAT: u32 = 2;

/// Numbers of system calls on x86-64.
const WRITE: u64 = 1;
const PWRITE64: u64 = 18;
const WRITEV: u64 = 20;
const PWRITEV: u64 = 296;

/// Entry of a kernel's `struct iovec`, which user space lays out.
#[derive(Clone, Copy)]
#[repr(C)]
struct Piece {
    base: u64,
    len: u64,
}

/// What is written.
pub struct Written {
    /// `None` where it can't be had.
    pub asked: Option<Asked>,
    pub source: Source,
    pub syscall: u64,
}

/// What the running task is about to write to `file`; its text is left in `scratch`.
#[inline(always)]
pub fn written(file: Ptr, scratch: *mut Scratch) -> Written {
    let mut written = Written { asked: None, source: Source::KernelThread, syscall: 0 };
    // SAFETY: the helper takes no argument.
    let task = unsafe { bpf_get_current_task_btf() };
    let flags = load::<u32>(task.cast_const().cast(), Field::TaskFlags);
    if flags.is_none_or(|flags| flags & KERNEL_THREAD != 0) {
        return written;
    }
    // SAFETY: the task is the running one.
    let registers = unsafe { bpf_task_pt_regs(task) } as Ptr;
    written.syscall = number(registers, Field::RegsCall);
    let status = load::<u32>(task.cast_const().cast(), Field::TaskStatus);
    if status.is_none_or(|status| status & COMPAT != 0) {
        written.source = Source::Compat;
        return written;
    }
    written.source = match written.syscall {
        WRITE => Source::Write,
        PWRITE64 => Source::Pwrite,
        WRITEV => Source::Writev,
        PWRITEV => Source::Pwritev,
        _ => Source::OtherCall,
    };
    let descriptor = number(registers, Field::RegsFirst) as u32;
    if written.source as u32 == Source::OtherCall as u32
        || !is_open_as(task.cast_const().cast(), descriptor, file)
    {
        written.source = Source::OtherCall;
        return written;
    }
    let (address, count) = (number(registers, Field::RegsSecond), number(registers, Field::RegsThird));
    let whole = matches!(written.source, Source::Write | Source::Pwrite);
    let read = if whole { read_whole(scratch, address, count) } else { read_pieces(scratch, address, count) };
    match read {
        Ok(asked) => written.asked = Some(asked),
        Err(source) => written.source = source,
    }
    written
}

/// Whether the task's descriptor is this file. A call whose own file is another one only leads to the write.
#[inline(always)]
fn is_open_as(task: Ptr, descriptor: u32, file: Ptr) -> bool {
    let table = follow(follow(task, Field::TaskFiles), Field::FilesTable);
    let open = follow(table, Field::TableFds);
    if open.is_null() {
        return false;
    }
    let slot = open.cast::<Ptr>().wrapping_add(descriptor as usize);
    // SAFETY: the helper takes any address and fails on a bad one.
    unsafe { aya_ebpf::helpers::bpf_probe_read_kernel(slot) }.is_ok_and(|found| found == file)
}

#[inline(always)]
fn read_whole(scratch: *mut Scratch, address: u64, count: u64) -> Result<Asked, Source> {
    if count == 0 || count > LIMIT_WRITE_MAX as u64 {
        return Ok(Asked::Refused);
    }
    if count > Source::VALUE_MAX as u64 {
        return Err(Source::TooLong);
    }
    read(scratch, 0, address, count)?;
    Ok(parse(scratch, count))
}

#[inline(always)]
fn read_pieces(scratch: *mut Scratch, address: u64, count: u64) -> Result<Asked, Source> {
    if count > Source::PIECES_MAX as u64 {
        return Err(Source::TooManyPieces);
    }
    let mut total = 0_u64;
    for index in 0..Source::PIECES_MAX as u64 {
        if index >= count {
            break;
        }
        let at = (address as *const Piece).wrapping_add(index as usize);
        // SAFETY: the helper takes any address and fails on a bad one.
        let piece = unsafe { aya_ebpf::helpers::bpf_probe_read_user(at) }.map_err(|_| Source::NotResident)?;
        if piece.len > Source::VALUE_MAX as u64 || total + piece.len > Source::VALUE_MAX as u64 {
            return Err(Source::TooLong);
        }
        read(scratch, total, piece.base, piece.len)?;
        total += piece.len;
    }
    Ok(if total == 0 { Asked::Refused } else { parse(scratch, total) })
}

/// Reads up to [`Source::VALUE_MAX`] bytes at `address` to `at`.
#[inline(always)]
fn read(scratch: *mut Scratch, at: u64, address: u64, len: u64) -> Result<(), Source> {
    // Behind a black box, so that the bounds are not taken for superfluous: the verifier wants to see them.
    let (at, len) = (black_box(at) & 127, black_box(len) & 127);
    // SAFETY: 127 and 127 are inside the 256 bytes; the helper takes any user address and fails on a bad one.
    let result = unsafe {
        let to = (&raw mut (*scratch).bytes).cast::<u8>().add(at as usize);
        bpf_probe_read_user(to.cast(), len as u32, address as *const _)
    };
    if result == 0 { Ok(()) } else { Err(Source::NotResident) }
}

#[inline(always)]
fn parse(scratch: *mut Scratch, len: u64) -> Asked {
    // SAFETY: a map value; nobody else uses this thread's. Volatile: in memory the parser's state is one unknown
    // to the verifier, in registers it could follow each of its values through the loop.
    unsafe {
        let parser = &raw mut (*scratch).parser;
        for at in 0..Source::VALUE_MAX {
            if at as u64 >= len {
                break;
            }
            let byte = (&raw const (*scratch).bytes).cast::<u8>().add(at).read_volatile();
            let mut state = parser.read_volatile();
            state.step(byte);
            parser.write_volatile(state);
        }
        parser.read_volatile().finish()
    }
}
