//! Cgroups that come and go.

use crate::cost::measured;
use crate::kernel::{Ptr, cgroup_id, cgroup_name, follow, load};
use crate::maps::send;
use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use enforcer_abi::{CgroupLife, Field, Kind, LifeEvent, Program};

#[inline(always)]
fn tell(cgroup: Ptr, event: LifeEvent) {
    // The tracepoints also fire for cgroup v1, whose ids are other numbers.
    let hierarchy = load::<u32>(follow(cgroup, Field::CgroupRoot), Field::RootHierarchy);
    if hierarchy != Some(0) {
        return;
    }
    // SAFETY: the helper takes no argument.
    let now = unsafe { bpf_ktime_get_ns() };
    send(Kind::CgroupLife, now, |record: &mut CgroupLife| {
        record.cgroup = cgroup_id(cgroup);
        let parent = follow(cgroup, Field::CgroupParentCss);
        record.parent = cgroup_id(follow(parent, Field::CssCgroup));
        record.level = load(cgroup, Field::CgroupLevel).unwrap_or(0);
        record.event = event as u32;
        cgroup_name(cgroup, &mut record.name);
    });
}

#[btf_tracepoint(function = "cgroup_mkdir")]
fn cgroup_mkdir(ctx: BtfTracePointContext) -> i32 {
    measured(Program::CgroupMkdir, || tell(ctx.arg(0), LifeEvent::Mkdir))
}

#[btf_tracepoint(function = "cgroup_rmdir")]
fn cgroup_rmdir(ctx: BtfTracePointContext) -> i32 {
    measured(Program::CgroupRmdir, || tell(ctx.arg(0), LifeEvent::Rmdir))
}

#[btf_tracepoint(function = "cgroup_release")]
fn cgroup_release(ctx: BtfTracePointContext) -> i32 {
    measured(Program::CgroupRelease, || tell(ctx.arg(0), LifeEvent::Release))
}
