//! Sessions on real cgroups: each state, each way to die.

use crate::process::{Holder, Other};
use enforcer::{
    actuate::{
        ActuateError, RecoveredRun, RecoveredValue, Session, SessionOptions, StateDir, WriteMethod, recover,
        write_method,
    },
    cgroup::{Cgroup, Mount},
};
use enforcer_gate::{Bytes, Limit, LimitFile, OutcomeKind};
use enforcer_vm_tests::{
    case::{Case, Tier, at_least, nothing},
    scratch::Scratch,
    workload::Workload,
};
use nix::sys::signal::Signal;
use std::{
    fs,
    io::{BufRead as _, stdin},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

const MIB: u64 = 1024 * 1024;
const NO_CHECK: Bytes = Bytes::new(u64::MAX);
const DEADLINE: Duration = Duration::from_secs(2);
/// The hidden argument of the process that is killed.
const HOLDER: &str = "__hold-session";

pub(crate) fn cases() -> Vec<Case> {
    let case = |name, tier, run| Case { name, tier, needs: nothing, run };
    vec![
        case(
            "actuate::a_kept_shrink_is_whole_and_leaves_nothing",
            Tier::Smoke,
            a_kept_shrink_is_whole_and_leaves_nothing as fn(),
        ),
        case("actuate::an_unkept_one_is_undone", Tier::Full, an_unkept_one_is_undone as fn()),
        case("actuate::a_dropped_session_is_undone", Tier::Full, a_dropped_session_is_undone as fn()),
        case(
            "actuate::kill_9_in_every_state_leaves_all_as_found",
            Tier::Smoke,
            kill_9_in_every_state_leaves_all_as_found as fn(),
        ),
        case(
            "actuate::kill_9_at_any_moment_leaves_all_as_found",
            Tier::Full,
            kill_9_at_any_moment_leaves_all_as_found as fn(),
        ),
        case(
            "actuate::both_killed_is_settled_by_recover",
            Tier::Smoke,
            both_killed_is_settled_by_recover as fn(),
        ),
        case(
            "actuate::a_raise_after_the_crash_is_not_undone",
            Tier::Full,
            a_raise_after_the_crash_is_not_undone as fn(),
        ),
        case(
            "actuate::the_restorer_acts_at_its_deadline",
            Tier::Full,
            the_restorer_acts_at_its_deadline as fn(),
        ),
        case(
            "actuate::nothing_is_lowered_without_a_restorer",
            Tier::Full,
            nothing_is_lowered_without_a_restorer as fn(),
        ),
        case("actuate::somebody_elses_value_stays", Tier::Full, somebody_elses_value_stays as fn()),
        case(
            "actuate::a_cgroup_that_vanishes_is_gone_in_every_call",
            Tier::Smoke,
            a_cgroup_that_vanishes_is_gone_in_every_call as fn(),
        ),
        case(
            "actuate::a_commit_over_usage_kills_nobody",
            Tier::Smoke,
            a_commit_over_usage_kills_nobody as fn(),
        ),
        case(
            "actuate::a_commit_against_an_allocator_kills_nobody",
            Tier::Smoke,
            a_commit_against_an_allocator_kills_nobody as fn(),
        ),
        case(
            "actuate::the_write_method_fits_the_kernel",
            Tier::Smoke,
            the_write_method_fits_the_kernel as fn(),
        ),
        case(
            "actuate::a_blocked_brake_is_lifted_by_a_restore",
            Tier::Smoke,
            a_blocked_brake_is_lifted_by_a_restore as fn(),
        ),
        case(
            "actuate::a_blocked_reclaim_is_interrupted_by_a_restore",
            Tier::Full,
            a_blocked_reclaim_is_interrupted_by_a_restore as fn(),
        ),
        case("actuate::reclaim_says_when_it_is_partial", Tier::Full, reclaim_says_when_it_is_partial as fn()),
        case(
            "actuate::nothing_is_lowered_after_a_restore",
            Tier::Full,
            nothing_is_lowered_after_a_restore as fn(),
        ),
        case(
            "actuate::overlapping_sessions_are_refused",
            Tier::Full,
            overlapping_sessions_are_refused as fn(),
        ),
        case(
            "actuate::a_full_or_read_only_state_dir_changes_nothing",
            Tier::Full,
            a_full_or_read_only_state_dir_changes_nothing as fn(),
        ),
    ]
}

/// A cgroup with limits set, and a state directory.
struct Rig {
    group: Scratch,
    state_path: tempfile::TempDir,
    state: StateDir,
}

impl Rig {
    /// `memory.max` 256 MiB and `memory.high` 200 MiB, no swap.
    fn new() -> Self {
        let group = Scratch::new("actuate");
        group.write("memory.max", "256M");
        group.write("memory.high", "200M");
        group.write_if_there("memory.swap.max", "0");
        let state_path = tempfile::tempdir_in("/run").unwrap();
        let state = StateDir::open(state_path.path()).unwrap();
        Self { group, state_path, state }
    }

    fn cgroup(&self) -> Cgroup {
        Cgroup::open(self.group.path()).unwrap()
    }

    fn workload(&self) -> Steps {
        Steps(Workload::run(&self.group, "steps"))
    }

    fn number(&self, file: &str) -> u64 {
        self.group.limit(file).parse().unwrap()
    }

    fn begin(&self) -> Session {
        self.begin_with(&SessionOptions::default()).unwrap()
    }

    fn begin_with(&self, options: &SessionOptions) -> Result<Session, ActuateError> {
        Session::begin(&self.cgroup(), &self.state, options)
    }

    fn holder(&self) -> Holder {
        let path = |path: &Path| path.to_str().unwrap().to_owned();
        Holder::start(&[HOLDER, &path(self.group.path()), &path(self.state_path.path())])
    }

    fn limits(&self) -> (u64, u64) {
        (self.number("memory.high"), self.number("memory.max"))
    }

    /// A cgroup below; it goes with the rig.
    fn below(&self, name: &str) -> PathBuf {
        let mut path = self.group.path().to_owned();
        for part in Path::new(name) {
            fs::write(path.join("cgroup.subtree_control"), "+memory").unwrap();
            path.push(part);
            if !path.exists() {
                fs::create_dir(&path).unwrap();
            }
        }
        path
    }

    /// Kills what is in it and removes it.
    fn remove(&self) {
        self.group.clear();
        fs::remove_dir(self.group.path()).unwrap();
    }

    #[track_caller]
    fn assert_as_found(&self) {
        assert_eq!(self.limits(), (200 * MIB, 256 * MIB));
    }

    fn journals(&self) -> usize {
        let names = fs::read_dir(self.state_path.path()).unwrap();
        names.filter(|name| name.as_ref().unwrap().path().extension().is_some_and(|e| e == "journal")).count()
    }
}

/// A workload that is led step by step.
struct Steps(Workload);

impl Steps {
    #[track_caller]
    fn step(&mut self, line: &str) {
        let answer = self.ask(line);
        assert!(answer.starts_with("ok"), "{line}: {answer:?}");
    }

    /// The answer is empty when it is dead.
    fn ask(&mut self, line: &str) -> String {
        self.0.tell(line);
        self.0.line()
    }

    fn is_alive(&mut self) -> bool {
        self.0.alive()
    }
}

fn mib(n: u64) -> Bytes {
    Bytes::from_mib(n)
}

fn limit(n: u64) -> Limit {
    Limit::Bytes(mib(n))
}

fn a_kept_shrink_is_whole_and_leaves_nothing() {
    let rig = Rig::new();
    let mut workload = rig.workload();
    workload.step("grow 20Mi");
    let mut session = rig.begin();
    assert_eq!(rig.journals(), 1);
    let restorer = Other::new(session.restorer_pid());
    assert_eq!(session.set_brake(limit(90)), OutcomeKind::Done);
    assert_eq!(rig.limits(), (90 * MIB, 256 * MIB));
    assert!(matches!(session.reclaim(mib(1)), OutcomeKind::Reclaimed { .. }));
    assert_eq!(session.commit(mib(100), mib(95), DEADLINE), OutcomeKind::Done);
    assert_eq!(rig.limits(), (90 * MIB, 100 * MIB));
    assert_eq!(session.restore_handle().restore(Some(limit(200)), None), OutcomeKind::Done);
    assert_eq!(rig.limits(), (200 * MIB, 100 * MIB));
    session.finish(true).unwrap();
    restorer.wait();
    assert_eq!((rig.limits(), rig.journals()), ((200 * MIB, 100 * MIB), 0));
    assert_eq!(recover(&rig.state), []);
    assert!(workload.is_alive());
}

fn an_unkept_one_is_undone() {
    let rig = Rig::new();
    let mut session = rig.begin();
    session.set_brake(limit(90));
    session.commit(mib(100), mib(95), DEADLINE);
    assert_eq!(rig.limits(), (90 * MIB, 100 * MIB));
    session.finish(false).unwrap();
    rig.assert_as_found();
    assert_eq!(rig.journals(), 0);
}

fn a_dropped_session_is_undone() {
    let rig = Rig::new();
    let mut session = rig.begin();
    session.set_brake(limit(90));
    session.set_brake(limit(80));
    session.commit(mib(100), mib(95), DEADLINE);
    assert_eq!(rig.limits(), (80 * MIB, 100 * MIB));
    drop(session);
    rig.assert_as_found();
    assert_eq!(rig.journals(), 0);
}

/// The states in which a holder can be killed, as what it is told to do before.
const STATES: [&[&str]; 5] = [
    &[],
    &["brake 90"],
    &["brake 90", "brake 80"],
    &["brake 90", "commit 100"],
    &["brake 90", "commit 100", "commit 95"],
];

fn kill_9_in_every_state_leaves_all_as_found() {
    for state in STATES {
        let rig = Rig::new();
        let mut holder = rig.holder();
        let restorer = Other::new(holder.line().parse().unwrap());
        for step in state {
            assert_eq!(holder.ask(step), "Done", "{step}");
        }
        holder.kill();
        restorer.wait();
        rig.assert_as_found();
        assert_eq!(recover(&rig.state), [], "{state:?}");
    }
}

/// The holder goes through a whole shrink again and again while it is killed at a moment that nobody chose.
fn kill_9_at_any_moment_leaves_all_as_found() {
    let rig = Rig::new();
    let mut seen = 0;
    for round in 0..40_u64 {
        let mut holder = rig.holder();
        let restorer = Other::new(holder.line().parse().unwrap());
        holder.tell("cycle");
        assert_eq!(holder.line(), "cycling");
        // The moment is the machine's: so many readings of a file later.
        for _ in 0..round * 37 % 400 {
            seen += u64::from(rig.limits() != (200 * MIB, 256 * MIB));
        }
        holder.kill();
        restorer.wait();
        rig.assert_as_found();
        assert_eq!(recover(&rig.state), []);
    }
    assert!(seen > 0, "no round was killed with a limit down");
}

fn both_killed_is_settled_by_recover() {
    for state in &STATES[1..] {
        let rig = Rig::new();
        let mut holder = rig.holder();
        let restorer = Other::new(holder.line().parse().unwrap());
        for step in *state {
            assert_eq!(holder.ask(step), "Done", "{step}");
        }
        assert!(matches!(recover(&rig.state)[..], [ref run] if run.result == RecoveredRun::Running));
        restorer.signal(Signal::SIGKILL);
        holder.kill();
        restorer.wait();
        assert_ne!(rig.limits(), (200 * MIB, 256 * MIB));
        let recovered = recover(&rig.state);
        let [run] = &recovered[..] else { panic!("{recovered:?}") };
        let RecoveredRun::Files(files) = &run.result else { panic!("{run:?}") };
        assert!(files.iter().all(|file| file.result == RecoveredValue::Restored), "{files:?}");
        rig.assert_as_found();
        assert_eq!(recover(&rig.state), []);
    }
}

fn a_raise_after_the_crash_is_not_undone() {
    // Both are dead, and somebody raises before recovery.
    let rig = Rig::new();
    let mut holder = rig.holder();
    let restorer = Other::new(holder.line().parse().unwrap());
    assert_eq!(holder.ask("commit 100"), "Done");
    restorer.signal(Signal::SIGKILL);
    holder.kill();
    restorer.wait();
    rig.group.write("memory.max", "512M");
    let recovered = recover(&rig.state);
    let RecoveredRun::Files(files) = &recovered[0].result else { panic!("{recovered:?}") };
    assert_eq!(files[0].result, RecoveredValue::Superseded { by: limit(512) });
    assert_eq!(rig.number("memory.max"), 512 * MIB);

    // The restorer lives, but somebody raises before it can act.
    let rig = Rig::new();
    let mut holder = rig.holder();
    let restorer = Other::new(holder.line().parse().unwrap());
    assert_eq!(holder.ask("brake 90"), "Done");
    assert_eq!(holder.ask("commit 100"), "Done");
    restorer.signal(Signal::SIGSTOP);
    holder.kill();
    rig.group.write("memory.max", "max");
    restorer.signal(Signal::SIGCONT);
    restorer.wait();
    assert_eq!(rig.group.limit("memory.max"), "max");
    assert_eq!(rig.number("memory.high"), 200 * MIB);
}

fn the_restorer_acts_at_its_deadline() {
    let rig = Rig::new();
    let options = SessionOptions { deadline: Duration::from_secs(2), ..SessionOptions::default() };
    let mut session = rig.begin_with(&options).unwrap();
    let restorer = Other::new(session.restorer_pid());
    assert_eq!(session.set_brake(limit(90)), OutcomeKind::Done);
    restorer.wait();
    rig.assert_as_found();
    assert!(matches!(session.set_brake(limit(80)), OutcomeKind::Failed { .. }));
    rig.assert_as_found();
    session.finish(false).unwrap();
}

fn nothing_is_lowered_without_a_restorer() {
    let rig = Rig::new();
    let mut session = rig.begin();
    assert_eq!(session.set_brake(limit(90)), OutcomeKind::Done);
    let restorer = Other::new(session.restorer_pid());
    restorer.signal(Signal::SIGKILL);
    restorer.wait();
    assert!(matches!(session.set_brake(limit(80)), OutcomeKind::Failed { .. }));
    assert!(matches!(session.commit(mib(100), mib(95), DEADLINE), OutcomeKind::Failed { .. }));
    assert_eq!(rig.limits(), (90 * MIB, 256 * MIB));
    session.finish(false).unwrap();
    rig.assert_as_found();
}

fn somebody_elses_value_stays() {
    let rig = Rig::new();
    let mut session = rig.begin();
    assert_eq!(session.set_brake(limit(90)), OutcomeKind::Done);
    assert_eq!(session.commit(mib(100), mib(95), DEADLINE), OutcomeKind::Done);
    rig.group.write("memory.high", "150M");
    rig.group.write("memory.max", "512M");
    let superseded = |file, n| OutcomeKind::Superseded { file, found: limit(n) };
    assert_eq!(session.set_brake(limit(80)), superseded(LimitFile::High, 150));
    assert_eq!(session.commit(mib(90), mib(85), DEADLINE), superseded(LimitFile::Max, 512));
    let handle = session.restore_handle();
    assert_eq!(handle.restore(Some(limit(200)), None), superseded(LimitFile::High, 150));
    assert_eq!(handle.restore(None, Some(limit(256))), superseded(LimitFile::Max, 512));
    session.finish(false).unwrap();
    assert_eq!(rig.limits(), (150 * MIB, 512 * MIB));
}

fn a_cgroup_that_vanishes_is_gone_in_every_call() {
    let rig = Rig::new();
    let mut session = rig.begin();
    assert_eq!(session.set_brake(limit(90)), OutcomeKind::Done);
    let handle = session.restore_handle();
    let cgroup = rig.cgroup();
    rig.remove();
    assert_eq!(session.set_brake(limit(80)), OutcomeKind::Gone);
    assert_eq!(session.reclaim(mib(1)), OutcomeKind::Gone);
    assert_eq!(session.commit(mib(100), mib(95), DEADLINE), OutcomeKind::Gone);
    assert_eq!(handle.restore(Some(limit(200)), Some(limit(256))), OutcomeKind::Gone);
    session.finish(false).unwrap();
    assert_eq!(rig.journals(), 0);
    let begun = Session::begin(&cgroup, &rig.state, &SessionOptions::default());
    assert!(matches!(begun, Err(ActuateError::Cgroup(error)) if error.is_gone()));

    // Killed, and gone when somebody looks.
    let rig = Rig::new();
    let mut holder = rig.holder();
    let restorer = Other::new(holder.line().parse().unwrap());
    assert_eq!(holder.ask("brake 90"), "Done");
    restorer.signal(Signal::SIGKILL);
    holder.kill();
    restorer.wait();
    rig.remove();
    assert!(matches!(recover(&rig.state)[..], [ref run] if run.result == RecoveredRun::Gone));
}

/// Usage is over the limit when the write comes, as if a process had grown since the check. What the kernel does by
/// itself is shown at the end, so that this can't pass on a kernel that never kills.
fn a_commit_over_usage_kills_nobody() {
    let rig = Rig::new();
    let mut victim = rig.workload();
    victim.step("grow 64Mi");
    for _ in 0..40 {
        let mut session = rig.begin();
        let outcome = session.commit(mib(16), NO_CHECK, DEADLINE);
        assert!(matches!(outcome, OutcomeKind::UsageTooHigh { .. }), "{outcome:?}");
        rig.assert_as_found();
        session.finish(false).unwrap();
        assert!(victim.is_alive());
    }
    assert_eq!(rig.group.kills(), 0);
    victim.step("touch");
    victim.step("grow 8Mi");
    rig.group.write("memory.max", "16M");
    assert_eq!(victim.ask("report"), "", "a bare write left the victim alive");
    assert_eq!(rig.group.kills(), 1);
}

/// The victim allocates all the time, so its own charges meet the low limit.
#[expect(clippy::wildcard_enum_match_arm, reason = "any other outcome fails the test")]
fn a_commit_against_an_allocator_kills_nobody() {
    let rig = Rig::new();
    let bursts = "bursts --base 20Mi --burst 60Mi --period 20ms --duty 10ms";
    let mut victim = Workload::run(&rig.group, bursts);
    let mut committed = 0;
    for _ in 0..40 {
        let mut session = rig.begin();
        match session.commit(mib(60), mib(50), DEADLINE) {
            OutcomeKind::Done => {
                committed += 1;
                session.restore_handle().restore(None, Some(limit(256)));
            }
            OutcomeKind::UsageTooHigh { .. } => {}
            other => panic!("{other:?}"),
        }
        session.finish(false).unwrap();
        rig.assert_as_found();
        assert!(victim.alive());
    }
    let kills = rig.group.kills();
    println!("committed {committed} of 40 against a burst allocator, {kills} kills");
    assert_eq!(kills, 0);
}

fn the_write_method_fits_the_kernel() {
    let new = at_least(6, 16).is_ok();
    let expected = if new { WriteMethod::NonBlocking } else { WriteMethod::PendingSignal };
    assert_eq!(write_method(&Arc::new(Mount::discover().unwrap())), expected);
    let left = fs::read_dir("/sys/fs/cgroup").unwrap();
    let left = left.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains("probe"));
    assert_eq!(left.count(), 0, "a scratch cgroup was left");
}

fn a_blocked_brake_is_lifted_by_a_restore() {
    let rig = Rig::new();
    let mut workload = rig.workload();
    workload.step("grow 150Mi");
    let mut session = rig.begin();
    let handle = session.restore_handle();
    let restorer = std::thread::scope(|scope| {
        let call = scope.spawn(|| session.set_brake(limit(8)));
        while rig.number("memory.high") != 8 * MIB && !call.is_finished() {
            std::thread::yield_now();
        }
        assert_eq!(handle.restore(Some(limit(200)), None), OutcomeKind::Done);
        assert_eq!(rig.number("memory.high"), 200 * MIB);
        call.join().unwrap()
    });
    assert!(matches!(restorer, OutcomeKind::Done | OutcomeKind::Failed { .. }), "{restorer:?}");
    rig.assert_as_found();
    session.finish(false).unwrap();
    rig.assert_as_found();
    workload.step("report");
}

/// A reclaim that would go on for long: there is more to reclaim than one round takes.
#[expect(clippy::wildcard_enum_match_arm, reason = "any other outcome fails the test")]
fn a_blocked_reclaim_is_interrupted_by_a_restore() {
    let rig = Rig::new();
    rig.group.write("memory.high", "max");
    let mut workload = rig.workload();
    workload.step("grow 150Mi");
    let mut interrupted = false;
    for _ in 0..50 {
        let mut session = rig.begin();
        let handle = session.restore_handle();
        let outcome = std::thread::scope(|scope| {
            let call = scope.spawn(|| session.reclaim(mib(1024)));
            handle.restore(Some(limit(200)), None);
            call.join().unwrap()
        });
        session.finish(false).unwrap();
        match outcome {
            OutcomeKind::Failed { errno: libc::EINTR, .. } => interrupted = true,
            OutcomeKind::Reclaimed { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(interrupted);
    assert!(workload.is_alive());
}

fn reclaim_says_when_it_is_partial() {
    let rig = Rig::new();
    let mut workload = rig.workload();
    workload.step("grow 20Mi");
    let mut session = rig.begin();
    let outcome = session.reclaim(mib(100));
    assert!(matches!(outcome, OutcomeKind::Reclaimed { partial: true, .. }), "{outcome:?}");
    session.finish(false).unwrap();

    let empty = Rig::new();
    let mut session = empty.begin();
    let outcome = session.reclaim(mib(1));
    assert!(matches!(outcome, OutcomeKind::Reclaimed { partial: true, .. }), "{outcome:?}");
    assert_eq!(session.commit(mib(1), mib(1), DEADLINE), OutcomeKind::Done);
    session.finish(true).unwrap();
    assert_eq!(empty.limits(), (200 * MIB, MIB));
}

fn nothing_is_lowered_after_a_restore() {
    let rig = Rig::new();
    let mut session = rig.begin();
    session.set_brake(limit(90));
    assert_eq!(session.restore_handle().restore(Some(limit(200)), None), OutcomeKind::Done);
    for outcome in [session.set_brake(limit(90)), session.commit(mib(100), mib(95), DEADLINE)] {
        assert!(matches!(outcome, OutcomeKind::Failed { errno: libc::EINTR, .. }), "{outcome:?}");
    }
    rig.assert_as_found();
    session.finish(false).unwrap();
}

fn overlapping_sessions_are_refused() {
    let rig = Rig::new();
    let inner = rig.below("kubepods/pod1/a");
    let sibling = rig.below("kubepods/pod1/b");
    let other_pod = rig.below("kubepods/pod2/a");
    let begin =
        |path: &Path| Session::begin(&Cgroup::open(path).unwrap(), &rig.state, &SessionOptions::default());
    let session = begin(&inner).unwrap();
    for path in [&inner, inner.parent().unwrap(), rig.group.path(), &sibling] {
        match begin(path) {
            Err(ActuateError::InProgress { pid, .. }) => assert_eq!(pid, std::process::id()),
            other => panic!("{}: {other:?}", path.display()),
        }
    }
    begin(&other_pod).unwrap().finish(false).unwrap();
    session.finish(false).unwrap();
    begin(&inner).unwrap().finish(false).unwrap();
}

fn a_full_or_read_only_state_dir_changes_nothing() {
    use nix::mount::{MsFlags, mount, umount};
    let rig = Rig::new();
    let point = rig.state_path.path().join("small");
    fs::create_dir(&point).unwrap();
    let none = None::<&str>;
    mount(Some("tmpfs"), &point, Some("tmpfs"), MsFlags::empty(), Some("size=8k")).unwrap();
    let begin = || {
        let state = StateDir::open(&point)?;
        Session::begin(&rig.cgroup(), &state, &SessionOptions::default())
    };
    let full = begin().unwrap_err().to_string();
    assert!(full.contains("free some space"), "{full}");
    mount(none, &point, none, MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY, none).unwrap();
    let read_only = begin().unwrap_err().to_string();
    assert!(read_only.contains("--state-dir"), "{read_only}");
    umount(&point).unwrap();
    rig.assert_as_found();
}

/// The process that gets killed: begins a session, says its restorer's pid, then does what it is told.
pub(crate) fn hold_if_asked() {
    let arguments: Vec<_> = std::env::args().collect();
    let [_, hold, cgroup, state] = &arguments[..] else { return };
    if hold != HOLDER {
        return;
    }
    let cgroup = Cgroup::open(Path::new(cgroup)).unwrap();
    let state = StateDir::open(Path::new(state)).unwrap();
    let mut session = Session::begin(&cgroup, &state, &SessionOptions::default()).unwrap();
    println!("{}", session.restorer_pid());
    for line in stdin().lock().lines() {
        let line = line.unwrap();
        let (verb, number) = line.split_once(' ').unwrap_or((&line, "0"));
        let number = number.parse().unwrap();
        match verb {
            "brake" => println!("{:?}", session.set_brake(limit(number))),
            "commit" => println!("{:?}", session.commit(mib(number), NO_CHECK, DEADLINE)),
            "cycle" => {
                println!("cycling");
                for n in (20..190).rev() {
                    session.set_brake(limit(n));
                    session.commit(mib(n + 5), NO_CHECK, DEADLINE);
                }
            }
            other => panic!("{other}"),
        }
    }
    std::process::exit(0);
}
