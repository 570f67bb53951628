//! The probe itself: verifier, hooks in use, drops, costs, bounds.

use super::{NEVER, Told};
use enforcer::probe::{Event, Kind, LimitKind, Need, Probe, ProbeError, ProbeOptions, Program, verify};
use enforcer_gate::CgroupId;
use enforcer_vm_tests::case::at_least;
use enforcer_vm_tests::scratch::Scratch;
use enforcer_vm_tests::workload::Workload;
use std::collections::BTreeSet;

pub(super) fn verifier() {
    let verified = verify(&ProbeOptions::default(), Need::ALL).expect("load the object");
    let programs: BTreeSet<Program> = verified.iter().map(|one| one.program).collect();
    assert_eq!(programs, Program::ALL.iter().copied().collect(), "every program was looked at");
    for one in verified {
        let name = one.program.name();
        println!("{name:<22} {:<48} {:?}", one.point.to_string(), one.result);
        let without_cgroup = matches!(one.program, Program::ReclaimBeginTp | Program::ReclaimEndTp);
        match one.result {
            Ok(instructions) => {
                // The guard reads a text byte by byte, and older verifiers see more ways through it.
                let most = if one.program == Program::GuardWrite { 40_000 } else { 20_000 };
                assert!(
                    instructions.is_some_and(|count| count > 0 && count < most),
                    "{name}: {instructions:?}"
                );
            }
            Err(why) => {
                let expected = without_cgroup && at_least(7, 0).is_err() && why.contains("not mem_cgroup*");
                assert!(expected, "{name}: {why}");
            }
        }
    }
}

pub(super) fn best_hooks() {
    let probe = Probe::load(&ProbeOptions::default()).expect("load the probe");
    assert_eq!(probe.hooks().len(), Need::ALL.iter().filter(|need| need.only_tells()).count());
    for status in probe.hooks() {
        assert_eq!(status.in_use, Some(status.need.hooks()[0].name), "{status:#?}");
        assert_eq!((status.lost, status.tried.len()), (None, 0), "{status:#?}");
    }
}

/// A ring buffer of one page that nobody reads: what is in it and what was dropped make up all kills.
pub(super) fn drops() {
    let options = ProbeOptions { ring_bytes: 4096, ..ProbeOptions::only([Need::OomKill]) };
    let mut told = Told::with(&options);
    let cgroup = Scratch::new("drops");
    cgroup.write("memory.max", "8M");
    cgroup.write("memory.swap.max", "0");
    let mut workload = Workload::run(&cgroup, "kill-loop --n 60 --parallel 2 --size 32Mi --thp");
    assert_eq!(workload.line(), "kill-loop killed 60 other 0");
    let drops = told.probe.drops().expect("read the drops");
    told.take();
    let kept = u64::try_from(told.events.len()).expect("a small number");
    assert!(told.events.iter().all(|event| matches!(event, Event::OomKill(_))));
    assert_eq!(kept, 19, "a page holds 19 records of 208 bytes");
    assert_eq!(drops[&Kind::OomKill], 60 - kept, "{drops:?}");
    assert_eq!(drops.values().sum::<u64>(), 60 - kept, "nothing else was dropped: {drops:?}");
    // Once it was read there is room again.
    let mut workload = Workload::run(&cgroup, "kill-loop --n 3 --size 32Mi --thp");
    assert_eq!(workload.line(), "kill-loop killed 3 other 0");
    told.take();
    assert_eq!(told.events.len(), 22);
    assert_eq!(told.probe.drops().expect("read the drops"), drops);
}

pub(super) fn costs() {
    let need = Need::LimitWrite(LimitKind::MemoryLow);
    let cgroup = Scratch::new("costs");
    let told = Told::of([need]);
    for _ in 0..50 {
        cgroup.write("memory.low", "1M");
    }
    let costs = told.probe.costs().expect("read the costs");
    assert_eq!(
        costs.iter().map(|cost| cost.program).collect::<Vec<_>>(),
        [Program::LowBegin, Program::LowEnd]
    );
    for cost in costs {
        assert_eq!(cost.count, 50, "{cost:?}");
        assert_eq!(cost.histogram.iter().sum::<u64>(), 50, "{cost:?}");
        assert!(cost.total_ns > 0, "{cost:?}");
        assert_eq!(cost.missed, 0, "{cost:?}");
    }
    drop(told);
    let told = Told::with(&ProbeOptions { measure: false, ..ProbeOptions::only([need]) });
    cgroup.write("memory.low", "1M");
    let costs = told.probe.costs().expect("read the costs");
    assert!(costs.iter().all(|cost| cost.count == 0), "{costs:?}");
}

pub(super) fn wakes_up() {
    let cgroup = Scratch::new("wakes");
    let mut probe = Probe::load(&ProbeOptions::only([Need::CgroupLife])).expect("load the probe");
    let path = cgroup.path().join("made");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        for _ in 0..20 {
            // The event comes while the task waits: the maker starts once the runtime is idle.
            let made = path.clone();
            let maker = tokio::task::spawn_blocking(move || {
                std::fs::create_dir(&made).expect("make a cgroup");
                std::fs::remove_dir(&made).expect("remove the cgroup");
            });
            let mut seen = 0;
            while seen < 2 {
                let event = tokio::time::timeout(NEVER, probe.next_event()).await.expect("an event comes");
                if let Event::CgroupLife(life) = event.expect("it makes sense")
                    && life.name.as_bytes() == b"made"
                {
                    seen += 1;
                }
            }
            maker.await.expect("the maker is done");
        }
    });
}

pub(super) fn watch_list() {
    let options = ProbeOptions { watched_max: 2, ..ProbeOptions::only([Need::Reclaim]) };
    let mut probe = Probe::load(&options).expect("load the probe");
    for id in [1, 2, 2] {
        probe.watch(CgroupId::new(id)).expect("there is room for two");
    }
    match probe.watch(CgroupId::new(3)) {
        Err(ProbeError::WatchedFull { cgroup: 3, watched_max: 2 }) => {}
        other => panic!("a third is one too many: {other:?}"),
    }
    probe.unwatch(CgroupId::new(1)).expect("forget one");
    probe.unwatch(CgroupId::new(77)).expect("one that is not watched is no error");
    probe.watch(CgroupId::new(3)).expect("there is room again");
}

pub(super) fn no_hook() {
    let options = ProbeOptions {
        disabled: [Program::CgroupRmdir].into(),
        ..ProbeOptions::only([Need::CgroupLife, Need::Reclaim])
    };
    let mut told = Told::with(&options);
    let status =
        told.probe.hooks().iter().find(|status| status.need == Need::CgroupLife).expect("it is listed");
    assert_eq!((status.in_use, status.lost), (None, Some(Need::CgroupLife.lost())));
    assert_eq!(status.tried.len(), 1);
    assert_eq!(status.tried[0].why, "cgroup_rmdir is switched off");
    // Not even the programs that could be attached are: a cgroup that is born would be told otherwise.
    drop(Scratch::new("untold"));
    told.take();
    assert!(told.events.is_empty(), "{:#?}", told.events);
}

pub(super) fn no_privilege() {
    // Of this thread only: the C library's call would change the whole process.
    let set_euid = |from: u32, to: u32| {
        // SAFETY: the call takes numbers only.
        let done = unsafe { libc::syscall(libc::SYS_setresuid, from, to, u32::MAX) };
        assert_eq!(done, 0, "change the thread's user");
    };
    set_euid(u32::MAX, 65534);
    let result = Probe::load(&ProbeOptions::default());
    set_euid(u32::MAX, 0);
    match result {
        Err(error @ ProbeError::NotPermitted { .. }) => {
            let text = error.to_string();
            assert!(text.contains("run as root") && text.contains("CAP_BPF"), "{text}");
        }
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("a user without privilege can't load programs"),
    }
}
