//! From events to records: what is told of the cases that the kernel makes.

use super::*;
use crate::{
    probe::{
        CgroupLife, LifeEvent, LimitKind, LimitValue, LimitWrite, OomConstraint, OomEnd, OomKill, OomOwner,
        Stat, Task, Text, WriteEnd,
    },
    store::{Payload as _, Record},
};
use enforcer_gate::{Bytes, CgroupId, Limit, Micros};
use std::collections::BTreeMap;
use tell::{Clock, Seen};
use writes::Writes;

const MIB: u64 = 1 << 20;
const SECOND: u64 = 1_000_000_000;
const POD: CgroupId = CgroupId::new(3);
const CONTAINER: CgroupId = CgroupId::new(4);

fn mib(count: u64) -> Limit {
    Limit::Bytes(Bytes::from_mib(count))
}

fn task(pid: u32, comm: &str) -> Task {
    Task { pid, tgid: pid, comm: Text::new(comm.as_bytes()), cgroup: Some(CONTAINER) }
}

/// A kill of process `pid` in the container at 100 s, the owner with this limit and all of it in use.
fn kill(seq: u64, index: u32, pid: u32, owner: CgroupId, limit: u64) -> OomKill {
    OomKill {
        at_ns: 100 * SECOND,
        seq,
        index,
        victim: task(pid, "java"),
        trigger: task(pid + 1, "gc"),
        owner: OomOwner::Cgroup {
            id: owner,
            usage: Bytes::from_mib(limit),
            limit: mib(limit),
            max_events: 16,
        },
        group: None,
        exiting: false,
        victim_usage: Bytes::from_mib(100),
        victim_limit: mib(1536),
        anon: Bytes::from_mib(90),
        file: Bytes::from_mib(5),
        shmem: Bytes::from_mib(1),
        oom_score_adj: 900,
        total: Bytes::from_mib(limit),
        constraint: OomConstraint::Memcg,
        first_of_namespace: None,
    }
}

fn end(seq: u64, victims: u32) -> OomEnd {
    let begin_ns = 100 * SECOND - 1_000_000;
    OomEnd { at_ns: 100 * SECOND + 5, seq, begin_ns, victims, past: None, stat: [None; Stat::COUNT] }
}

/// `/kubepods/burstable/pod1d2c/<64 times a>`, ids 1 to 4.
fn inventory() -> Inventory {
    let mut inventory = Inventory::default();
    inventory.seen(CgroupId::new(1), None, "".into());
    let long = "a".repeat(64);
    for (id, parent, name) in [(2, 1, "kubepods"), (3, 2, "pod1d2c"), (4, 3, long.as_str())] {
        inventory.seen(CgroupId::new(id), Some(CgroupId::new(parent)), name.into());
    }
    inventory
}

/// What [`look`] would say.
fn seen(survivors: u32, container: Limit, pod: Limit) -> Seen {
    let limits = vec![
        LimitAt { cgroup: CONTAINER, limit: container },
        LimitAt { cgroup: POD, limit: pod },
        LimitAt { cgroup: CgroupId::new(2), limit: Limit::Max },
    ];
    Seen { survivors: Some(survivors), limits, ..Seen::default() }
}

fn written(file: LimitKind, begin_ns: u64, end_ns: Option<u64>, old: u64, new: u64) -> LimitWrite {
    LimitWrite {
        at_ns: end_ns.unwrap_or(begin_ns),
        begin_ns,
        cgroup: POD,
        file,
        writer: task(77, "runc"),
        asked: Text::new(format!("{new}M\n").as_bytes()),
        old: LimitValue::Memory(mib(old)),
        end: end_ns.map(|_| WriteEnd { new: LimitValue::Memory(mib(new)), result: Ok(3) }),
    }
}

fn finished(kills: &[OomKill], end: Option<OomEnd>) -> Finished {
    let mut assembler = Assembler::new(end.is_some());
    for kill in kills {
        assert_eq!(assembler.kill(kill), None);
    }
    match end {
        Some(end) => assembler.end(&end).pop().unwrap(),
        None => assembler.flush().unwrap(),
    }
}

fn tell(finished: &Finished, seen: &Seen, writes: &Writes) -> OomRecord {
    let clock = Clock { wall_ns: 1_000 * SECOND, boot_ns: 7 * SECOND, boot_id: "b".into() };
    tell::tell(finished, &inventory(), writes, seen, &clock)
}

fn no_writes() -> Writes {
    Writes::new(60 * SECOND)
}

#[test]
fn the_pods_limit_under_the_containers_is_named() {
    let oom = finished(&[kill(1, 0, 10, POD, 175)], Some(end(1, 1)));
    let record = tell(&oom, &seen(0, mib(1536), mib(175)), &no_writes());
    assert_eq!(
        record.says,
        "the pod limit of 175Mi, not the container's 1.5Gi, was the one hit: raise the limit of the pod, which \
         lags behind it"
    );
    assert_eq!((record.wall_us, record.boot_us), (1_100_000_000, 107_000_000));
    assert_eq!(record.cgroup(POD).unwrap().path.as_deref(), Some("kubepods/pod1d2c"));
    assert_eq!(record.cgroup(CONTAINER).unwrap().place.as_ref().unwrap().pod.as_deref(), Some("1d2c"));
    assert_eq!(record.victims[0].rss(), Bytes::from_mib(96));
    // The same where the cgroup is gone and nothing could be looked at.
    let gone = tell(&oom, &Seen::default(), &no_writes());
    assert_eq!(gone.says, record.says);
    assert_eq!((gone.survivors, gone.stat), (None, None));
}

#[test]
fn each_cause_has_its_advice() {
    let own = |limit| kill(1, 0, 10, CONTAINER, limit);
    let changed = |change: fn(&mut OomKill)| {
        let mut kill = own(100);
        change(&mut kill);
        kill
    };
    for (kill, starts) in [
        (own(100), "the container's own limit of 100Mi was hit with 100Mi in use: raise it"),
        (changed(|kill| kill.owner = OomOwner::Node), "the node ran out of memory"),
        (changed(|kill| kill.owner = OomOwner::Unknown), "whose limit was hit is not known here"),
        (changed(|kill| kill.exiting = true), "the process was exiting already"),
        (
            changed(|kill| {
                kill.owner = OomOwner::Node;
                kill.constraint = OomConstraint::Cpuset;
            }),
            "the memory nodes that the cpuset allows were full",
        ),
    ] {
        let record = tell(&finished(&[kill], Some(end(1, 1))), &seen(0, mib(100), Limit::Max), &no_writes());
        assert!(record.says.starts_with(starts), "{}", record.says);
    }
}

#[test]
fn what_most_of_it_was_is_said() {
    let mut end = end(1, 1);
    end.stat[Stat::Shmem as usize] = Some(Bytes::from_mib(80));
    end.stat[Stat::File as usize] = Some(Bytes::from_mib(80));
    end.stat[Stat::Anon as usize] = Some(Bytes::from_mib(10));
    let record = tell(
        &finished(&[kill(1, 0, 10, CONTAINER, 100)], Some(end)),
        &seen(0, mib(100), Limit::Max),
        &no_writes(),
    );
    assert!(record.says.contains("in use, 80Mi of it tmpfs and shared memory: raise it"), "{}", record.says);
    let stat = record.stat.unwrap();
    assert_eq!((stat.from, stat.terms.len()), (StatFrom::Kernel, 3));
    // Counters that do not explain the usage are not believed where the file can be read.
    end.stat[Stat::Shmem as usize] = None;
    end.stat[Stat::File as usize] = Some(Bytes::from_mib(64));
    let behind = finished(&[kill(1, 0, 10, CONTAINER, 100)], Some(end));
    let mut seen = seen(0, mib(100), Limit::Max);
    assert_eq!(tell(&behind, &seen, &no_writes()).stat.unwrap().from, StatFrom::KernelBehind);
    seen.stat = Some((behind.begin_ns() + 2000, [("anon".into(), Bytes::from_mib(3))].into()));
    let stat = tell(&behind, &seen, &no_writes()).stat.unwrap();
    assert_eq!((stat.from, stat.after_us, stat.terms.len()), (StatFrom::File, Micros::new(2), 1));
}

#[test]
fn a_child_that_falls_leaves_the_container_alive() {
    let oom = finished(&[kill(1, 0, 10, CONTAINER, 100)], Some(end(1, 1)));
    let record = tell(&oom, &seen(2, mib(100), Limit::Max), &no_writes());
    assert!(record.says.ends_with("; 2 other processes live on in the container"), "{}", record.says);
    let mut first = kill(1, 0, 10, CONTAINER, 100);
    first.first_of_namespace = Some(true);
    let record = tell(&finished(&[first], Some(end(1, 1))), &seen(2, mib(100), Limit::Max), &no_writes());
    assert!(record.says.ends_with("first process of the container, which ends with it"), "{}", record.says);
}

#[test]
fn a_group_kill_is_one_record() {
    let kills: Vec<OomKill> = (0..6)
        .map(|index| OomKill { group: Some(CONTAINER), ..kill(1, index, 10 + index, CONTAINER, 100) })
        .collect();
    let record = tell(&finished(&kills, Some(end(1, 6))), &seen(0, mib(100), Limit::Max), &no_writes());
    let pids: Vec<u32> = record.victims.iter().map(|victim| victim.task.pid).collect();
    assert_eq!(pids, [10, 11, 12, 13, 14, 15]);
    assert_eq!((record.victims_lost, record.group), (0, Some(CONTAINER)));
    assert!(record.says.ends_with("memory.oom.group took all 6 processes"), "{}", record.says);
}

#[test]
fn the_write_that_killed_is_named() {
    let oom = finished(&[kill(1, 0, 10, POD, 175)], Some(end(1, 1)));
    let begin = oom.begin_ns();
    let says = |write: &LimitWrite| {
        let mut writes = no_writes();
        writes.told(write, || Some(false));
        tell(&oom, &seen(0, mib(1536), mib(175)), &writes)
    };
    let during = says(&written(LimitKind::MemoryMax, begin - SECOND, None, 400, 175));
    let expected = "runc[77] wrote 175M to memory.max of the pod while 175Mi were in use";
    assert!(during.says.starts_with(expected), "{}", during.says);
    assert_eq!(during.writes[0].before_us, Micros::from_secs(1));
    // Told only after its end, but begun before the OOM.
    let ended = says(&written(LimitKind::MemoryMax, begin - SECOND, Some(begin + 9), 400, 175));
    assert!(ended.says.starts_with(expected), "{}", ended.says);
    let before = says(&written(LimitKind::MemoryMax, begin - 3 * SECOND, Some(begin - 2 * SECOND), 400, 175));
    let expected = "runc[77] lowered memory.max of the pod from 400Mi to 175Mi 2s before";
    assert!(before.says.starts_with(expected), "{}", before.says);
    assert_eq!((before.writes[0].ours, before.writes[0].asked.as_str()), (Some(false), "175M"));
    // A raise, and another file, are told and are no cause.
    for write in [
        written(LimitKind::MemoryMax, begin - 3 * SECOND, Some(begin - 2 * SECOND), 100, 175),
        written(LimitKind::MemoryHigh, begin - 3 * SECOND, Some(begin - 2 * SECOND), 400, 175),
    ] {
        let record = says(&write);
        assert!(record.says.starts_with("the pod limit of 175Mi"), "{}", record.says);
        assert_eq!(record.writes.len(), 1);
    }
}

#[test]
fn writes_are_kept_for_a_while_and_for_their_cgroup() {
    let mut writes = Writes::new(60 * SECOND);
    let concerned = |id| std::collections::BTreeSet::from([id]);
    for second in 0..5000 {
        let at = second * SECOND;
        writes.told(&written(LimitKind::MemoryMax, at, Some(at + 1), 2, 1), || None);
    }
    assert_eq!(writes.before(5000 * SECOND, &concerned(CONTAINER)), []);
    let told = writes.before(5000 * SECOND, &concerned(POD));
    assert_eq!(told.len(), 8, "bounded");
    assert_eq!(told[0].write.begin_ns, 4999 * SECOND, "newest first");
    assert_eq!(writes.before(5100 * SECOND, &concerned(POD)), [], "all are old by then");
    assert_eq!(writes.forgotten(), 0, "only what was old");
    for at in 0..4100 {
        writes.told(&written(LimitKind::MemoryMax, 5100 * SECOND + at, None, 2, 1), || None);
    }
    assert_eq!(writes.forgotten(), 4, "more than are kept");
    writes.told(&written(LimitKind::CpuMax, 5100 * SECOND, None, 2, 1), || panic!("not asked"));
    assert_eq!(writes.before(5100 * SECOND - 1, &concerned(POD)), []);
}

#[test]
fn a_start_up_shows() {
    let mut inventory = inventory();
    inventory.told(&CgroupLife {
        at_ns: 98 * SECOND,
        cgroup: CONTAINER,
        parent: POD,
        level: 3,
        event: LifeEvent::Mkdir,
        name: Text::new(b"x"),
    });
    let oom = finished(&[kill(1, 0, 10, CONTAINER, 100)], Some(end(1, 1)));
    let clock = Clock { wall_ns: 0, boot_ns: 0, boot_id: String::new() };
    let record = tell::tell(&oom, &inventory, &no_writes(), &Seen::default(), &clock);
    assert!(record.says.ends_with("it was 1.9s old"), "{}", record.says);
}

#[test]
fn what_was_lost_shows_in_the_record() {
    // The second of three victims has no record.
    let kills = [kill(5, 0, 10, CONTAINER, 100), kill(5, 2, 12, CONTAINER, 100)];
    assert_eq!(finished(&kills, Some(end(5, 3))).missing, 1);
    assert_eq!(finished(&kills, None).missing, 1, "also without the end");
    // All of them.
    let oom = finished(&[], Some(end(6, 4)));
    let record = tell(&oom, &Seen::default(), &no_writes());
    assert_eq!((record.victims.len(), record.victims_lost, record.owner), (0, 4, Owner::Unknown));
}

#[test]
fn ooms_are_told_apart_with_and_without_their_ends() {
    let mut assembler = Assembler::new(true);
    assert_eq!(assembler.kill(&kill(1, 0, 10, POD, 1)), None);
    let done = assembler.end(&end(1, 1));
    assert_eq!(done.iter().map(|oom| (oom.seq, oom.kills.len())).collect::<Vec<_>>(), [(1, 1)]);
    // The end of the second is lost, the kills of the third are.
    assert_eq!(assembler.kill(&kill(2, 0, 11, POD, 1)), None);
    let done = assembler.end(&end(3, 2));
    let told: Vec<_> = done.iter().map(|oom| (oom.seq, oom.kills.len(), oom.missing)).collect();
    assert_eq!(told, [(2, 1, 0), (3, 0, 2)]);
    assert_eq!(assembler.flush(), None);

    let mut assembler = Assembler::new(false);
    assert_eq!(assembler.due_ns(), None);
    assert_eq!(assembler.kill(&kill(1, 0, 10, POD, 1)), None);
    assert_eq!(assembler.kill(&kill(2, 0, 11, POD, 1)).map(|oom| oom.seq), Some(1));
    let due = assembler.due_ns().unwrap();
    assert_eq!(assembler.quiet(due - 1), None);
    assert_eq!(assembler.quiet(due).map(|oom| oom.seq), Some(2));
    assert_eq!(assembler.due_ns(), None);
}

#[test]
fn a_record_comes_back_from_the_store_however_hostile_its_names() {
    let mut kill = kill(1, 0, 10, CONTAINER, 100);
    kill.victim.comm = Text::new(b"a\x1b[2J\xff\"\n");
    let record = tell(&finished(&[kill], Some(end(1, 1))), &Seen::default(), &no_writes());
    assert_eq!(record.victims[0].task.comm, "a\\u{1b}[2J\\xff\"\\n");
    let (kind, payload) = Stored::Oom(Box::new(record.clone())).encode().unwrap();
    let back = Stored::decode(&Record { number: 1, kind, payload }).unwrap();
    assert_eq!(back, Some(Stored::Oom(Box::new(record))));
    let other = Record { number: 1, kind: crate::store::Kind(16), payload: b"{".to_vec() };
    assert_eq!(Stored::decode(&other).unwrap(), None);
}

#[test]
fn the_largest_group_kill_fits_into_the_store() {
    let kills: Vec<OomKill> = (0..3000)
        .map(|index| {
            let mut kill = OomKill { group: Some(CONTAINER), ..kill(1, index, index, CONTAINER, 100) };
            kill.victim.comm = Text::new(&[0xff; 16]);
            kill
        })
        .collect();
    let record = tell(&finished(&kills, Some(end(1, 3000))), &Seen::default(), &no_writes());
    assert_eq!((record.victims.len(), record.victims_lost), (2048, 952));
    let (kind, payload) = Stored::Oom(Box::new(record)).encode().unwrap();
    assert!(payload.len() <= crate::store::PAYLOAD_BYTES_MAX, "{}", payload.len());
    let Some(Stored::Oom(back)) = Stored::decode(&Record { number: 1, kind, payload }).unwrap() else {
        panic!("it is an OOM")
    };
    assert_eq!(back.victims.len() + back.victims_lost as usize, 3000, "every victim is counted");
    assert!(back.says.ends_with("took all 3000 processes"), "{}", back.says);
}

#[test]
fn the_record_has_the_documented_shape() {
    let record = tell(
        &finished(&[kill(1, 0, 10, POD, 175)], Some(end(1, 1))),
        &seen(0, mib(1536), mib(175)),
        &no_writes(),
    );
    let json = serde_json::to_value(Stored::Oom(Box::new(record))).unwrap();
    let oom = &json["oom"];
    assert_eq!(oom["version"], 1);
    assert_eq!(oom["owner"]["kind"], "cgroup");
    assert_eq!(oom["owner"]["limit"]["bytes"], 175 * MIB);
    assert_eq!(oom["victims"][0]["pid"], 10);
    assert_eq!(oom["victims"][0]["comm"], "java");
    assert_eq!(oom["cgroups"][0]["place"]["role"], "pods");
}

/// Every field has something in it.
fn whole() -> OomRecord {
    let mut record = tell(
        &finished(&[OomKill { group: Some(CONTAINER), ..kill(1, 0, 10, POD, 175) }], Some(end(1, 2))),
        &seen(1, mib(1536), mib(175)),
        &no_writes(),
    );
    record.stat = Some(StatThen {
        from: StatFrom::File,
        after_us: Micros::new(5),
        terms: BTreeMap::from([("anon".into(), Bytes::from_mib(170))]),
    });
    record.reclaim =
        Some(ReclaimBefore { count: 3, took_us: Micros::new(900), reclaimed: Bytes::from_mib(2) });
    record.writes = vec![WriteBefore {
        cgroup: POD,
        file: "memory.max".into(),
        writer: TaskName { tid: 78, pid: 77, comm: "runc".into(), cgroup: Some(CgroupId::new(2)) },
        ours: Some(false),
        asked: "175M\\n".into(),
        old: Limit::Max,
        new: Some(mib(175)),
        errno: None,
        during: false,
        before_us: Micros::new(1_000),
    }];
    let named = record.cgroups.iter_mut().find(|cgroup| cgroup.id == CONTAINER).expect("the container");
    named.age_us = Some(Micros::new(60_000_000));
    named.pod = Some("prod/web-0".into());
    named.container = Some("app".into());
    named.image = Some("docker.io/library/app:1".into());
    record
}

#[test]
fn a_store_of_format_1_is_read_as_it_was_written() {
    let began = Began {
        wall_us: 7,
        boot_id: "b".into(),
        kernel: "6.12".into(),
        lost: vec!["oom_end: no such hook".into()],
    };
    let lost = Lost { wall_us: 8, dropped: BTreeMap::from([("oom_kill".into(), 2)]), unstored: 1 };
    crate::store::fixture::check_kept(
        "oom-1.seg",
        &[Stored::Began(began), Stored::Oom(Box::new(whole())), Stored::Lost(lost)],
    );
}
