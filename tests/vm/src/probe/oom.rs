//! OOM kills.

use super::Told;
use enforcer::probe::{Event, Need, OomKill, OomOwner, ProbeOptions, Program};
use enforcer_gate::{Bytes, CgroupId, Limit};
use enforcer_vm_tests::scratch::Scratch;
use enforcer_vm_tests::workload::{PROGRAM, Workload};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;

const LIMIT: u64 = 16 << 20;

fn limited(name: &str) -> Scratch {
    let cgroup = Scratch::new(name);
    cgroup.write("memory.max", &LIMIT.to_string());
    cgroup.write("memory.swap.max", "0");
    cgroup
}

fn kills(events: &[Event], cgroup: &Scratch) -> Vec<OomKill> {
    let id = Some(CgroupId::new(cgroup.id()));
    let in_it = |event: &Event| match event {
        Event::OomKill(kill) if kill.victim.cgroup == id => Some(*kill),
        Event::OomKill(_)
        | Event::ReclaimBegin(_)
        | Event::ReclaimEnd(_)
        | Event::LimitWrite(_)
        | Event::CgroupLife(_)
        | Event::Judged(_)
        | Event::OomEnd(_) => None,
    };
    events.iter().filter_map(in_it).collect()
}

/// The kills in a cgroup once there are so many.
fn wait_for(told: &mut Told, cgroup: &Scratch, count: usize) -> Vec<OomKill> {
    told.until("the kill", |events| Some(kills(events, cgroup)).filter(|kills| kills.len() >= count))
}

/// Lets a workload run into the limit and returns its process id.
fn victim(cgroup: &Scratch) -> u32 {
    let mut workload = Workload::launch(PROGRAM, cgroup, "anon --size 32Mi");
    let pid = workload.pid();
    assert_eq!(workload.wait().signal(), Some(9), "killed");
    pid
}

pub(super) fn victim_and_owner() {
    let cgroup = limited("oom");
    let mut told = Told::of([Need::OomKill, Need::OomGroup]);
    std::fs::write("/proc/self/oom_score_adj", "77").expect("set oom_score_adj");
    let pid = victim(&cgroup);
    std::fs::write("/proc/self/oom_score_adj", "0").expect("set oom_score_adj back");
    let kills = wait_for(&mut told, &cgroup, 1);
    let [kill] = kills[..] else { panic!("one kill, not {kills:#?}") };
    let id = CgroupId::new(cgroup.id());
    assert_eq!((kill.victim.tgid, kill.victim.pid), (pid, pid));
    // The kernel cuts the name to 15 bytes.
    assert_eq!(kill.victim.comm.as_bytes(), b"enforcer-worklo");
    assert_eq!(kill.trigger.tgid, pid, "it ran out of memory itself");
    assert_eq!(kill.trigger.cgroup, Some(id));
    assert_eq!(kill.oom_score_adj, 77);
    assert_eq!((kill.group, kill.exiting, kill.index), (None, false, 0));
    let OomOwner::Cgroup { id: owner, usage, limit, max_events } = kill.owner else {
        panic!("owned by a cgroup: {kill:#?}")
    };
    assert_eq!(owner, id);
    assert_eq!(limit, Limit::Bytes(Bytes::new(LIMIT)));
    assert!(
        usage.get() <= LIMIT && usage.get() > LIMIT - (1 << 20),
        "usage {usage:?} is just under the limit"
    );
    assert!(max_events > 0, "the limit was hit before the kill");
    assert!(
        max_events <= cgroup.counter("memory.events.local", "max"),
        "{max_events} hits are among those of memory.events.local"
    );
    assert_eq!(kill.victim_limit, Limit::Bytes(Bytes::new(LIMIT)));
    assert_eq!(kill.total, Bytes::new(LIMIT), "badness is measured against the limit");
    assert!(kill.anon.get() > LIMIT / 2 && kill.anon.get() <= LIMIT, "anon {:?}", kill.anon);
}

pub(super) fn parents_limit() {
    let pod = limited("pod");
    let container = pod.child("container");
    container.write("memory.max", "1536M");
    let mut told = Told::of([Need::OomKill]);
    let pid = victim(&container);
    let kill = wait_for(&mut told, &container, 1)[0];
    assert_eq!(kill.victim.tgid, pid);
    assert_eq!(kill.victim_limit, Limit::Bytes(Bytes::from_mib(1536)));
    let OomOwner::Cgroup { id, limit, .. } = kill.owner else { panic!("owned by a cgroup: {kill:#?}") };
    assert_eq!(id.get(), pod.id(), "the pod's limit was hit, not the container's");
    assert_eq!(limit, Limit::Bytes(Bytes::new(LIMIT)));
}

pub(super) fn group_kill() {
    let cgroup = limited("group");
    cgroup.write("memory.oom.group", "1");
    let mut told = Told::of([Need::OomKill, Need::OomGroup]);
    let members: Vec<Workload> = (0..5).map(|_| Workload::run(&cgroup, "anon --size 1Mi")).collect();
    let mut expected: BTreeSet<u32> = members.iter().map(Workload::pid).collect();
    expected.insert(victim(&cgroup));
    let kills = wait_for(&mut told, &cgroup, 6);
    let pids: Vec<u32> = kills.iter().map(|kill| kill.victim.tgid).collect();
    assert_eq!(pids.iter().copied().collect::<BTreeSet<_>>(), expected);
    assert_eq!(pids.len(), 6, "each once: {pids:?}");
    let ooms: BTreeSet<u64> = kills.iter().map(|kill| kill.seq).collect();
    assert_eq!(ooms.len(), 1, "one OOM took them all: {ooms:?}");
    assert_eq!(kills.iter().map(|kill| kill.index).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    assert!(kills.iter().all(|kill| kill.group == Some(CgroupId::new(cgroup.id()))), "{kills:#?}");
    assert_eq!(cgroup.counter("memory.events.local", "oom_group_kill"), 1);
}

/// Every hook of the table in turn, by switching off what is better.
pub(super) fn fallbacks() {
    let switched_off: [&[Program]; 5] = [
        &[],
        &[Program::OomVictimTp],
        &[Program::OomBeginFentry],
        &[Program::OomBeginFentry, Program::OomVictimTp],
        &[Program::OomBeginFentry, Program::OomBeginKprobe],
    ];
    let hooks = Need::OomKill.hooks();
    assert_eq!(hooks.len(), switched_off.len(), "each hook has its turn");
    for (hook, disabled) in hooks.iter().zip(switched_off) {
        // No two begin: of the third and fourth hook the tracepoint is the third's.
        let options = ProbeOptions {
            disabled: disabled.iter().copied().collect(),
            ..ProbeOptions::only([Need::OomKill])
        };
        let cgroup = limited("fallback");
        let mut told = Told::with(&options);
        let status = &told.probe.hooks()[0];
        assert_eq!(status.in_use, Some(hook.name), "{status:#?}");
        assert_eq!(status.lost, hook.lost);
        let pid = victim(&cgroup);
        let kills = wait_for(&mut told, &cgroup, 1);
        assert_eq!(kills.len(), 1, "{}: {kills:#?}", hook.name);
        assert_eq!(kills[0].victim.tgid, pid, "{}", hook.name);
        match kills[0].owner {
            OomOwner::Cgroup { id, limit, .. } => {
                assert_eq!(hook.lost, None, "{}", hook.name);
                assert_eq!(id.get(), cgroup.id(), "{}", hook.name);
                assert_eq!(limit, Limit::Bytes(Bytes::new(LIMIT)), "{}", hook.name);
                assert_eq!(kills[0].total, Bytes::new(LIMIT), "{}", hook.name);
            }
            OomOwner::Unknown => assert!(hook.lost.is_some(), "{} knows the owner", hook.name),
            OomOwner::Node => panic!("{}: the node has memory", hook.name),
        }
    }
}

pub(super) fn threads() {
    let cgroup = limited("threads");
    let mut told = Told::of([Need::OomKill]);
    let mut workload = Workload::launch(PROGRAM, &cgroup, "threads --n 8 --size 4Mi");
    let pid = workload.pid();
    assert_eq!(workload.wait().signal(), Some(9), "killed");
    // A later kill ends the wait: by then whatever else the first one made was told.
    let last = victim(&cgroup);
    let kills = told.until("the second kill", |events| {
        let kills = kills(events, &cgroup);
        kills.iter().any(|kill| kill.victim.tgid == last).then_some(kills)
    });
    let told: Vec<u32> = kills.iter().map(|kill| kill.victim.tgid).collect();
    assert_eq!(told, [pid, last], "each process once");
}

/// A process that has its SIGKILL but no CPU to die on is chosen again: no new kill.
pub(super) fn exiting() {
    let cgroup = limited("exiting");
    let mut told = Told::of([Need::OomKill]);
    let mut big = Workload::run(&cgroup, "anon --size 12Mi");
    let mut small = Workload::run(&cgroup, "steps");
    // Both on one CPU, where only the second may run as long as it wants to.
    let mut cpu = CpuSet::new();
    cpu.set(1).expect("the guest has two CPUs");
    let pid_of = |workload: &Workload| Pid::from_raw(i32::try_from(workload.pid()).expect("a pid"));
    for workload in [&big, &small] {
        sched_setaffinity(pid_of(workload), &cpu).expect("pin a workload");
    }
    // So little room that the OOM comes at once, well within the time that a real-time task gets in a row.
    let usage: u64 = cgroup.limit("memory.current").parse().expect("a number");
    cgroup.write("memory.max", &(usage + (256 << 10)).to_string());
    let first = libc::sched_param { sched_priority: 50 };
    // SAFETY: the parameter lives through the call.
    let set =
        unsafe { libc::sched_setscheduler(pid_of(&small).as_raw(), libc::SCHED_FIFO, &raw const first) };
    assert_eq!(set, 0, "give the second workload a real-time priority");
    // It kills the first and, without giving up the CPU in between, runs into the limit.
    let (killer, victim) = (pid_of(&small), big.pid());
    small.tell(&format!("kill {victim}\ngrow 8Mi\nreport"));
    let kills = wait_for(&mut told, &cgroup, 1);
    assert_eq!(big.wait().signal(), Some(9));
    let kill = kills.iter().find(|kill| kill.victim.tgid == victim).expect("the first workload is told");
    assert!(kill.exiting, "{kill:#?}");
    assert_eq!(kill.trigger.tgid, killer.as_raw().unsigned_abs());
    assert_eq!(cgroup.kills(), 0, "the kernel counts no kill either");
}

pub(super) fn in_a_row() {
    const COUNT: usize = 200;
    let cgroup = Scratch::new("row");
    cgroup.write("memory.max", "8M");
    cgroup.write("memory.swap.max", "0");
    let mut told = Told::of([Need::OomKill, Need::OomGroup]);
    let mut workload =
        Workload::run(&cgroup, &format!("kill-loop --n {COUNT} --parallel 2 --size 32Mi --thp"));
    // Nobody reads in the meantime: the ring buffer has to hold them all.
    assert_eq!(workload.line(), format!("kill-loop killed {COUNT} other 0"));
    let kills = wait_for(&mut told, &cgroup, COUNT);
    let pids: BTreeSet<u32> = kills.iter().map(|kill| kill.victim.tgid).collect();
    assert_eq!((kills.len(), pids.len()), (COUNT, COUNT), "each process once");
    assert!(told.probe.drops().expect("read the drops").values().all(|drops| *drops == 0));
    assert_eq!(cgroup.kills(), COUNT as u64);
}
