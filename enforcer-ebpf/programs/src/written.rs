//! What the running task is about to write: from the registers of its system call, and its memory.
//!
//! The hook that asks (`file_permission`) is told the file and not the bytes, and may not wait for a page.

use crate::kernel::{Ptr, follow, load, number};
use crate::maps::Scratch;
use aya_ebpf::helpers::generated::{bpf_get_current_task_btf, bpf_probe_read_user, bpf_task_pt_regs};
use core::hint::black_box;
use enforcer_abi::{Asked, Field, Grammar, LIMIT_WRITE_MAX, Source};

/// Whether the kernel reads limits by the strict grammar. The loader sets it.
#[unsafe(no_mangle)]
static STRICT: u8 = 0;

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

/// Finds out what the running task is about to write to `file`.
#[inline(always)]
pub fn look(file: Ptr, scratch: *mut Scratch) {
    // SAFETY: a map value; nobody else uses this thread's, here and below.
    let (asked, source) = unsafe { (&raw mut (*scratch).asked, &raw mut (*scratch).source) };
    match written(file, scratch) {
        // SAFETY: as above.
        Ok(Asked::Pages(pages)) => unsafe {
            (&raw mut (*scratch).pages).write_volatile(pages);
            asked.write_volatile(2);
        },
        // SAFETY: as above.
        Ok(Asked::Refused) => unsafe { asked.write_volatile(1) },
        // SAFETY: as above.
        Err(why) => unsafe { source.write_volatile(why) },
    }
}

#[inline(always)]
fn written(file: Ptr, scratch: *mut Scratch) -> Result<Asked, Source> {
    // SAFETY: the helper takes no argument.
    let task = unsafe { bpf_get_current_task_btf() };
    let flags = load::<u32>(task.cast_const().cast(), Field::TaskFlags);
    if flags.is_none_or(|flags| flags & KERNEL_THREAD != 0) {
        return Err(Source::KernelThread);
    }
    // SAFETY: the task is the running one.
    let registers = unsafe { bpf_task_pt_regs(task) } as Ptr;
    let syscall = number(registers, Field::RegsCall);
    // SAFETY: as in `look`.
    unsafe { (&raw mut (*scratch).syscall).write_volatile(syscall) };
    let status = load::<u32>(task.cast_const().cast(), Field::TaskStatus);
    if status.is_none_or(|status| status & COMPAT != 0) {
        return Err(Source::Compat);
    }
    let (source, whole) = match syscall {
        WRITE => (Source::Write, true),
        PWRITE64 => (Source::Pwrite, true),
        WRITEV => (Source::Writev, false),
        PWRITEV => (Source::Pwritev, false),
        _ => return Err(Source::OtherCall),
    };
    // SAFETY: as in `look`.
    unsafe { (&raw mut (*scratch).source).write_volatile(source) };
    let descriptor = number(registers, Field::RegsFirst) as u32;
    if !is_open_as(task.cast_const().cast(), descriptor, file) {
        return Err(Source::OtherCall);
    }
    read(scratch, whole, number(registers, Field::RegsSecond), number(registers, Field::RegsThird))
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

/// Reads the value in one piece, or joins `count` pieces whose list is at `address`, and parses it.
#[inline(always)]
fn read(scratch: *mut Scratch, whole: bool, address: u64, count: u64) -> Result<Asked, Source> {
    let pieces = if whole { 1 } else { count };
    if whole && count > LIMIT_WRITE_MAX as u64 {
        return Ok(Asked::Refused);
    }
    if pieces > Source::PIECES_MAX as u64 {
        return Err(Source::TooManyPieces);
    }
    let mut total = 0_u64;
    for index in 0..Source::PIECES_MAX as u64 {
        if index >= pieces {
            break;
        }
        let piece = if whole {
            Piece { base: address, len: count }
        } else {
            let at = (address as *const Piece).wrapping_add(index as usize);
            // SAFETY: the helper takes any address and fails on a bad one.
            unsafe { aya_ebpf::helpers::bpf_probe_read_user(at) }.map_err(|_| Source::NotResident)?
        };
        if piece.len > Source::VALUE_MAX as u64 || total + piece.len > Source::VALUE_MAX as u64 {
            return Err(Source::TooLong);
        }
        copy(scratch, total, piece)?;
        total += piece.len;
    }
    Ok(if total == 0 { Asked::Refused } else { parse(scratch) })
}

/// Copies a piece of up to [`Source::VALUE_MAX`] bytes to `at`.
#[inline(always)]
fn copy(scratch: *mut Scratch, at: u64, piece: Piece) -> Result<(), Source> {
    // Behind a black box, so that the bounds are not taken for superfluous: the verifier wants to see them.
    let (at, len) = (black_box(at) & 63, black_box(piece.len) & 63);
    // SAFETY: 63 and 63 are inside the 128 bytes; the helper takes any user address and fails on a bad one.
    let result = unsafe {
        let to = (&raw mut (*scratch).bytes).cast::<u8>().add(at as usize);
        bpf_probe_read_user(to.cast(), len as u32, piece.base as *const _)
    };
    if result == 0 { Ok(()) } else { Err(Source::NotResident) }
}

/// What the bytes ask for. Behind the last there are zeros, which end a text: all are taken, so that the verifier
/// sees one way and not one for each length.
#[inline(always)]
fn parse(scratch: *mut Scratch) -> Asked {
    // SAFETY: a map value; nobody else uses this thread's. Volatile: in memory the parser's state is one unknown
    // to the verifier, in registers it could follow each of its values through the loop.
    unsafe {
        let parser = &raw mut (*scratch).parser;
        for at in 0..Source::VALUE_MAX {
            let byte = (&raw const (*scratch).bytes).cast::<u8>().add(at).read_volatile();
            let mut state = parser.read_volatile();
            state.step(byte);
            parser.write_volatile(state);
        }
        let is_strict = (&raw const STRICT).read_volatile() != 0;
        parser.read_volatile().finish(if is_strict { Grammar::Strict } else { Grammar::Loose })
    }
}
