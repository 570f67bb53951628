//! Writes to limit files: who, what was asked, what it was and what it became.

use crate::cost::measured;
use crate::kernel::{Ptr, cgroup_id, current, fill_current, follow, load, number, plain, text};
use crate::maps::{WRITES, dropped, send};
use aya_ebpf::helpers::{bpf_ktime_get_ns, bpf_probe_read_kernel};
use aya_ebpf::macros::{fentry, fexit};
use aya_ebpf::programs::{FEntryContext, FExitContext};
use enforcer_abi::{ASKED_LEN, Field, Kind, LimitKind, LimitWrite, Phase, Program, Text};

/// A write that runs.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Running {
    begin_ns: u64,
    old: u64,
    old_more: u64,
    /// The kernel strips the string in place, so it is kept from the beginning.
    asked: Text<ASKED_LEN>,
}

/// How many CPUs there can be. The loader sets it.
#[unsafe(no_mangle)]
static CPUS: u32 = 1;

/// The limit that is written: of which cgroup, and where its controller keeps it.
#[derive(Clone, Copy)]
struct Written {
    cgroup: u64,
    css: Ptr,
}

/// The slot of the controller of a file that is written as text.
const fn slot(file: LimitKind) -> Field {
    match file {
        LimitKind::CpuMax | LimitKind::CpuWeight => Field::CgroupCpuCss,
        LimitKind::CpusetCpus => Field::CgroupCpusetCss,
        LimitKind::PidsMax => Field::CgroupPidsCss,
        LimitKind::MemoryMax
        | LimitKind::MemoryHigh
        | LimitKind::SwapMax
        | LimitKind::MemoryMin
        | LimitKind::MemoryLow => Field::CgroupMemoryCss,
    }
}

/// What is written through an open file; `None` where the same function serves another file.
#[inline(always)]
fn opened(file: LimitKind, open_file: Ptr) -> Option<Written> {
    let node = follow(open_file, Field::OpenFileKn);
    let folder = follow(node, Field::KnParent);
    let cgroup = follow(folder, Field::KnPriv);
    if matches!(file, LimitKind::CpusetCpus | LimitKind::PidsMax) {
        // cgroup v1 has these files too, and other ids.
        let hierarchy = load::<u32>(follow(cgroup, Field::CgroupRoot), Field::RootHierarchy);
        if hierarchy != Some(0) {
            return None;
        }
    }
    if matches!(file, LimitKind::CpusetCpus)
        && number(follow(node, Field::KnPriv), Field::FilePrivate) != plain(Field::FileCpulist)
    {
        return None;
    }
    Some(Written { cgroup: number(folder, Field::KnId), css: follow(cgroup, slot(file)) })
}

/// What is written through a function that is given the controller.
#[inline(always)]
fn controlled(css: Ptr) -> Written {
    Written { cgroup: cgroup_id(follow(css, Field::CssCgroup)), css }
}

/// The two words of the value now in force.
#[inline(always)]
fn in_force(file: LimitKind, css: Ptr) -> (u64, u64) {
    match file {
        LimitKind::MemoryMax => (number(css, Field::MemcgMax), 0),
        LimitKind::MemoryHigh => (number(css, Field::MemcgHigh), 0),
        LimitKind::SwapMax => (number(css, Field::MemcgSwapMax), 0),
        LimitKind::MemoryMin => (number(css, Field::MemcgMin), 0),
        LimitKind::MemoryLow => (number(css, Field::MemcgLow), 0),
        LimitKind::CpuMax => (number(css, Field::CpuQuota), number(css, Field::CpuPeriod)),
        LimitKind::CpuWeight => (number(css, Field::CpuShares), 0),
        LimitKind::PidsMax => (number(css, Field::PidsLimit), 0),
        LimitKind::CpusetCpus => {
            let mask = follow(css, Field::CpusetCpus);
            // SAFETY: a read of a static; volatile because the loader changes it.
            let cpus = unsafe { (&raw const CPUS).read_volatile() };
            // A mask has as many words as there can be CPUs.
            let more = if cpus > 64 { word(mask, 1) } else { 0 };
            (word(mask, 0), more)
        }
    }
}

/// Word `index` of a bit mask; 0 where it can't be read.
#[inline(always)]
fn word(mask: Ptr, index: usize) -> u64 {
    if mask.is_null() {
        return 0;
    }
    // SAFETY: the helper takes any address and fails on a bad one.
    unsafe { bpf_probe_read_kernel(mask.cast::<u64>().wrapping_add(index)) }.unwrap_or(0)
}

/// What stands for the text where the kernel hands over a number; making digits of it here would be too many branches
/// for the verifier.
#[inline(always)]
fn as_number(value: u64) -> Text<ASKED_LEN> {
    let mut text = Text::EMPTY;
    text.buffer_mut()[..size_of::<u64>()].copy_from_slice(&value.to_ne_bytes());
    text
}

#[inline(always)]
fn begin(file: LimitKind, written: Written, asked: Text<ASKED_LEN>) {
    let (old, old_more) = in_force(file, written.css);
    // SAFETY: the helper takes no argument.
    let begin_ns = unsafe { bpf_ktime_get_ns() };
    let running = Running { begin_ns, old, old_more, asked };
    if WRITES.insert(&current(), &running, 0).is_err() {
        // Its end will not be told.
        dropped(Kind::LimitWrite);
    }
    send(Kind::LimitWrite, begin_ns, |record: &mut LimitWrite| {
        record.begin_ns = begin_ns;
        record.cgroup = written.cgroup;
        fill_current(&mut record.writer);
        record.old = old;
        record.new = old;
        record.old_more = old_more;
        record.new_more = old_more;
        record.file = file as u32;
        record.phase = Phase::Begin as u32;
        record.asked = running.asked;
    });
}

#[inline(always)]
fn end(file: LimitKind, written: Written, result: i64) {
    let task = current();
    // SAFETY: the value is copied at once.
    let Some(running) = unsafe { WRITES.get(&task) }.copied() else {
        return;
    };
    let _ = WRITES.remove(&task);
    let (new, new_more) = in_force(file, written.css);
    // SAFETY: the helper takes no argument.
    let now = unsafe { bpf_ktime_get_ns() };
    send(Kind::LimitWrite, now, |record: &mut LimitWrite| {
        record.begin_ns = running.begin_ns;
        record.cgroup = written.cgroup;
        fill_current(&mut record.writer);
        record.old = running.old;
        record.new = new;
        record.old_more = running.old_more;
        record.new_more = new_more;
        record.result = result;
        record.file = file as u32;
        record.phase = Phase::End as u32;
        record.asked = running.asked;
    });
}

macro_rules! limit_file {
    ($file:ident, $function:literal, $begin:ident $begin_program:ident, $end:ident $end_program:ident) => {
        #[fentry(function = $function)]
        fn $begin(ctx: FEntryContext) -> i32 {
            measured(Program::$begin_program, || {
                if let Some(written) = opened(LimitKind::$file, ctx.arg(0)) {
                    let mut asked = Text::EMPTY;
                    text(ctx.arg(1), &mut asked);
                    begin(LimitKind::$file, written, asked);
                }
            })
        }

        #[fexit(function = $function)]
        fn $end(ctx: FExitContext) -> i32 {
            measured(Program::$end_program, || {
                if let Some(written) = opened(LimitKind::$file, ctx.arg(0)) {
                    end(LimitKind::$file, written, ctx.ret::<i64>().unwrap_or(0));
                }
            })
        }
    };
}

limit_file!(MemoryMax, "memory_max_write", memory_max_begin MaxBegin, memory_max_end MaxEnd);
limit_file!(MemoryHigh, "memory_high_write", memory_high_begin HighBegin, memory_high_end HighEnd);
limit_file!(SwapMax, "swap_max_write", swap_max_begin SwapBegin, swap_max_end SwapEnd);
limit_file!(MemoryMin, "memory_min_write", memory_min_begin MinBegin, memory_min_end MinEnd);
limit_file!(MemoryLow, "memory_low_write", memory_low_begin LowBegin, memory_low_end LowEnd);
limit_file!(CpuMax, "cpu_max_write", cpu_max_begin CpuBegin, cpu_max_end CpuEnd);
limit_file!(CpusetCpus, "cpuset_write_resmask", cpuset_cpus_begin CpusetBegin, cpuset_cpus_end CpusetEnd);
limit_file!(PidsMax, "pids_max_write", pids_max_begin PidsBegin, pids_max_end PidsEnd);

#[fentry(function = "cpu_weight_write_u64")]
fn cpu_weight_begin(ctx: FEntryContext) -> i32 {
    measured(Program::WeightBegin, || {
        begin(LimitKind::CpuWeight, controlled(ctx.arg(0)), as_number(ctx.arg::<u64>(2)));
    })
}

#[fexit(function = "cpu_weight_write_u64")]
fn cpu_weight_end(ctx: FExitContext) -> i32 {
    measured(Program::WeightEnd, || {
        // It returns an `int`.
        let result = ctx.ret::<i32>().unwrap_or(0);
        end(LimitKind::CpuWeight, controlled(ctx.arg(0)), i64::from(result));
    })
}
