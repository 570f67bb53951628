//! Reclaim.

use super::Told;
use enforcer::probe::{Event, Need, ProbeOptions, Program, ReclaimBegin, ReclaimCause, ReclaimEnd};
use enforcer_gate::CgroupId;
use enforcer_vm_tests::scratch::Scratch;
use enforcer_vm_tests::workload::Workload;

#[derive(Debug, Clone, Copy)]
enum Reclaim {
    Begin(ReclaimBegin),
    End(ReclaimEnd),
}

fn all(events: &[Event]) -> Vec<Reclaim> {
    let reclaim = |event: &Event| match event {
        Event::ReclaimBegin(begin) => Some(Reclaim::Begin(*begin)),
        Event::ReclaimEnd(end) => Some(Reclaim::End(*end)),
        Event::OomKill(_)
        | Event::LimitWrite(_)
        | Event::CgroupLife(_)
        | Event::Judged(_)
        | Event::OomEnd(_) => None,
    };
    events.iter().filter_map(reclaim).collect()
}

/// All reclaims, each end matched to its begin, of the one process that reclaims.
fn finished(told: &mut Told, cgroup: &Scratch, cause: ReclaimCause) -> Vec<ReclaimEnd> {
    told.take();
    let all = all(&told.events);
    assert!(!all.is_empty(), "reclaim was told");
    assert_eq!(all.len() % 2, 0, "each begin has its end: {all:#?}");
    all.chunks(2)
        .map(|pair| {
            let [Reclaim::Begin(begin), Reclaim::End(end)] = pair else { panic!("a pair: {pair:#?}") };
            assert_eq!((begin.cgroup.get(), end.cgroup.get()), (cgroup.id(), cgroup.id()));
            assert_eq!((begin.cause, end.cause), (cause, cause), "{end:#?}");
            assert_eq!(begin.tgid, end.tgid);
            assert_eq!(end.at_ns - begin.at_ns, end.took_ns, "{end:#?}");
            assert!(end.took_ns > 0, "{end:#?}");
            *end
        })
        .collect()
}

fn cached(name: &str) -> (Scratch, Workload) {
    let cgroup = Scratch::new(name);
    let workload = Workload::run(&cgroup, &format!("cache --file /data/probe-{name} --size 16Mi"));
    (cgroup, workload)
}

fn asked_for(options: &ProbeOptions, cause: ReclaimCause) {
    let (cgroup, _workload) = cached("asked");
    let mut told = Told::with(options);
    told.probe.watch(CgroupId::new(cgroup.id())).expect("watch the cgroup");
    let before = cgroup.counter("memory.stat", "file");
    cgroup.write("memory.reclaim", "8M");
    let after = cgroup.counter("memory.stat", "file");
    let ends = finished(&mut told, &cgroup, cause);
    let reclaimed: u64 = ends.iter().map(|end| end.reclaimed.get()).sum();
    assert!(reclaimed >= 8 << 20, "as much as was asked for: {reclaimed}");
    // Slab that goes with the pages is counted as well.
    assert!(reclaimed + (1 << 20) >= before - after, "{reclaimed} of {before} -> {after}");
    assert!(ends.iter().all(|end| end.tgid == std::process::id()));
}

pub(super) fn proactive() {
    asked_for(&ProbeOptions::only([Need::Reclaim]), ReclaimCause::Proactive);
}

pub(super) fn tracepoint() {
    let options = ProbeOptions {
        disabled: [Program::ReclaimBeginFentry].into(),
        ..ProbeOptions::only([Need::Reclaim])
    };
    let told = Told::with(&options);
    let status = told.probe.hooks()[0].clone();
    drop(told);
    if let Some(name) = status.in_use {
        assert_eq!(name, "tp_btf:mm_vmscan_memcg_reclaim_begin/end");
        assert!(status.lost.is_some_and(|lost| lost.contains("memory.reclaim")), "{status:#?}");
        asked_for(&options, ReclaimCause::Unknown);
    } else {
        // Kernels whose tracepoint does not pass the cgroup.
        assert!(enforcer_vm_tests::case::at_least(7, 0).is_err(), "{status:#?}");
        assert_eq!(status.lost, Some(Need::Reclaim.lost()));
        let why = &status.tried.last().expect("it was tried").why;
        assert!(why.contains("argument 2") && why.contains("mem_cgroup*"), "{why}");
    }
}

pub(super) fn forced() {
    let (cgroup, mut workload) = cached("forced");
    let mut told = Told::of([Need::Reclaim]);
    told.probe.watch(CgroupId::new(cgroup.id())).expect("watch the cgroup");
    let usage: u64 = cgroup.limit("memory.current").parse().expect("a number");
    cgroup.write("memory.max", &(usage - (4 << 20)).to_string());
    let ends = finished(&mut told, &cgroup, ReclaimCause::Limit);
    let reclaimed: u64 = ends.iter().map(|end| end.reclaimed.get()).sum();
    assert!(reclaimed >= (4 << 20) - (1 << 20), "what had to go: {reclaimed}");
    assert!(workload.alive(), "cache is reclaimed, nobody dies");
}

pub(super) fn unwatched() {
    let (cgroup, _workload) = cached("unwatched");
    let (watched, _other) = cached("watched");
    let mut told = Told::of([Need::Reclaim]);
    told.probe.watch(CgroupId::new(cgroup.id())).expect("watch the cgroup");
    told.probe.unwatch(CgroupId::new(cgroup.id())).expect("forget the cgroup");
    told.probe.watch(CgroupId::new(watched.id())).expect("watch the other");
    cgroup.write("memory.reclaim", "4M");
    watched.write("memory.reclaim", "4M");
    // `finished` holds that each event is of the watched one.
    finished(&mut told, &watched, ReclaimCause::Proactive);
}
