//! Reclaim on behalf of watched cgroups.

use crate::cost::measured;
use crate::kernel::{Ptr, current, memcg_id, tgid_of};
use crate::maps::{RECLAIMS, WATCHED, dropped, send};
use crate::past;
use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::macros::{btf_tracepoint, fentry, fexit};
use aya_ebpf::programs::{BtfTracePointContext, FEntryContext, FExitContext};
use enforcer_abi::{Kind, Program, ReclaimBegin, ReclaimEnd, ReclaimFlags};

/// `MEMCG_RECLAIM_PROACTIVE` of `reclaim_options`: a define, so not in the kernel's type information.
const MEMCG_RECLAIM_PROACTIVE: u32 = 4;

/// A reclaim that runs.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Running {
    begin_ns: u64,
    cgroup: u64,
    flags: ReclaimFlags,
    /// Whether begin and end are told: 1 or 0.
    told: u32,
}

#[inline(always)]
fn begin(memcg: Ptr, flags: ReclaimFlags) {
    let cgroup = memcg_id(memcg);
    // SAFETY: only whether there is a value matters.
    let told = unsafe { WATCHED.get(&cgroup) }.is_some();
    if !told && !past::is_kept() {
        return;
    }
    // SAFETY: the helper takes no argument.
    let begin_ns = unsafe { bpf_ktime_get_ns() };
    let task = current();
    let kept = RECLAIMS.insert(&task, &Running { begin_ns, cgroup, flags, told: told as u32 }, 0);
    if !told {
        return;
    }
    if kept.is_err() {
        // Its end will not be told.
        dropped(Kind::ReclaimEnd);
    }
    send(Kind::ReclaimBegin, begin_ns, |record: &mut ReclaimBegin| {
        record.cgroup = cgroup;
        record.tgid = tgid_of(task);
        record.flags = flags;
    });
}

#[inline(always)]
fn end(reclaimed: u64) {
    let task = current();
    // SAFETY: the value is copied at once.
    let Some(running) = unsafe { RECLAIMS.get(&task) }.copied() else {
        return;
    };
    let _ = RECLAIMS.remove(&task);
    // SAFETY: the helper takes no argument.
    let now = unsafe { bpf_ktime_get_ns() };
    if past::is_kept() {
        past::keep(running.cgroup, now, now.wrapping_sub(running.begin_ns), reclaimed);
    }
    if running.told == 0 {
        return;
    }
    send(Kind::ReclaimEnd, now, |record: &mut ReclaimEnd| {
        record.cgroup = running.cgroup;
        record.tgid = tgid_of(task);
        record.flags = running.flags;
        record.duration_ns = now.wrapping_sub(running.begin_ns);
        record.reclaimed = reclaimed;
    });
}

#[fentry(function = "try_to_free_mem_cgroup_pages")]
fn reclaim_begin_fentry(ctx: FEntryContext) -> i32 {
    measured(Program::ReclaimBeginFentry, || {
        let options: u32 = ctx.arg(3);
        let proactive = options & MEMCG_RECLAIM_PROACTIVE != 0;
        begin(ctx.arg(0), if proactive { ReclaimFlags::PROACTIVE } else { ReclaimFlags::NONE });
    })
}

#[fexit(function = "try_to_free_mem_cgroup_pages")]
fn reclaim_end_fexit(ctx: FExitContext) -> i32 {
    measured(Program::ReclaimEndFexit, || end(ctx.ret::<u64>().unwrap_or(0)))
}

#[btf_tracepoint(function = "mm_vmscan_memcg_reclaim_begin")]
fn reclaim_begin_tp(ctx: BtfTracePointContext) -> i32 {
    measured(Program::ReclaimBeginTp, || begin(ctx.arg(2), ReclaimFlags::PROACTIVE_UNKNOWN))
}

#[btf_tracepoint(function = "mm_vmscan_memcg_reclaim_end")]
fn reclaim_end_tp(ctx: BtfTracePointContext) -> i32 {
    measured(Program::ReclaimEndTp, || end(ctx.arg(0)))
}
