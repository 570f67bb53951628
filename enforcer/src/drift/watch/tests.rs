use super::super::value::{parse, parse_expected};
use super::*;
use crate::probe::{Task, Text};

const SECOND: u64 = 1_000_000_000;

/// A write by process 7 (or another) that begins at `at_ns`.
fn begun(file: LimitKind, old: &str, at_ns: u64) -> LimitWrite {
    LimitWrite {
        at_ns,
        begin_ns: at_ns,
        cgroup: CgroupId::new(5),
        file,
        writer: Task { pid: 7, tgid: 7, comm: Text::new(b"runc"), cgroup: None },
        asked: Text::new(b"?"),
        old: parse(file, old).expect("a value"),
        end: None,
    }
}

fn ended(begun: &LimitWrite, new: &str, at_ns: u64) -> LimitWrite {
    let end = WriteEnd { new: parse(begun.file, new).expect("a value"), result: Ok(1) };
    LimitWrite { at_ns, end: Some(end), ..*begun }
}

fn about(expected: Option<&str>) -> About {
    let expected = expected.map(|text| parse_expected(text).expect("FILE=VALUE").1);
    About { cgroup: None, writer_cgroup: None, who: Who::Other, expected }
}

/// A whole write.
fn write(watch: &mut Watch, file: LimitKind, old: &str, new: &str, at_ns: u64, expected: Option<&str>) {
    let begin = begun(file, old, at_ns);
    watch.told(&begin, || Some(about(expected)));
    watch.told(&ended(&begin, new, at_ns + 1), || panic!("it is known from its begin"));
}

/// Cause and drift of the reports that are ended.
fn judged(reports: &[Report]) -> Vec<(Cause, Drift)> {
    let of = |report: &Report| match report.outcome {
        Outcome::Running => None,
        Outcome::Ended { cause, drift, .. } => Some((cause, drift)),
    };
    reports.iter().filter_map(of).collect()
}

#[test]
fn drift_is_told_once_a_value() {
    let mut watch = Watch::default();
    let expected = Some("cpu.max=10000 100000");
    for (n, (old, new, drift)) in [
        ("10000", "20000", Drift::New),
        ("20000", "10000", Drift::No),
        ("10000", "20000", Drift::Known),
        ("20000", "10000", Drift::No),
        ("10000", "30000", Drift::New),
    ]
    .into_iter()
    .enumerate()
    {
        write(&mut watch, LimitKind::CpuMax, old, new, n as u64 * SECOND, expected);
        let found = judged(&watch.take(n as u64 * SECOND + 2));
        assert_eq!(found.iter().map(|found| found.1).collect::<Vec<_>>(), [drift], "{old} -> {new}");
    }
    let life = |event, at_ns| CgroupLife {
        at_ns,
        cgroup: CgroupId::new(5),
        parent: CgroupId::new(1),
        level: 1,
        event,
        name: Text::new(b"a"),
    };
    watch.life(&life(LifeEvent::Rmdir, 8 * SECOND));
    watch.life(&life(LifeEvent::Mkdir, 9 * SECOND));
    write(&mut watch, LimitKind::CpuMax, "10000", "20000", 9 * SECOND + 5, expected);
    assert_eq!(judged(&watch.take(10 * SECOND)), [(Cause::Restart, Drift::New)], "in a new cgroup");
}

#[test]
fn swap_that_goes_with_memory_is_known_in_either_order() {
    for swap_first in [true, false] {
        let mut watch = Watch::default();
        let memory =
            |watch: &mut Watch, at_ns| write(watch, LimitKind::MemoryMax, "64Mi", "32Mi", at_ns, None);
        if !swap_first {
            memory(&mut watch, SECOND);
        }
        write(&mut watch, LimitKind::SwapMax, "4096", "0", SECOND + 100, Some("memory.swap.max=4096"));
        if swap_first {
            assert!(watch.take(SECOND + 200).is_empty(), "the memory write may follow");
            memory(&mut watch, SECOND + 300);
        }
        let found = judged(&watch.take(SECOND + 400));
        assert!(found.contains(&(Cause::SwapReset, Drift::New)), "{found:?}");
        assert_eq!(found.len(), 2);
    }
}

#[test]
fn swap_alone_is_told_when_no_memory_write_followed() {
    let mut watch = Watch::default();
    write(&mut watch, LimitKind::SwapMax, "4096", "0", SECOND, None);
    let due = watch.due_ns().expect("it waits");
    assert!(watch.take(due - 1).is_empty());
    assert_eq!(judged(&watch.take(due)), [(Cause::Unknown, Drift::No)]);
    // Long after it is another update.
    write(&mut watch, LimitKind::MemoryMax, "64Mi", "32Mi", 9 * SECOND, None);
    assert_eq!(judged(&watch.take(9 * SECOND + 9)), [(Cause::Unknown, Drift::No)]);
    assert_eq!(watch.due_ns(), None);
}

#[test]
fn nested_writes_are_told_apart() {
    let mut watch = Watch::default();
    let slow = begun(LimitKind::MemoryMax, "64Mi", SECOND);
    let mut quick = begun(LimitKind::MemoryMax, "16Mi", SECOND + 5);
    quick.writer.pid = 8;
    quick.writer.tgid = 8;
    watch.told(&slow, || Some(about(None)));
    watch.told(&quick, || Some(about(None)));
    watch.told(&ended(&quick, "96Mi", SECOND + 6), || panic!("known"));
    watch.told(&ended(&slow, "96Mi", SECOND + 9), || panic!("known"));
    let pids: Vec<_> = watch.take(SECOND + 10).iter().map(|report| report.write.writer.pid).collect();
    assert_eq!(pids, [8, 7], "in the order that they ended in");
}

/// Who finds the value meanwhile leaves it to the report, which has the writer.
#[test]
fn a_write_is_to_be_told_from_its_begin_until_it_is() {
    let mut watch = Watch::default();
    let begin = begun(LimitKind::MemoryMax, "64M", 100);
    let is_awaited = |watch: &Watch| watch.is_to_be_told(begin.cgroup, LimitKind::MemoryMax);
    assert!(!is_awaited(&watch));
    watch.told(&begin, || Some(about(Some("memory.max=64M"))));
    assert!(is_awaited(&watch) && !watch.is_to_be_told(begin.cgroup, LimitKind::CpuMax));
    watch.told(&ended(&begin, "48M", 200), || panic!("it is known from its begin"));
    assert!(is_awaited(&watch));
    assert_eq!(watch.take(300).len(), 1);
    assert!(!is_awaited(&watch));
    // One that hangs was told, and what it has done may be found.
    watch.told(&begun(LimitKind::MemoryMax, "48M", 400), || Some(about(None)));
    assert_eq!(watch.take(400 + 60 * SECOND).len(), 1);
    assert!(!is_awaited(&watch));
}

#[test]
fn a_write_that_never_returns_is_told_once() {
    let mut watch = Watch::default();
    watch.told(&begun(LimitKind::MemoryMax, "64Mi", SECOND), || Some(about(None)));
    assert_eq!(watch.due_ns(), Some(3 * SECOND));
    assert!(watch.take(3 * SECOND - 1).is_empty());
    let reports = watch.take(3 * SECOND);
    assert_eq!(reports.iter().map(|report| report.outcome).collect::<Vec<_>>(), [Outcome::Running]);
    assert!(watch.take(9 * SECOND).is_empty());
    assert_eq!(watch.due_ns(), None);
    // The same thread writes again: the end of the first was lost.
    write(&mut watch, LimitKind::MemoryMax, "32Mi", "16Mi", 10 * SECOND, None);
    assert_eq!(judged(&watch.take(11 * SECOND)).len(), 1);
}

#[test]
fn an_end_without_its_begin_is_told_as_well_and_others_writes_are_not() {
    let mut watch = Watch::default();
    let begin = begun(LimitKind::PidsMax, "max", SECOND);
    watch.told(&ended(&begin, "100", SECOND + 1), || Some(about(Some("pids.max=max"))));
    assert_eq!(judged(&watch.take(SECOND + 2)), [(Cause::Unknown, Drift::New)]);
    watch.told(&begin, || None);
    watch.told(&ended(&begin, "100", SECOND + 1), || None);
    assert!(watch.take(9 * SECOND).is_empty());
}

#[test]
fn it_is_bounded() {
    let mut watch = Watch::default();
    for pid in 0..5_000 {
        let mut begin = begun(LimitKind::MemoryMax, "64Mi", SECOND);
        begin.writer.pid = pid;
        watch.told(&begin, || Some(about(None)));
    }
    assert_eq!((watch.running.len(), watch.memory.len()), (RUNNING_MAX, MEMORY_MAX));
    for value in 0..100 {
        watch.drift(
            CgroupId::new(5),
            LimitKind::PidsMax,
            LimitValue::Count(Some(value)),
            value * 20 * SECOND,
        );
    }
    assert_eq!(watch.drifted[&(CgroupId::new(5), LimitKind::PidsMax)].values.len(), VALUES_MAX);
}

#[test]
fn another_value_each_time_is_no_flood() {
    let mut watch = Watch::default();
    let expected = Some("cpu.max=10000 100000");
    let mut told = Vec::new();
    // A thousand a second, for 30 seconds.
    for n in 0..30_000_u64 {
        let at_ns = SECOND + n * SECOND / 1000;
        let value = (20_000 + n).to_string();
        write(&mut watch, LimitKind::CpuMax, "10000", &value, at_ns, expected);
        let new = judged(&watch.take(at_ns + 2)).iter().filter(|found| found.1 == Drift::New).count();
        told.extend(std::iter::repeat_n(n, new));
    }
    assert_eq!(told.len(), VALUES_MAX + 2, "{told:?}");
    write(&mut watch, LimitKind::CpuMax, "10000", "20000", 50 * SECOND, expected);
    assert_eq!(judged(&watch.take(51 * SECOND)).len(), 1);
}
