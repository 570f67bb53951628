//! What is refused, what is let through, and why.

use super::{Armed, BUSY, MIB, NEAR, Tenant, enforce, id, opened, wide, write};
use enforcer::guard::{Cover, Guard, GuardError, GuardMode, GuardOptions, Reason, Source, Verdict};
use enforcer::probe::LimitKind;
use enforcer_gate::{Bytes, CgroupId, Limit};
use enforcer_vm_tests::scratch::Scratch;
use enforcer_vm_tests::workload::Workload;
use std::time::{Duration, Instant};

pub(super) fn refused() {
    let tenant = Tenant::new("refused");
    let cgroup = &tenant.cgroup;
    let mut armed = Armed::over(cgroup, GuardMode::Enforce);
    assert_eq!(write(cgroup, "memory.max", b"16M\n"), BUSY);
    assert_eq!((cgroup.limit("memory.max"), cgroup.kills()), ((64 * MIB).to_string(), 0));
    let judged = armed.one("a limit under usage");
    assert_eq!((judged.verdict, judged.reason), (Verdict::Denied, Reason::NoLease));
    let how = (judged.file, judged.mode, judged.source, judged.syscall);
    assert_eq!(how, (LimitKind::MemoryMax, GuardMode::Enforce, Source::Write, 1));
    assert_eq!(judged.cgroup, Some(id(cgroup)));
    assert_eq!(judged.asked, Some(Limit::Bytes(Bytes::from_mib(16))));
    assert_eq!(judged.limit, Limit::Bytes(Bytes::from_mib(64)));
    assert_eq!((judged.margin, judged.lease), (Bytes::from_mib(1), None));
    assert_eq!(judged.text.as_bytes(), b"16M\n");
    assert_eq!(judged.writer.tgid, std::process::id());
    assert!(judged.usage >= Bytes::from_mib(24) && judged.usage < Bytes::from_mib(32), "{judged:?}");
    assert_eq!(armed.count(Verdict::Denied, Reason::NoLease), 1);
}

/// cgroup v1 answered EBUSY to limit 27033 where 270336 were in use (and 6082560 at the peak); v2 kills.
pub(super) fn as_cgroup_v1_did() {
    let cgroup = Scratch::new("v1");
    cgroup.write_if_there("memory.swap.max", "0");
    let mut workload = Workload::run(&cgroup, "anon --size 256Ki");
    let _armed = Armed::over(&cgroup, GuardMode::Enforce);
    assert_eq!(write(&cgroup, "memory.max", b"27033"), BUSY);
    assert_eq!((cgroup.limit("memory.max"), cgroup.kills()), ("max".into(), 0));
    assert!(workload.alive(), "it lives on");
}

pub(super) fn safe() {
    let tenant = Tenant::new("safe");
    let cgroup = &tenant.cgroup;
    let mut armed = Armed::over(cgroup, GuardMode::Enforce);
    for (value, reason) in [
        ("64M", Reason::NotLower),
        ("67108864", Reason::NotLower),
        ("128M", Reason::NotLower),
        ("max", Reason::NotLower),
        ("48M", Reason::AboveUsage),
    ] {
        let before = armed.count(Verdict::Allowed, reason);
        assert_eq!(write(cgroup, "memory.max", value.as_bytes()), Ok(()), "{value}");
        assert_eq!(armed.count(Verdict::Allowed, reason), before + 1, "{value}");
    }
    assert_eq!(armed.told(), [], "what is plainly safe is only counted");
    assert_eq!(write(cgroup, "memory.max", b"12x"), Err(libc::EINVAL), "the kernel's own answer");
    let judged = armed.one("no value");
    assert_eq!((judged.verdict, judged.reason, judged.asked), (Verdict::Allowed, Reason::NoValue, None));
}

pub(super) fn audit() {
    let tenant = Tenant::new("audit");
    let mut armed = Armed::new();
    armed.cover_with(&tenant.cgroup, wide);
    assert_eq!(write(&tenant.cgroup, "memory.max", NEAR), Ok(()));
    assert_eq!(tenant.cgroup.limit("memory.max"), (32 * MIB).to_string());
    let judged = armed.one("an audited limit");
    assert_eq!((judged.verdict, judged.reason), (Verdict::WouldDeny, Reason::NoLease));
    assert_eq!(tenant.cgroup.kills(), 0);
}

pub(super) fn heartbeat() {
    let tenant = Tenant::new("heartbeat");
    let cgroup = &tenant.cgroup;
    let stale = Duration::from_secs(2);
    let mut armed = Armed::with(GuardOptions { stale, ..GuardOptions::default() });
    armed.cover_with(cgroup, enforce);
    let beat = loop {
        let beat = Instant::now();
        armed.guard.beat().expect("beat");
        let result = write(cgroup, "memory.max", NEAR);
        let verdicts: Vec<_> = armed.told().iter().map(|judged| (judged.verdict, judged.reason)).collect();
        if beat.elapsed() < stale {
            assert_eq!((result, verdicts.as_slice()), (BUSY, &[(Verdict::Denied, Reason::NoLease)][..]));
            break beat;
        }
        // A slow machine: that may have been too late.
        cgroup.write("memory.max", "64M");
        armed.told();
    };
    let before = armed.count(Verdict::Disarmed, Reason::NoLease);
    // Only time makes it stale.
    std::thread::sleep(stale.saturating_sub(beat.elapsed()) + Duration::from_millis(200));
    assert_eq!(write(cgroup, "memory.max", NEAR), Ok(()));
    let verdicts: Vec<_> = armed.told().iter().map(|judged| (judged.verdict, judged.reason)).collect();
    assert_eq!(verdicts, [(Verdict::Disarmed, Reason::NoLease)]);
    assert_eq!(armed.count(Verdict::Disarmed, Reason::NoLease), before + 1);
    cgroup.write("memory.max", "64M");
    armed.guard.beat().expect("beat");
    assert_eq!(write(cgroup, "memory.max", NEAR), BUSY, "a beat arms it again");
    armed.guard.disarm().expect("disarm");
    assert_eq!(write(cgroup, "memory.max", NEAR), Ok(()), "disarmed on purpose");
}

pub(super) fn empty_cgroups() {
    let parent = Scratch::new("pod");
    let child = parent.child("container");
    let mut armed = Armed::over(&parent, GuardMode::Enforce);
    armed.cover(&child, GuardMode::Enforce);
    for value in ["16M", "4096", "0"] {
        assert_eq!(write(&parent, "memory.max", value.as_bytes()), Ok(()), "no process yet: {value}");
        assert_eq!(write(&child, "memory.max", value.as_bytes()), Ok(()), "no process yet: {value}");
    }
    assert_eq!(armed.count(Verdict::Allowed, Reason::Empty), 6);
    for cgroup in [&parent, &child] {
        cgroup.write("memory.max", "max");
        cgroup.write_if_there("memory.swap.max", "0");
    }
    let _workload = Workload::run(&child, "anon --size 24Mi");
    // The pod's folder holds no process itself.
    assert_eq!(parent.pids(), [] as [u32; 0]);
    for cgroup in [&parent, &child] {
        assert_eq!(write(cgroup, "memory.max", b"16M"), BUSY);
    }
    assert_eq!(armed.count(Verdict::Denied, Reason::NoLease), 2);
}

pub(super) fn below() {
    let pods = Scratch::new("pods");
    let mut armed = Armed::new();
    armed.cover_with(&pods, |cover| {
        enforce(cover);
        (cover.own, cover.below) = (false, true);
    });
    // Made after the guard, two levels below, with a name that means to confuse.
    let pod = pods.child("memory.max.slice");
    let container = pod.child("a\t\u{1b}[2J\u{202e}memory.max");
    pods.write("memory.max", "64M");
    container.write("memory.max", "64M");
    let _workload = Workload::run(&container, "anon --size 24Mi");
    assert_eq!(write(&container, "memory.max", NEAR), BUSY);
    assert_eq!(armed.one("below").cgroup, Some(id(&container)));
    assert_eq!(write(&pod, "memory.max", NEAR), BUSY);
    armed.one("between");
    assert_eq!(write(&pods, "memory.max", NEAR), Ok(()), "it is not below itself");
    assert_eq!(armed.told(), []);
    // The nearest cover counts.
    armed.cover_with(&container, |cover| cover.mode = GuardMode::Off);
    assert_eq!(write(&container, "memory.max", NEAR), Ok(()));
    armed.guard.uncover(id(&container));
    container.write("memory.max", "64M");
    assert_eq!(write(&container, "memory.max", NEAR), BUSY);
}

pub(super) fn files() {
    let tenant = Tenant::new("files");
    let cgroup = &tenant.cgroup;
    let mut armed = Armed::new();
    armed.cover_with(cgroup, |cover| {
        cover.mode = GuardMode::Enforce;
        cover.files = vec![LimitKind::MemoryHigh];
    });
    assert_eq!(write(cgroup, "memory.high", b"16M"), BUSY, "it would throttle");
    let judged = armed.one("memory.high");
    assert_eq!((judged.file, judged.limit), (LimitKind::MemoryHigh, Limit::Max));
    assert_eq!(write(cgroup, "memory.high", b"48M"), Ok(()));
    assert_eq!(write(cgroup, "memory.high", b"47M"), Ok(()));
    armed.cover_with(cgroup, |cover| cover.files = vec![]);
    assert_eq!(write(cgroup, "memory.high", b"40M"), Ok(()));
    assert_eq!(armed.told(), []);
}

/// Whoever writes anything else is not even counted.
pub(super) fn others() {
    let tenant = Tenant::new("others");
    let other = Tenant::new("unguarded");
    let armed = Armed::over(&tenant.cgroup, GuardMode::Enforce);
    assert_eq!(write(&other.cgroup, "memory.max", b"48M"), Ok(()));
    for (file, value) in
        [("memory.low", "1M"), ("memory.min", "4096"), ("memory.oom.group", "0"), ("cgroup.freeze", "0")]
    {
        assert_eq!(write(&tenant.cgroup, file, value.as_bytes()), Ok(()), "{file}");
    }
    let folder = tempfile::tempdir_in("/data").expect("a folder");
    let plain = folder.path().join("memory.max");
    std::fs::write(&plain, "4096").expect("a plain file of that name");
    assert_eq!(tenant.cgroup.limit("memory.max"), (64 * MIB).to_string(), "a read");
    assert_eq!(armed.guard.counts().expect("read the counters"), []);
}

/// More writers at once than there is room for their values.
pub(super) fn crowd() {
    const WRITERS: usize = 300;
    const EACH: usize = 10;
    let tenant = Tenant::new("crowd");
    let cgroup = &tenant.cgroup;
    let armed = Armed::over(cgroup, GuardMode::Enforce);
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                for _ in 0..EACH {
                    assert_eq!(write(cgroup, "memory.max", b"16M"), BUSY);
                }
            });
        }
    });
    let denied =
        armed.count(Verdict::Denied, Reason::NoLease) + armed.count(Verdict::Denied, Reason::Unavailable);
    assert_eq!(denied, (WRITERS * EACH) as u64);
    assert_eq!((cgroup.limit("memory.max"), cgroup.kills()), ((64 * MIB).to_string(), 0));
}

pub(super) fn sight() {
    let tenant = Tenant::new("sight");
    let mut armed = Armed::new();
    armed.guard.look_at(&opened(&tenant.cgroup)).expect("it sees what the files say");
    assert_eq!(tenant.cgroup.limit("memory.max"), (64 * MIB).to_string(), "nothing was set");
    assert_eq!(write(&tenant.cgroup, "memory.max", b"48M"), Ok(()));
    assert_eq!(armed.told(), [], "it guards nothing yet");
}

pub(super) fn bounded() {
    let mut guard = Guard::load(GuardOptions { guarded_max: 1, ..GuardOptions::default() }).expect("load it");
    let cover = Cover {
        mode: GuardMode::Audit,
        files: vec![LimitKind::MemoryMax],
        margin: Bytes::ZERO,
        own: true,
        below: false,
    };
    guard.cover(CgroupId::new(1), &cover).expect("there is room for one");
    match guard.cover(CgroupId::new(2), &cover) {
        Err(GuardError::Full { guarded_max: 1 }) => {}
        other => panic!("a second is one too many: {other:?}"),
    }
    guard.uncover(CgroupId::new(1));
    guard.cover(CgroupId::new(2), &cover).expect("there is room again");
}

/// A ring buffer of one page that nobody reads: what is in it and what was dropped make up all verdicts.
pub(super) fn drops() {
    const WRITES: usize = 100;
    let tenant = Tenant::new("drops");
    let mut armed = Armed::with(GuardOptions { ring_bytes: 4096, ..GuardOptions::default() });
    armed.cover_with(&tenant.cgroup, enforce);
    armed.guard.beat().expect("beat");
    for _ in 0..WRITES {
        assert_eq!(write(&tenant.cgroup, "memory.max", NEAR), BUSY);
    }
    let kept = armed.told().len();
    assert!(kept > 10 && kept < WRITES, "{kept}");
    assert_eq!(armed.guard.dropped().expect("read the drops"), (WRITES - kept) as u64);
    assert_eq!(armed.count(Verdict::Denied, Reason::NoLease), WRITES as u64, "all are counted");
}
