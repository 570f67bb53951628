//! OOM kills. The kernel runs one OOM at a time (`oom_lock`), so one slot holds what is known about it:
//! `out_of_memory` opens it, `oom_kill_process` adds the choice, and every victim that is marked before
//! the next one opens belongs to it.

use crate::cost::measured;
use crate::kernel::{
    Ptr, current, fill_current, fill_task, follow, load, load_behind, memcg_id, number, plain,
};
use crate::maps::{VICTIMS, send};
use crate::past;
use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::macros::{btf_tracepoint, fentry, fexit, kprobe, map};
use aya_ebpf::maps::Array;
use aya_ebpf::programs::{BtfTracePointContext, FEntryContext, FExitContext, ProbeContext};
use enforcer_abi::{Field, Kind, OomEnd, OomFlags, OomKill, Program, Stat};

/// `SIGNAL_GROUP_EXIT` of `signal_struct.flags`: a define, so not in the kernel's type information.
const SIGNAL_GROUP_EXIT: u32 = 4;

/// The OOM that runs.
#[repr(C)]
pub struct Oom {
    seq: u64,
    /// Who ran into it, as [`current`]; 0 before the first.
    task: u64,
    owner: u64,
    group: u64,
    total_pages: u64,
    usage: u64,
    limit: u64,
    max_events: u64,
    constraint: u32,
    index: u32,
    /// Nobody was chosen yet: a victim marked now is the running task, exiting.
    choosing: u32,
    /// The process that was exiting when it was chosen; 0 for none.
    exiting_tgid: u32,
    begin_ns: u64,
    /// The owner's `struct mem_cgroup`, alive until the OOM is over.
    memcg: u64,
    reclaims: u64,
    reclaim_ns: u64,
    reclaimed: u64,
    stat: [u64; Stat::COUNT],
}

/// The one slot.
#[map]
static OOM: Array<Oom> = Array::with_max_entries(1, 0);

#[inline(always)]
fn slot() -> Option<&'static mut Oom> {
    // SAFETY: the value lives as long as the map, and the kernel's `oom_lock` keeps programs apart.
    OOM.get_ptr_mut(0).map(|slot| unsafe { &mut *slot })
}

#[inline(always)]
fn begin(control: Ptr) {
    let Some(oom) = slot() else { return };
    let memcg = follow(control, Field::OomMemcg);
    oom.seq += 1;
    oom.task = current();
    oom.owner = memcg_id(memcg);
    oom.group = 0;
    oom.total_pages = 0;
    oom.usage = number(memcg, Field::MemcgUsage);
    oom.limit = number(memcg, Field::MemcgMax);
    oom.max_events = number(memcg, Field::MemcgMaxEvents);
    oom.constraint = 0;
    oom.index = 0;
    oom.choosing = 1;
    oom.exiting_tgid = 0;
    // SAFETY: the helper takes no argument.
    oom.begin_ns = unsafe { bpf_ktime_get_ns() };
    let before = past::before(oom.owner, oom.begin_ns);
    oom.reclaims = before.reclaims;
    oom.reclaim_ns = before.reclaim_ns;
    oom.reclaimed = before.reclaimed;
    oom.memcg = memcg as u64;
}

/// Tells that the OOM is over, where it had victims.
#[inline(always)]
fn end() {
    let Some(oom) = slot() else { return };
    if oom.task != current() || oom.index == 0 {
        return;
    }
    // SAFETY: the helper takes no argument.
    let now = unsafe { bpf_ktime_get_ns() };
    send(Kind::OomEnd, now, |end: &mut OomEnd| {
        end.seq = oom.seq;
        end.begin_ns = oom.begin_ns;
        end.owner = oom.owner;
        end.victims = oom.index;
        end.reclaims = oom.reclaims;
        end.reclaim_ns = oom.reclaim_ns;
        end.reclaimed = oom.reclaimed;
        for (to, from) in end.stat.iter_mut().zip(&oom.stat) {
            *to = *from;
        }
    });
}

/// The process id of `leader` in its own namespace, and how deep that is.
#[inline(always)]
fn namespaced(leader: Ptr) -> (u32, u32) {
    let size = plain(Field::UpidSize);
    let known = |field| plain(field) != 0;
    if size == 0 || !known(Field::TaskThreadPid) || !known(Field::PidLevel) || !known(Field::PidNumbers) {
        return (0, 0);
    }
    let pid = follow(leader, Field::TaskThreadPid);
    let level = load::<u32>(pid, Field::PidLevel).unwrap_or(0);
    (load_behind(pid, Field::PidNumbers, u64::from(level) * size).unwrap_or(0), level)
}

#[inline(always)]
fn chosen(control: Ptr) {
    let Some(oom) = slot() else { return };
    let victim = follow(control, Field::OomChosen);
    oom.total_pages = number(control, Field::OomTotalpages);
    oom.constraint = load(control, Field::OomConstraint).unwrap_or(0);
    oom.choosing = 0;
    let signal = follow(victim, Field::TaskSignal);
    let flags = load::<u32>(signal, Field::SignalFlags).unwrap_or(0);
    if flags & SIGNAL_GROUP_EXIT != 0 {
        oom.exiting_tgid = load(victim, Field::TaskTgid).unwrap_or(0);
    }
}

/// Whether the process of `task` was told before; remembers it.
#[inline(always)]
fn told_before(task: Ptr, tgid: u32) -> bool {
    let start = number(follow(task, Field::TaskGroupLeader), Field::TaskStartTime);
    // SAFETY: the value is copied at once.
    if unsafe { VICTIMS.get(&tgid) }.copied() == Some(start) {
        return true;
    }
    let _ = VICTIMS.insert(&tgid, &start, 0);
    false
}

#[inline(always)]
fn victim(task: Ptr) {
    let tgid = load::<u32>(task, Field::TaskTgid).unwrap_or(0);
    if told_before(task, tgid) {
        return;
    }
    let Some(oom) = slot() else { return };
    let known = oom.task == current();
    if !known {
        // No hook opened this OOM: each victim is one of its own.
        oom.seq += 1;
        oom.index = 0;
    } else if oom.index == 0 {
        // The kernel has just brought its counters up to date for its own log, and nothing was freed yet.
        past::terms(oom.memcg as Ptr, &mut oom.stat);
    }
    // SAFETY: the helper takes no argument.
    let now = unsafe { bpf_ktime_get_ns() };
    send(Kind::OomKill, now, |kill: &mut OomKill| {
        kill.seq = oom.seq;
        kill.index = oom.index;
        kill.flags = OomFlags::NONE;
        if known {
            kill.owner = oom.owner;
            kill.group = oom.group;
            kill.total_pages = oom.total_pages;
            kill.owner_usage = oom.usage;
            kill.owner_limit = oom.limit;
            kill.owner_max_events = oom.max_events;
            kill.constraint = oom.constraint;
            if oom.owner == 0 {
                kill.flags = kill.flags.with(OomFlags::GLOBAL);
            }
            if oom.group != 0 {
                kill.flags = kill.flags.with(OomFlags::GROUP);
            }
            if oom.choosing != 0 || oom.exiting_tgid == tgid {
                kill.flags = kill.flags.with(OomFlags::EXITING);
            }
        } else {
            kill.flags = OomFlags::OWNER_UNKNOWN;
        }
        fill_task(task, &mut kill.victim);
        fill_current(&mut kill.trigger);
        let own = follow(follow(task, Field::TaskCgroups), Field::CssSetMemoryCss);
        kill.victim_usage = number(own, Field::MemcgUsage);
        kill.victim_limit = number(own, Field::MemcgMax);
        let mm = follow(task, Field::TaskMm);
        kill.anon = counter(mm, Field::MmAnon);
        kill.file = counter(mm, Field::MmFile);
        kill.shmem = counter(mm, Field::MmShmem);
        let signal = follow(task, Field::TaskSignal);
        (kill.ns_pid, kill.ns_level) = namespaced(follow(task, Field::TaskGroupLeader));
        kill.oom_score_adj = i32::from(load::<i16>(signal, Field::SignalOomScoreAdj).unwrap_or(0));
    });
    oom.index = oom.index.wrapping_add(1);
}

/// A counter that may be below zero for a moment (`percpu_counter_read_positive`).
#[inline(always)]
fn counter(mm: Ptr, field: Field) -> u64 {
    let value = load::<i64>(mm, field).unwrap_or(0);
    if value < 0 { 0 } else { value as u64 }
}

#[fentry(function = "out_of_memory")]
fn oom_begin_fentry(ctx: FEntryContext) -> i32 {
    measured(Program::OomBeginFentry, || begin(ctx.arg(0)))
}

#[kprobe]
fn oom_begin_kprobe(ctx: ProbeContext) -> u32 {
    measured(Program::OomBeginKprobe, || begin(ctx.arg(0).unwrap_or(core::ptr::null()))) as u32
}

#[fexit(function = "out_of_memory")]
fn oom_end_fexit(_: FExitContext) -> i32 {
    measured(Program::OomEndFexit, end)
}

#[fentry(function = "oom_kill_process")]
fn oom_kill_fentry(ctx: FEntryContext) -> i32 {
    measured(Program::OomKillFentry, || chosen(ctx.arg(0)))
}

#[kprobe]
fn oom_kill_kprobe(ctx: ProbeContext) -> u32 {
    measured(Program::OomKillKprobe, || chosen(ctx.arg(0).unwrap_or(core::ptr::null()))) as u32
}

#[fexit(function = "mem_cgroup_get_oom_group")]
fn oom_group_fexit(ctx: FExitContext) -> i32 {
    measured(Program::OomGroupFexit, || {
        let Ok(memcg) = ctx.ret::<u64>() else { return };
        let Some(oom) = slot() else { return };
        oom.group = memcg_id(memcg as Ptr);
    })
}

#[btf_tracepoint(function = "mark_victim")]
fn oom_victim_tp(ctx: BtfTracePointContext) -> i32 {
    measured(Program::OomVictimTp, || victim(ctx.arg(0)))
}

#[fentry(function = "mark_oom_victim")]
fn oom_victim_fentry(ctx: FEntryContext) -> i32 {
    measured(Program::OomVictimFentry, || victim(ctx.arg(0)))
}

#[kprobe]
fn oom_victim_kprobe(ctx: ProbeContext) -> u32 {
    measured(Program::OomVictimKprobe, || victim(ctx.arg(0).unwrap_or(core::ptr::null()))) as u32
}
