//! The guard: refuses a write that would take a memory limit below what the cgroup uses.

use crate::cost::measured;
use crate::kernel::{Ptr, current, fill_current, follow, load, number, peek};
use crate::maps::{EMPTY, GUARD_COUNTS, GUARD_LIFE, GUARDED, LEASES, SCRATCH, Scratch, add, send};
use crate::written::{Written, written};
use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::helpers::generated::bpf_probe_read_kernel_str;
use aya_ebpf::macros::lsm;
use aya_ebpf::programs::LsmContext;
use enforcer_abi::{
    ASKED_LEN, Asked, Facts, Field, GuardMode, GuardVerdict, Guarded, Kind, LeaseKey, LimitKind, Program,
    Reason, Source, Text, Verdict,
};

/// `MAY_WRITE` of the hook's mask: a define, so not in the kernel's type information.
const MAY_WRITE: i32 = 2;
/// `CGROUP2_SUPER_MAGIC` (include/uapi/linux/magic.h).
const CGROUP2: u64 = 0x6367_7270;
/// How far up the tree an entry is looked for.
const LEVELS_MAX: u32 = 16;

/// A file's name as words, the NUL behind it included.
type Name = [u64; 3];

const fn name(text: &str) -> Name {
    let (text, mut bytes) = (text.as_bytes(), [0_u8; 24]);
    let mut at = 0;
    while at < text.len() {
        bytes[at] = text[at];
        at += 1;
    }
    let mut words = [0; 3];
    let mut at = 0;
    while at < 24 {
        words[at / 8] |= (bytes[at] as u64) << (at % 8 * 8);
        at += 1;
    }
    words
}

const MAX: Name = name(LimitKind::MemoryMax.name());
const HIGH: Name = name(LimitKind::MemoryHigh.name());
const SWAP: Name = name(LimitKind::SwapMax.name());

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
    let Some(limit) = limit_file(follow(kn, Field::KnName)) else { return 0 };
    let folder = follow(kn, Field::KnParent);
    let Some(guarded) = guarded(folder, limit) else { return 0 };
    let mut denied = 0_u32;
    measured(Program::GuardWrite, || denied = u32::from(judge(file, folder, limit, guarded)));
    // A constant on either way: the verifier wants to see that it is an errno.
    if core::hint::black_box(denied) != 0 { -16 } else { 0 }
}

/// Which of the guarded files it is.
#[inline(always)]
fn limit_file(from: Ptr) -> Option<LimitKind> {
    let mut found: Name = [0; 3];
    if from.is_null() {
        return None;
    }
    // SAFETY: the helper takes any address and fails on a bad one; it writes at most so many bytes.
    let len = unsafe { bpf_probe_read_kernel_str((&raw mut found).cast(), 24, from.cast()) };
    let is = |name: Name| found[0] == name[0] && found[1] == name[1] && found[2] == name[2];
    match len {
        11 if is(MAX) => Some(LimitKind::MemoryMax),
        12 if is(HIGH) => Some(LimitKind::MemoryHigh),
        16 if is(SWAP) => Some(LimitKind::SwapMax),
        _ => None,
    }
}

/// The nearest entry up the tree, where it guards this file.
#[inline(always)]
fn guarded(folder: Ptr, file: LimitKind) -> Option<Guarded> {
    let mut at = folder;
    let mut wanted = Guarded::SELF;
    for _ in 0..LEVELS_MAX {
        if at.is_null() {
            return None;
        }
        // SAFETY: the value is copied at once.
        if let Some(found) = unsafe { GUARDED.get(&number(at, Field::KnId)) }.copied()
            && found.what & wanted != 0
        {
            let guards = found.what & Guarded::bit(file) != 0 && found.mode != GuardMode::Off as u32;
            return guards.then_some(found);
        }
        wanted = Guarded::BELOW;
        at = follow(at, Field::KnParent);
    }
    None
}

/// Usage and limit of one file, by where the memory controller keeps them.
#[inline(always)]
fn counters(memcg: Ptr, file: LimitKind) -> Option<(u64, u64)> {
    let (usage, limit) = match file {
        LimitKind::SwapMax => (Field::MemcgSwapUsage, Field::MemcgSwapMax),
        LimitKind::MemoryHigh => (Field::MemcgUsage, Field::MemcgHigh),
        _ => (Field::MemcgUsage, Field::MemcgMax),
    };
    Some((load(memcg, usage)?, load(memcg, limit)?))
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
fn judge(file: Ptr, folder: Ptr, limit: LimitKind, guarded: Guarded) -> bool {
    let thread = current();
    let scratch = match SCRATCH.insert(&thread, &EMPTY, 0) {
        Ok(()) => SCRATCH.get_ptr_mut(&thread),
        Err(_) => None,
    };
    let written = match scratch {
        Some(scratch) => written(file, scratch),
        None => Written { asked: None, source: Source::NoRoom, syscall: 0 },
    };
    let denied = answer(folder, limit, guarded, &written, scratch);
    let _ = SCRATCH.remove(&thread);
    denied
}

/// Judges what is written, counts it, and tells of it where it is more than plainly safe.
#[inline(always)]
fn answer(
    folder: Ptr,
    limit_kind: LimitKind,
    guarded: Guarded,
    written: &Written,
    scratch: Option<*mut Scratch>,
) -> bool {
    let cgroup = follow(folder, Field::KnPriv);
    let id = number(folder, Field::KnId);
    // SAFETY: the helper takes no argument.
    let now = unsafe { bpf_ktime_get_ns() };
    // SAFETY: the value is copied at once.
    let lease = unsafe { LEASES.get(&LeaseKey { cgroup: id, file: limit_kind as u64 }) }.copied();
    let counters = counters(follow(cgroup, Field::CgroupMemoryCss), limit_kind);
    let (usage, limit) = counters.unwrap_or((0, 0));
    let reason = match (written.asked, counters, is_populated(cgroup)) {
        (Some(Asked::Refused), _, _) => Reason::NoValue,
        (_, None, _) | (_, _, None) => Reason::Blind,
        (asked, Some(_), Some(populated)) => {
            let asked = match asked {
                Some(Asked::Pages(pages)) => Some(pages),
                _ => None,
            };
            Facts { asked, limit, usage, margin: guarded.margin, populated, lease }.judge(now)
        }
    };
    let armed = GUARD_LIFE.get(0).is_some_and(|life| life.is_armed(now));
    let verdict = Verdict::of(reason, guarded.mode, armed);
    if let Some(counter) = GUARD_COUNTS.get_ptr_mut(verdict.slot(reason)) {
        add(counter, 1);
    }
    // What is plainly safe is only counted.
    if !matches!(reason, Reason::NotLower | Reason::AboveUsage | Reason::Empty) {
        send(Kind::GuardVerdict, now, |record: &mut GuardVerdict| {
            record.cgroup = id;
            fill_current(&mut record.writer);
            record.asked = match written.asked {
                Some(Asked::Pages(pages)) => pages,
                _ => 0,
            };
            record.limit = limit;
            record.usage = usage;
            record.margin = guarded.margin;
            if let Some(lease) = lease {
                record.lease_minimum = lease.minimum_at(now).unwrap_or(0);
                record.lease_expires_ns = lease.expires_ns;
            }
            record.syscall = written.syscall;
            record.file = limit_kind as u32;
            record.mode = guarded.mode;
            record.verdict = verdict as u32;
            record.reason = reason as u32;
            record.source = written.source as u32;
            if let Some(scratch) = scratch {
                // SAFETY: a map value, aligned to 8; nobody else uses this thread's.
                record.text =
                    unsafe { (&raw const (*scratch).bytes).cast::<Text<ASKED_LEN>>().read_volatile() };
            }
        });
    }
    verdict as u32 == Verdict::Denied as u32
}
