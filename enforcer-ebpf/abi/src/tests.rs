use super::*;
use proptest::prelude::*;
use std::vec::Vec;

fn bytes_of<T>(value: &T) -> Vec<u8> {
    let start = core::ptr::from_ref(value).cast::<u8>();
    // SAFETY: records have no padding (`layout_is_locked`), so every byte is initialised.
    unsafe { core::slice::from_raw_parts(start, size_of::<T>()) }.to_vec()
}

fn task(pid: u32) -> Task {
    Task { pid, tgid: pid + 1, comm: Text::new(b"stress"), cgroup: u64::from(pid) * 100 }
}

fn oom_kill() -> OomKill {
    OomKill {
        header: Header::new(Kind::OomKill, 7),
        seq: 1,
        index: 2,
        flags: OomFlags::GROUP.with(OomFlags::EXITING),
        victim: task(10),
        trigger: task(20),
        owner: 3,
        group: 4,
        total_pages: 5,
        owner_usage: 6,
        owner_limit: 7,
        owner_max_events: 8,
        victim_usage: 9,
        victim_limit: 10,
        anon: 11,
        file: 12,
        shmem: 13,
        oom_score_adj: -998,
        constraint: OomConstraint::Memcg as u32,
        ns_pid: 1,
        ns_level: 2,
    }
}

fn oom_end() -> OomEnd {
    OomEnd {
        header: Header::new(Kind::OomEnd, 7),
        seq: 1,
        begin_ns: 5,
        owner: 3,
        victims: 6,
        reserved: 0,
        reclaims: 16,
        reclaim_ns: 1_000_000,
        reclaimed: 3,
        stat: core::array::from_fn(|at| at as u64),
    }
}

fn limit_write() -> LimitWrite {
    LimitWrite {
        header: Header::new(Kind::LimitWrite, 9),
        begin_ns: 8,
        cgroup: 77,
        writer: task(30),
        old: PAGES_MAX,
        new: 256,
        old_more: 0,
        new_more: 0,
        result: -16,
        file: LimitKind::MemoryMax as u32,
        phase: Phase::End as u32,
        asked: Text::new(b"1048576\n"),
    }
}

fn cgroup_life() -> CgroupLife {
    CgroupLife {
        header: Header::new(Kind::CgroupLife, 1),
        cgroup: 5,
        parent: 1,
        level: 2,
        event: LifeEvent::Rmdir as u32,
        name: Text::new(b"pod.slice"),
    }
}

/// Spoils a record.
type Change = fn(&mut GuardVerdict);

fn guard_verdict() -> GuardVerdict {
    GuardVerdict {
        header: Header::new(Kind::GuardVerdict, 3),
        cgroup: 77,
        writer: task(40),
        asked: 1,
        limit: 2,
        usage: 3,
        margin: 4,
        lease_minimum: 5,
        lease_expires_ns: 6,
        syscall: 1,
        file: LimitKind::MemoryMax as u32,
        mode: GuardMode::Enforce as u32,
        verdict: Verdict::Denied as u32,
        reason: Reason::NoLease as u32,
        source: Source::Write as u32,
        unused: 0,
        text: Text::new(b"4096\n"),
    }
}

/// Size of a type and the offset of every field in declaration order: sums to the size only without padding.
macro_rules! layout {
    ($ty:ty, $size:literal, $($field:ident: $offset:literal),+) => {
        assert_eq!(size_of::<$ty>(), $size, "size of {}", stringify!($ty));
        $(assert_eq!(
            core::mem::offset_of!($ty, $field), $offset,
            "offset of {}.{}", stringify!($ty), stringify!($field)
        );)+
    };
}

#[test]
fn layout_is_locked() {
    layout!(Task, 32, pid: 0, tgid: 4, comm: 8, cgroup: 24);
    layout!(OomKill, 200, header: 0, seq: 16, index: 24, flags: 28, victim: 32, trigger: 64, owner: 96,
        group: 104, total_pages: 112, owner_usage: 120, owner_limit: 128, owner_max_events: 136,
        victim_usage: 144, victim_limit: 152, anon: 160, file: 168, shmem: 176, oom_score_adj: 184,
        constraint: 188, ns_pid: 192, ns_level: 196);
    layout!(OomEnd, 168, header: 0, seq: 16, begin_ns: 24, owner: 32, victims: 40, reserved: 44, reclaims: 48,
        reclaim_ns: 56, reclaimed: 64, stat: 72);
    layout!(PastSlot, 32, epoch: 0, count: 8, total_ns: 16, reclaimed: 24);
    layout!(Past, 256, slots: 0);
    layout!(ReclaimBegin, 32, header: 0, cgroup: 16, tgid: 24, flags: 28);
    layout!(ReclaimEnd, 48, header: 0, cgroup: 16, tgid: 24, flags: 28, duration_ns: 32, reclaimed: 40);
    layout!(LimitWrite, 144, header: 0, begin_ns: 16, cgroup: 24, writer: 32, old: 64, new: 72,
        old_more: 80, new_more: 88, result: 96, file: 104, phase: 108, asked: 112);
    layout!(CgroupLife, 168, header: 0, cgroup: 16, parent: 24, level: 32, event: 36, name: 40);
    layout!(GuardVerdict, 168, header: 0, cgroup: 16, writer: 24, asked: 56, limit: 64, usage: 72, margin: 80,
        lease_minimum: 88, lease_expires_ns: 96, syscall: 104, file: 112, mode: 116, verdict: 120, reason: 124,
        source: 128, unused: 132, text: 136);
    layout!(Guarded, 16, mode: 0, what: 4, margin: 8);
    layout!(LeaseKey, 16, cgroup: 0, file: 8);
    layout!(Lease, 32, granted_ns: 0, expires_ns: 8, minimum: 16, growth_per_second: 24);
    layout!(GuardLife, 24, beat_ns: 0, stale_ns: 8, pid: 16);
    layout!(Cost, 272, count: 0, total_ns: 8, histogram: 16);
    assert_eq!(size_of::<Header>(), 16);
    assert_eq!(size_of::<Offsets>(), Field::ALL.len() * 4);
}

#[test]
fn bytes_are_locked() {
    let mut expected = std::vec![4, 0, 0, 0, 144, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0];
    expected.extend([8, 0, 0, 0, 0, 0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0]);
    expected.extend([30, 0, 0, 0, 31, 0, 0, 0]);
    expected.extend(b"stress\0\0\0\0\0\0\0\0\0\0");
    expected.extend(3000u64.to_le_bytes());
    expected.extend([255, 255, 255, 255, 255, 255, 7, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    expected.extend([0; 16]);
    expected.extend([240, 255, 255, 255, 255, 255, 255, 255]);
    expected.extend([1, 0, 0, 0, 1, 0, 0, 0]);
    expected.extend(b"1048576\n");
    expected.extend([0; 24]);
    assert_eq!(bytes_of(&limit_write()), expected);
}

#[test]
fn every_kind_comes_back() {
    let begin = ReclaimBegin {
        header: Header::new(Kind::ReclaimBegin, 3),
        cgroup: 4,
        tgid: 5,
        flags: ReclaimFlags::PROACTIVE,
    };
    let end = ReclaimEnd {
        header: Header::new(Kind::ReclaimEnd, 4),
        cgroup: 4,
        tgid: 5,
        flags: ReclaimFlags::NONE,
        duration_ns: 1_000,
        reclaimed: 32,
    };
    assert_eq!(Record::parse(&bytes_of(&oom_kill())), Ok(Record::OomKill(oom_kill())));
    assert_eq!(Record::parse(&bytes_of(&begin)), Ok(Record::ReclaimBegin(begin)));
    assert_eq!(Record::parse(&bytes_of(&end)), Ok(Record::ReclaimEnd(end)));
    assert_eq!(Record::parse(&bytes_of(&limit_write())), Ok(Record::LimitWrite(limit_write())));
    assert_eq!(Record::parse(&bytes_of(&cgroup_life())), Ok(Record::CgroupLife(cgroup_life())));
    assert_eq!(Record::parse(&bytes_of(&guard_verdict())), Ok(Record::GuardVerdict(guard_verdict())));
    assert_eq!(Record::parse(&bytes_of(&oom_end())), Ok(Record::OomEnd(oom_end())));
}

#[test]
fn numbers_without_a_meaning_are_refused() {
    let mut record = oom_kill();
    record.constraint = 4;
    let refused = RecordError::Field { kind: Kind::OomKill, field: "constraint", value: 4 };
    assert_eq!(Record::parse(&bytes_of(&record)), Err(refused));

    let mut record = limit_write();
    record.file = 0;
    let refused = RecordError::Field { kind: Kind::LimitWrite, field: "file", value: 0 };
    assert_eq!(Record::parse(&bytes_of(&record)), Err(refused));

    let mut record = limit_write();
    record.phase = 9;
    let refused = RecordError::Field { kind: Kind::LimitWrite, field: "phase", value: 9 };
    assert_eq!(Record::parse(&bytes_of(&record)), Err(refused));

    let mut record = cgroup_life();
    record.event = 3;
    let refused = RecordError::Field { kind: Kind::CgroupLife, field: "event", value: 3 };
    assert_eq!(Record::parse(&bytes_of(&record)), Err(refused));

    let changes: [(&'static str, Change); 5] = [
        ("file", |record| record.file = 99),
        ("mode", |record| record.mode = 99),
        ("verdict", |record| record.verdict = 99),
        ("reason", |record| record.reason = 99),
        ("source", |record| record.source = 99),
    ];
    for (field, change) in changes {
        let mut record = guard_verdict();
        change(&mut record);
        let refused = RecordError::Field { kind: Kind::GuardVerdict, field, value: 99 };
        assert_eq!(Record::parse(&bytes_of(&record)), Err(refused));
    }

    let mut bytes = bytes_of(&cgroup_life());
    bytes[0] = 0;
    assert_eq!(Record::parse(&bytes), Err(RecordError::UnknownKind { kind: 0 }));
}

#[test]
fn text_ends_at_nul_or_buffer() {
    assert_eq!(Text::<4>::new(b"ab\0c").as_bytes(), b"ab");
    assert_eq!(Text::<4>::new(b"abcdef").as_bytes(), b"abcd");
    assert_eq!(Text::<4>::EMPTY.as_bytes(), b"");
    assert_eq!(std::format!("{:?}", Text::<8>::new(b"\x1b[2J")), r#""\x1b[2J""#);
}

#[test]
fn cost_buckets_are_powers_of_two() {
    for (ns, bucket) in [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (1023, 9), (1024, 10), (u64::MAX, 31)] {
        assert_eq!(Cost::bucket(ns), bucket, "{ns} ns");
    }
}

#[test]
fn numbers_and_members_agree() {
    for (index, field) in Field::ALL.iter().enumerate() {
        assert_eq!(*field as usize, index);
    }
    for (index, program) in Program::ALL.iter().enumerate() {
        assert_eq!(*program as usize, index);
    }
    for kind in Kind::ALL {
        assert_eq!(Kind::from_number(*kind as u32), Some(*kind));
    }
}

#[test]
fn offsets_travel_as_bytes() {
    let mut offsets = Offsets::UNKNOWN;
    offsets.set(Field::OomChosen, 40);
    assert_eq!(offsets.get(Field::OomChosen), 40);
    let bytes = offsets.to_bytes();
    assert_eq!(bytes[4..8], 40u32.to_ne_bytes());
    assert_eq!(bytes_of(&offsets), bytes);
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Record::parse(&bytes);
    }

    #[test]
    fn a_right_head_never_reads_past_the_end(
        kind in 0u32..8, stated in 0u32..300, tail in proptest::collection::vec(any::<u8>(), 0..300)
    ) {
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(stated.to_ne_bytes());
        bytes.extend(&tail);
        if let Ok(record) = Record::parse(&bytes) {
            prop_assert_eq!(record.kind() as u32, kind);
            prop_assert_eq!(record.kind().size(), bytes.len());
        }
    }

    #[test]
    fn a_cut_record_is_refused(cut in 0usize..200) {
        prop_assert!(Record::parse(&bytes_of(&oom_kill())[..cut]).is_err());
    }

    #[test]
    fn the_first_kind_with_any_body_of_the_right_size_parses_or_names_a_field(
        body in proptest::collection::vec(any::<u8>(), 152)
    ) {
        let mut bytes = bytes_of(&Header::new(Kind::CgroupLife, 1));
        bytes.extend(&body);
        match Record::parse(&bytes) {
            Ok(Record::CgroupLife(record)) => prop_assert!(record.name.as_bytes().len() <= NAME_LEN),
            Ok(other) => prop_assert!(false, "{other:?}"),
            Err(RecordError::Field { field, .. }) => prop_assert_eq!(field, "event"),
            Err(other) => prop_assert!(false, "{other:?}"),
        }
    }
}
