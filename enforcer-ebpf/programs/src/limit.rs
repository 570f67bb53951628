//! Writes to limit files: who, what was asked, what it was and what it became.

use crate::cost::measured;
use crate::kernel::{Ptr, current, fill_current, follow, number, text};
use crate::maps::{WRITES, dropped, send};
use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::macros::{fentry, fexit};
use aya_ebpf::programs::{FEntryContext, FExitContext};
use enforcer_abi::{ASKED_LEN, Field, Kind, LimitKind, LimitWrite, Phase, Program, Text};

/// A write that runs.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Running {
    begin_ns: u64,
    old: u64,
    old_period: u64,
    /// The kernel strips the string in place, so it is kept from the beginning.
    asked: Text<ASKED_LEN>,
}

/// The limit's value: where a controller keeps it.
#[derive(Clone, Copy)]
struct Place {
    css: Field,
    value: Field,
    period: Option<Field>,
}

const fn place(file: LimitKind) -> Place {
    const fn memory(value: Field) -> Place {
        Place { css: Field::CgroupMemoryCss, value, period: None }
    }
    match file {
        LimitKind::MemoryMax => memory(Field::MemcgMax),
        LimitKind::MemoryHigh => memory(Field::MemcgHigh),
        LimitKind::SwapMax => memory(Field::MemcgSwapMax),
        LimitKind::MemoryMin => memory(Field::MemcgMin),
        LimitKind::MemoryLow => memory(Field::MemcgLow),
        LimitKind::CpuMax => {
            Place { css: Field::CgroupCpuCss, value: Field::CpuQuota, period: Some(Field::CpuPeriod) }
        }
    }
}

/// The folder of an open limit file.
#[inline(always)]
fn folder(open_file: Ptr) -> Ptr {
    follow(follow(open_file, Field::OpenFileKn), Field::KnParent)
}

/// Value and period now in force.
#[inline(always)]
fn in_force(folder: Ptr, place: Place) -> (u64, u64) {
    let css = follow(follow(folder, Field::KnPriv), place.css);
    let period = match place.period {
        Some(field) => number(css, field),
        None => 0,
    };
    (number(css, place.value), period)
}

#[inline(always)]
fn begin(file: LimitKind, open_file: Ptr, asked: Ptr) {
    let folder = folder(open_file);
    let (old, old_period) = in_force(folder, place(file));
    // SAFETY: the helper takes no argument.
    let begin_ns = unsafe { bpf_ktime_get_ns() };
    let mut running = Running { begin_ns, old, old_period, asked: Text::EMPTY };
    text(asked, &mut running.asked);
    if WRITES.insert(&current(), &running, 0).is_err() {
        // Its end will not be told.
        dropped(Kind::LimitWrite);
    }
    send(Kind::LimitWrite, begin_ns, |record: &mut LimitWrite| {
        record.begin_ns = begin_ns;
        record.cgroup = number(folder, Field::KnId);
        fill_current(&mut record.writer);
        record.old = old;
        record.new = old;
        record.old_period = old_period;
        record.new_period = old_period;
        record.file = file as u32;
        record.phase = Phase::Begin as u32;
        record.asked = running.asked;
    });
}

#[inline(always)]
fn end(file: LimitKind, open_file: Ptr, result: i64) {
    let task = current();
    // SAFETY: the value is copied at once.
    let Some(running) = unsafe { WRITES.get(&task) }.copied() else {
        return;
    };
    let _ = WRITES.remove(&task);
    let folder = folder(open_file);
    let (new, new_period) = in_force(folder, place(file));
    // SAFETY: the helper takes no argument.
    let now = unsafe { bpf_ktime_get_ns() };
    send(Kind::LimitWrite, now, |record: &mut LimitWrite| {
        record.begin_ns = running.begin_ns;
        record.cgroup = number(folder, Field::KnId);
        fill_current(&mut record.writer);
        record.old = running.old;
        record.new = new;
        record.old_period = running.old_period;
        record.new_period = new_period;
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
            measured(Program::$begin_program, || begin(LimitKind::$file, ctx.arg(0), ctx.arg(1)))
        }

        #[fexit(function = $function)]
        fn $end(ctx: FExitContext) -> i32 {
            measured(Program::$end_program, || {
                let result = ctx.ret::<i64>().unwrap_or(0);
                end(LimitKind::$file, ctx.arg(0), result);
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
