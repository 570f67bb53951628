//! Reading the kernel's structures at the offsets that the loader found.

use aya_ebpf::helpers::{
    bpf_get_current_cgroup_id, bpf_get_current_comm, bpf_get_current_pid_tgid, bpf_probe_read_kernel,
    bpf_probe_read_kernel_str_bytes,
};
use core::ffi::c_void;
use enforcer_abi::{Field, Offsets, Task, Text};

/// A pointer into the kernel.
pub type Ptr = *const c_void;

/// Where the running kernel keeps what. The loader sets it.
#[unsafe(no_mangle)]
static OFFSETS: Offsets = Offsets::UNKNOWN;

#[inline(always)]
fn at(base: Ptr, field: Field) -> Ptr {
    // SAFETY: a read of a static; volatile because the loader changes it.
    let offset = unsafe { OFFSETS.slot(field).read_volatile() };
    base.wrapping_byte_add(offset as usize)
}

/// The value of a field; `None` where `base` is null or the memory can't be read.
#[inline(always)]
pub fn load<T: Copy>(base: Ptr, field: Field) -> Option<T> {
    if base.is_null() {
        return None;
    }
    // SAFETY: the helper takes any address and fails on a bad one.
    unsafe { bpf_probe_read_kernel(at(base, field).cast::<T>()) }.ok()
}

/// The value of a field, by a load of the program's own: cheaper than [`load`], where the verifier knows the type.
///
/// # Safety
/// `base` comes from the kernel as a pointer to the structure that `field` is a member of.
#[inline(always)]
pub unsafe fn peek<T: Copy>(base: Ptr, field: Field) -> T {
    // SAFETY: as the caller promises; the kernel turns a fault into a zero.
    unsafe { at(base, field).cast::<T>().read_volatile() }
}

/// A value that is no offset: a size, or the number of a counter. 0 where it is not known.
#[inline(always)]
pub fn plain(field: Field) -> u64 {
    // SAFETY: as in `at`.
    u64::from(unsafe { OFFSETS.slot(field).read_volatile() })
}

/// The value `skip` bytes behind the beginning of a field.
#[inline(always)]
pub fn load_behind<T: Copy>(base: Ptr, field: Field, skip: u64) -> Option<T> {
    if base.is_null() {
        return None;
    }
    let place = at(base, field).wrapping_byte_add(skip as usize);
    // SAFETY: the helper takes any address and fails on a bad one.
    unsafe { bpf_probe_read_kernel(place.cast::<T>()) }.ok()
}

/// The pointer in a field; null where it can't be read.
#[inline(always)]
pub fn follow(base: Ptr, field: Field) -> Ptr {
    load::<Ptr>(base, field).unwrap_or(core::ptr::null())
}

/// The number in a field; 0 where it can't be read.
#[inline(always)]
pub fn number(base: Ptr, field: Field) -> u64 {
    load::<u64>(base, field).unwrap_or(0)
}

/// Copies a NUL-terminated string, cut to the buffer.
#[inline(always)]
pub fn text<const N: usize>(from: Ptr, to: &mut Text<N>) {
    if !from.is_null() {
        // SAFETY: the helper takes any address and fails on a bad one.
        let _ = unsafe { bpf_probe_read_kernel_str_bytes(from.cast(), to.buffer_mut()) };
    }
}

/// The id of a `struct cgroup`; 0 where it can't be read.
#[inline(always)]
pub fn cgroup_id(cgroup: Ptr) -> u64 {
    number(follow(cgroup, Field::CgroupKn), Field::KnId)
}

/// The id of the cgroup of a `struct mem_cgroup`; 0 for null.
#[inline(always)]
pub fn memcg_id(memcg: Ptr) -> u64 {
    cgroup_id(follow(memcg, Field::MemcgCgroup))
}

/// The thread and process that run: `tgid << 32 | pid`.
#[inline(always)]
pub fn current() -> u64 {
    bpf_get_current_pid_tgid()
}

/// The process of [`current`].
#[inline(always)]
pub fn tgid_of(current: u64) -> u32 {
    (current >> 32) as u32
}

/// Describes the running task.
#[inline(always)]
pub fn fill_current(task: &mut Task) {
    let current = current();
    task.pid = current as u32;
    task.tgid = tgid_of(current);
    if let Ok(comm) = bpf_get_current_comm() {
        task.comm = Text::from(comm);
    }
    // SAFETY: the helper takes no argument.
    task.cgroup = unsafe { bpf_get_current_cgroup_id() };
}

/// Describes a `struct task_struct`.
#[inline(always)]
pub fn fill_task(from: Ptr, task: &mut Task) {
    task.pid = load(from, Field::TaskPid).unwrap_or(0);
    task.tgid = load(from, Field::TaskTgid).unwrap_or(0);
    text(at(from, Field::TaskComm), &mut task.comm);
    task.cgroup = cgroup_id(follow(follow(from, Field::TaskCgroups), Field::CssSetCgroup));
}

/// The name of a `struct cgroup`.
#[inline(always)]
pub fn cgroup_name<const N: usize>(cgroup: Ptr, to: &mut Text<N>) {
    text(follow(follow(cgroup, Field::CgroupKn), Field::KnName), to);
}
