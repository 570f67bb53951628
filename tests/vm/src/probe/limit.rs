//! Writes to limit files.

use super::{Told, own_cgroup};
use enforcer::probe::{Event, LimitKind, LimitValue, LimitWrite, Need, OomKill, WriteEnd};
use enforcer_gate::{Bytes, CgroupId, Limit, Micros};
use enforcer_vm_tests::scratch::Scratch;
use enforcer_vm_tests::workload::Workload;
use std::os::unix::process::ExitStatusExt;

fn writes(events: &[Event], cgroup: &Scratch) -> Vec<LimitWrite> {
    let id = CgroupId::new(cgroup.id());
    let of_it = |event: &Event| match event {
        Event::LimitWrite(write) if write.cgroup == id => Some(*write),
        Event::OomKill(_)
        | Event::ReclaimBegin(_)
        | Event::ReclaimEnd(_)
        | Event::LimitWrite(_)
        | Event::CgroupLife(_)
        | Event::Judged(_)
        | Event::OomEnd(_) => None,
    };
    events.iter().filter_map(of_it).collect()
}

/// The two events of the `n`th write (from 0).
fn wait_for(told: &mut Told, cgroup: &Scratch, n: usize) -> (LimitWrite, LimitWrite) {
    let writes = told.until("the write", |events| {
        Some(writes(events, cgroup)).filter(|writes| writes.len() >= 2 * (n + 1))
    });
    let (begin, end) = (writes[2 * n], writes[2 * n + 1]);
    assert_eq!(begin.end, None, "a write begins: {begin:#?}");
    assert_eq!((begin.begin_ns, begin.at_ns), (end.begin_ns, end.begin_ns), "one write");
    assert!(end.at_ns > begin.at_ns, "it ends after it began");
    assert_eq!(
        (begin.writer, begin.file, begin.asked, begin.old),
        (end.writer, end.file, end.asked, end.old)
    );
    (begin, end)
}

fn memory(bytes: u64) -> LimitValue {
    LimitValue::Memory(Limit::Bytes(Bytes::new(bytes)))
}

pub(super) fn memory_max() {
    let cgroup = Scratch::new("write");
    let mut told = Told::of([Need::LimitWrite(LimitKind::MemoryMax)]);
    cgroup.write("memory.max", "64M\n");
    let (begin, end) = wait_for(&mut told, &cgroup, 0);
    assert_eq!(begin.file, LimitKind::MemoryMax);
    assert_eq!(begin.writer.tgid, std::process::id());
    let comm = std::fs::read_to_string("/proc/thread-self/comm").expect("read our name");
    assert_eq!(begin.writer.comm.as_bytes(), comm.trim_end().as_bytes());
    assert_eq!(begin.writer.cgroup, Some(CgroupId::new(own_cgroup())));
    assert_eq!(begin.asked.as_bytes(), b"64M\n");
    assert_eq!(begin.old, LimitValue::Memory(Limit::Max));
    assert_eq!(end.end, Some(WriteEnd { new: memory(64 << 20), result: Ok(4) }));

    // The kernel rounds down to a page, and the value in force is told.
    cgroup.write("memory.max", "67108863");
    let (_, end) = wait_for(&mut told, &cgroup, 1);
    assert_eq!(end.old, memory(64 << 20));
    assert_eq!(end.end, Some(WriteEnd { new: memory((64 << 20) - 4096), result: Ok(8) }));

    cgroup.write("memory.max", "max");
    let (_, end) = wait_for(&mut told, &cgroup, 2);
    assert_eq!(end.end, Some(WriteEnd { new: LimitValue::Memory(Limit::Max), result: Ok(3) }));
}

pub(super) fn every_file() {
    let cgroup = Scratch::new("files");
    let controllers = format!("{}/cgroup.subtree_control", enforcer_vm_tests::scratch::MOUNT);
    std::fs::write(controllers, "+cpu +cpuset +pids").expect("give the controllers");
    let mut told = Told::of(Need::ALL.iter().copied().filter(|need| matches!(need, Need::LimitWrite(_))));
    let no_cpu = LimitValue::Cpu { quota: None, period: Micros::new(100_000) };
    let half_cpu = LimitValue::Cpu { quota: Some(Micros::new(25_000)), period: Micros::new(50_000) };
    let files = [
        (LimitKind::MemoryMax, "32M", LimitValue::Memory(Limit::Max), memory(32 << 20)),
        (LimitKind::MemoryHigh, "24M", LimitValue::Memory(Limit::Max), memory(24 << 20)),
        (LimitKind::SwapMax, "8M", LimitValue::Memory(Limit::Max), memory(8 << 20)),
        (LimitKind::MemoryMin, "1M", memory(0), memory(1 << 20)),
        (LimitKind::MemoryLow, "2M", memory(0), memory(2 << 20)),
        (LimitKind::CpuMax, "25000 50000", no_cpu, half_cpu),
        (LimitKind::CpuWeight, "10000", LimitValue::Weight(100), LimitValue::Weight(10_000)),
        (LimitKind::CpusetCpus, "1", LimitValue::Cpus(0), LimitValue::Cpus(0b10)),
        (LimitKind::PidsMax, "4194304", LimitValue::Count(None), LimitValue::Count(Some(4_194_304))),
    ];
    assert_eq!(files.len(), LimitKind::ALL.len(), "every file");
    for (n, (file, asked, old, new)) in files.into_iter().enumerate() {
        cgroup.write(file.name(), asked);
        let (begin, end) = wait_for(&mut told, &cgroup, n);
        assert_eq!((begin.file, begin.old), (file, old), "{}", file.name());
        assert_eq!(end.asked.as_bytes(), asked.as_bytes());
        let written = end.end.expect("it ended");
        assert_eq!(written.new, new, "{}", file.name());
        // `cpu.weight` is the one whose function is not given the text.
        let taken = if file == LimitKind::CpuWeight { 0 } else { asked.len() as u64 };
        assert_eq!(written.result, Ok(taken), "{}", file.name());
    }
    // The function behind cpuset.cpus serves cpuset.mems as well, which is not told.
    cgroup.write("cpuset.mems", "0");
    cgroup.write("cpu.weight", "59");
    let (_, end) = wait_for(&mut told, &cgroup, LimitKind::ALL.len());
    assert_eq!(end.end.expect("it ended").new, LimitValue::Weight(59), "the kernel keeps a near one");
    cgroup.write("pids.max", "max");
    let (_, end) = wait_for(&mut told, &cgroup, LimitKind::ALL.len() + 1);
    assert_eq!(end.end.expect("it ended").new, LimitValue::Count(None));
}

pub(super) fn refused() {
    let cgroup = Scratch::new("refused");
    let mut told = Told::of([Need::LimitWrite(LimitKind::MemoryHigh)]);
    let asked = "\u{1b}[2Jabcdefghijklmnopqrstuvwxyz0123456789";
    let error = std::fs::write(cgroup.path().join("memory.high"), asked).expect_err("it is no number");
    assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    let (begin, end) = wait_for(&mut told, &cgroup, 0);
    assert_eq!(begin.asked.as_bytes(), &asked.as_bytes()[..31], "cut");
    assert_eq!(format!("{:?}", begin.asked), r#""\x1b[2Jabcdefghijklmnopqrstuvwxyz0""#, "escaped");
    let unchanged = LimitValue::Memory(Limit::Max);
    assert_eq!(end.end, Some(WriteEnd { new: unchanged, result: Err(libc::EINVAL) }));
}

pub(super) fn kills_inside() {
    let cgroup = Scratch::new("inside");
    cgroup.write("memory.swap.max", "0");
    let mut workload = Workload::run(&cgroup, "anon --size 16Mi");
    let mut told = Told::of([Need::OomKill, Need::LimitWrite(LimitKind::MemoryMax)]);
    cgroup.write("memory.max", "4M");
    assert_eq!(workload.wait().signal(), Some(9), "killed");
    let (begin, end) = wait_for(&mut told, &cgroup, 0);
    let kill: OomKill = told.until("the kill", |events| {
        events.iter().find_map(|event| match event {
            Event::OomKill(kill) if kill.victim.tgid == workload.pid() => Some(*kill),
            Event::OomKill(_)
            | Event::ReclaimBegin(_)
            | Event::ReclaimEnd(_)
            | Event::LimitWrite(_)
            | Event::CgroupLife(_)
            | Event::Judged(_)
            | Event::OomEnd(_) => None,
        })
    });
    assert!(begin.at_ns < kill.at_ns && kill.at_ns < end.at_ns, "the kill falls into the write");
    assert_eq!(kill.trigger.pid, end.writer.pid, "the writer is the trigger");
}
