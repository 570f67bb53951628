//! The guard: refuses a write that would take a memory limit below what the cgroup uses.

use crate::cost::measured;
use crate::kernel::{Ptr, current, fill_current, follow, load, number, peek};
use crate::maps::{EMPTY, GUARD_COUNTS, GUARD_LIFE, GUARDED, LEASES, SCRATCH, Scratch, add, dropped, send};
use crate::written::look;
use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::helpers::generated::bpf_probe_read_kernel_str;
use aya_ebpf::macros::lsm;
use aya_ebpf::programs::LsmContext;
use enforcer_abi::{
    ASKED_LEN, Facts, Field, GuardMode, GuardVerdict, Guarded, Kind, Lease, LeaseKey, LimitKind, Program,
    Reason, Text, Verdict,
};

/// `MAY_WRITE` of the hook's mask: a define, so not in the kernel's type information.
const MAY_WRITE: i32 = 2;
/// `CGROUP2_SUPER_MAGIC` (include/uapi/linux/magic.h).
const CGROUP2: u64 = 0x6367_7270;
/// How far up the tree an entry is looked for.
const LEVELS_MAX: u32 = 16;

/// A guarded file by the length of its name, the NUL behind it included.
#[derive(Clone, Copy)]
struct File {
    /// [`LimitKind`]; 0 where no guarded file has a name so long.
    kind: u64,
    name: [u64; 3],
}

/// A table, so that the verifier goes on from here once and not once for each file.
static FILES: [File; 32] = {
    let mut files = [File { kind: 0, name: [0; 3] }; 32];
    let kinds = [LimitKind::MemoryMax, LimitKind::MemoryHigh, LimitKind::SwapMax];
    let mut index = 0;
    while index < kinds.len() {
        let text = kinds[index].name().as_bytes();
        let file = &mut files[text.len() + 1];
        file.kind = kinds[index] as u64;
        let mut at = 0;
        while at < text.len() {
            file.name[at / 8] |= (text[at] as u64) << (at % 8 * 8);
            at += 1;
        }
        index += 1;
    }
    files
};

/// Runs for every read and write of the node: what is no write of cgroup v2 leaves after three loads.
#[lsm(hook = "file_permission")]
fn guard_write(ctx: LsmContext) -> i32 {
    if ctx.arg::<i32>(1) & MAY_WRITE == 0 {
        return 0;
    }
    let file: Ptr = ctx.arg(0);
    // SAFETY: `file` is what the kernel passes; each step is a member of the structure before.
    let (inode, magic) = unsafe {
        let inode: Ptr = peek(file, Field::FileInode);
        (inode, peek::<u64>(peek(inode, Field::InodeSb), Field::SbMagic))
    };
    if magic != CGROUP2 {
        return 0;
    }
    let kn = follow(inode, Field::InodePrivate);
    let kind = guarded_file(follow(kn, Field::KnName));
    if kind == 0 {
        return 0;
    }
    let folder = follow(kn, Field::KnParent);
    let id = covered_by(folder);
    // SAFETY: the value is copied at once.
    let Some(guarded) = unsafe { GUARDED.get(&id) }.copied() else { return 0 };
    if guarded.what & 1 << (kind & 7) == 0 || guarded.mode == GuardMode::Off as u32 {
        return 0;
    }
    let mut denied = 0_u32;
    measured(Program::GuardWrite, || denied = u32::from(judge(file, folder, kind, guarded)));
    // A constant on either way: the verifier wants to see that it is an errno.
    if core::hint::black_box(denied) != 0 { -16 } else { 0 }
}

/// The number of the guarded file that has this name; 0 for none.
#[inline(always)]
fn guarded_file(from: Ptr) -> u32 {
    let mut found = [0_u64; 3];
    if from.is_null() {
        return 0;
    }
    // SAFETY: the helper takes any address and fails on a bad one; it writes at most so many bytes.
    let len = unsafe { bpf_probe_read_kernel_str((&raw mut found).cast(), 24, from.cast()) };
    let file = &FILES[len as usize & 31];
    let differs = found[0] ^ file.name[0] | found[1] ^ file.name[1] | found[2] ^ file.name[2];
    if differs == 0 { file.kind as u32 } else { 0 }
}

/// Which cgroup's entry is the nearest up the tree; 0 for none. A number, so that the verifier goes on from here but
/// once, whatever the level.
#[inline(never)]
fn covered_by(folder: Ptr) -> u64 {
    let mut at = folder;
    let mut wanted = Guarded::SELF;
    for _ in 0..LEVELS_MAX {
        let id = number(at, Field::KnId);
        // SAFETY: the value is copied at once.
        if unsafe { GUARDED.get(&id) }.is_some_and(|found| found.what & wanted != 0) {
            return id;
        }
        wanted = Guarded::BELOW;
        at = follow(at, Field::KnParent);
        if at.is_null() {
            break;
        }
    }
    0
}

/// Usage and limit of one file, by where the memory controller keeps them.
#[inline(always)]
fn counters(memcg: Ptr, kind: u32) -> Option<(u64, u64)> {
    const SWAP: u32 = LimitKind::SwapMax as u32;
    const HIGH: u32 = LimitKind::MemoryHigh as u32;
    match kind {
        SWAP => Some((load(memcg, Field::MemcgSwapUsage)?, load(memcg, Field::MemcgSwapMax)?)),
        HIGH => Some((load(memcg, Field::MemcgUsage)?, load(memcg, Field::MemcgHigh)?)),
        _ => Some((load(memcg, Field::MemcgUsage)?, load(memcg, Field::MemcgMax)?)),
    }
}

/// Whether a process lives in the cgroup or below it.
#[inline(always)]
fn is_populated(cgroup: Ptr) -> Option<bool> {
    let own = load::<u32>(cgroup, Field::CgroupPopulated)?;
    let domains = load::<u32>(cgroup, Field::CgroupPopulatedDomains)?;
    let threaded = load::<u32>(cgroup, Field::CgroupPopulatedThreaded)?;
    Some(own | domains | threaded != 0)
}

/// Whether the write is to be refused.
#[inline(always)]
fn judge(file: Ptr, folder: Ptr, kind: u32, guarded: Guarded) -> bool {
    let thread = current();
    let scratch = match SCRATCH.insert(&thread, &EMPTY, 0) {
        Ok(()) => SCRATCH.get_ptr_mut(&thread),
        Err(_) => None,
    };
    let Some(scratch) = scratch else {
        // Too many writes at once: the value can't be had, nor could more be told of it.
        dropped(Kind::GuardVerdict);
        // SAFETY: the helper takes no argument.
        let verdict = Verdict::of(Reason::Unavailable, guarded.mode, is_armed(unsafe { bpf_ktime_get_ns() }));
        count(verdict, Reason::Unavailable);
        return verdict as u32 == Verdict::Denied as u32;
    };
    look(file, scratch);
    let denied = answer(folder, kind, guarded, scratch);
    let _ = SCRATCH.remove(&thread);
    denied
}

#[inline(always)]
fn is_armed(now: u64) -> bool {
    GUARD_LIFE.get(0).is_some_and(|life| life.is_armed(now))
}

#[inline(always)]
fn count(verdict: Verdict, reason: Reason) {
    if let Some(counter) = GUARD_COUNTS.get_ptr_mut(verdict.slot(reason)) {
        add(counter, 1);
    }
}

/// Why what is written is safe or not.
#[inline(always)]
fn reason(
    cgroup: Ptr,
    figures: Option<(u64, u64)>,
    margin: u64,
    lease: Option<Lease>,
    scratch: *mut Scratch,
    now: u64,
) -> Reason {
    // SAFETY: a map value; nobody else uses this thread's.
    let (asked, pages) = unsafe {
        ((&raw const (*scratch).asked).read_volatile(), (&raw const (*scratch).pages).read_volatile())
    };
    if asked == 1 {
        return Reason::NoValue;
    }
    let (Some((usage, limit)), Some(populated)) = (figures, is_populated(cgroup)) else {
        return Reason::Blind;
    };
    let asked = if asked == 0 { None } else { Some(pages) };
    Facts { asked, limit, usage, margin, populated, lease }.judge(now)
}

/// Judges what is written, counts it, and tells of it where it is more than plainly safe.
#[inline(always)]
fn answer(folder: Ptr, kind: u32, guarded: Guarded, scratch: *mut Scratch) -> bool {
    let cgroup = follow(folder, Field::KnPriv);
    let id = number(folder, Field::KnId);
    // SAFETY: the helper takes no argument.
    let now = unsafe { bpf_ktime_get_ns() };
    // SAFETY: the value is copied at once.
    let lease = unsafe { LEASES.get(&LeaseKey { cgroup: id, file: u64::from(kind) }) }.copied();
    let figures = counters(follow(cgroup, Field::CgroupMemoryCss), kind);
    // SAFETY: map values that nobody else uses. They are written as what they are read as.
    let (reason, verdict) = unsafe {
        let (to_reason, to_verdict) = (&raw mut (*scratch).reason, &raw mut (*scratch).verdict);
        to_reason.write_volatile(reason(cgroup, figures, guarded.margin, lease, scratch, now));
        let reason = to_reason.read_volatile();
        to_verdict.write_volatile(Verdict::of(reason, guarded.mode, is_armed(now)));
        (reason, to_verdict.read_volatile())
    };
    count(verdict, reason);
    // What is plainly safe is only counted.
    if !matches!(reason, Reason::NotLower | Reason::AboveUsage | Reason::Empty) {
        send(Kind::GuardVerdict, now, |record: &mut GuardVerdict| {
            record.cgroup = id;
            fill_current(&mut record.writer);
            if let Some((usage, limit)) = figures {
                record.usage = usage;
                record.limit = limit;
            }
            record.margin = guarded.margin;
            if let Some(lease) = lease {
                record.lease_minimum = lease.minimum_at(now).unwrap_or(0);
                record.lease_expires_ns = lease.expires_ns;
            }
            record.file = kind;
            record.mode = guarded.mode;
            record.verdict = verdict as u32;
            record.reason = reason as u32;
            // SAFETY: a map value, aligned to 8; nobody else uses this thread's.
            unsafe {
                record.asked = (&raw const (*scratch).pages).read_volatile();
                record.syscall = (&raw const (*scratch).syscall).read_volatile();
                record.source = (&raw const (*scratch).source).read_volatile() as u32;
                record.text = (&raw const (*scratch).bytes).cast::<Text<ASKED_LEN>>().read_volatile();
            }
        });
    }
    verdict as u32 == Verdict::Denied as u32
}
