//! How sessions begin, meet others and end.

use super::{DEADLINE, MIB, Rig, limit, mib};
use crate::process::Other;
use enforcer::{
    actuate::{ActuateError, RecoveredRun, Session, SessionOptions, StateDir, recover},
    cgroup::Cgroup,
};
use enforcer_gate::{LimitFile, OutcomeKind};
use enforcer_vm_tests::case::{Case, Tier, nothing};
use nix::sys::signal::Signal;
use std::{fs, path::Path};

pub(super) fn cases() -> Vec<Case> {
    let case = |name, tier, run| Case { name, tier, needs: nothing, run };
    vec![
        case(
            "actuate::a_kept_shrink_is_whole_and_leaves_nothing",
            Tier::Smoke,
            a_kept_shrink_is_whole_and_leaves_nothing as fn(),
        ),
        case("actuate::an_unkept_one_is_undone", Tier::Full, an_unkept_one_is_undone),
        case("actuate::somebody_elses_value_stays", Tier::Full, somebody_elses_value_stays),
        case(
            "actuate::a_cgroup_that_vanishes_is_gone_in_every_call",
            Tier::Smoke,
            a_cgroup_that_vanishes_is_gone_in_every_call,
        ),
        case("actuate::overlapping_sessions_are_refused", Tier::Full, overlapping_sessions_are_refused),
        case("actuate::another_state_dir_is_no_way_round", Tier::Full, another_state_dir_is_no_way_round),
        case(
            "actuate::a_stopped_restorer_is_not_waited_for_for_ever",
            Tier::Full,
            a_stopped_restorer_is_not_waited_for_for_ever,
        ),
        case(
            "actuate::a_full_or_read_only_state_dir_changes_nothing",
            Tier::Full,
            a_full_or_read_only_state_dir_changes_nothing,
        ),
    ]
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
            Err(ActuateError::InProgress { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
            other => panic!("{}: {other:?}", path.display()),
        }
    }
    begin(&other_pod).unwrap().finish(false).unwrap();
    session.finish(false).unwrap();
    begin(&inner).unwrap().finish(false).unwrap();
}

/// Neither while the other lives nor while its restorer still has to undo it, and not for a recovery either.
fn another_state_dir_is_no_way_round() {
    let rig = Rig::new();
    let inner = rig.below("kubepods/pod1/a");
    let sibling = rig.below("kubepods/pod1/b");
    let other_pod = rig.below("kubepods/pod2/a");
    let folder = tempfile::tempdir_in("/run").unwrap();
    let elsewhere = StateDir::open(folder.path()).unwrap();
    let begin = |path: &Path, state: &StateDir| {
        Session::begin(&Cgroup::open(path).unwrap(), state, &SessionOptions::default())
    };
    let session = begin(&inner, &rig.state).unwrap();
    for path in [&inner, inner.parent().unwrap(), rig.group.path(), &sibling] {
        match begin(path, &elsewhere) {
            Err(ActuateError::InProgress { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
            other => panic!("{}: {other:?}", path.display()),
        }
    }
    begin(&other_pod, &elsewhere).unwrap().finish(false).unwrap();
    session.finish(false).unwrap();
    begin(&inner, &elsewhere).unwrap().finish(false).unwrap();

    // Killed, and not undone yet.
    let mut holder = rig.holder();
    let restorer = Other::new(holder.line().parse().unwrap());
    assert_eq!(holder.ask("brake 90"), "Done");
    restorer.signal(Signal::SIGSTOP);
    holder.kill();
    assert!(matches!(begin(rig.group.path(), &elsewhere), Err(ActuateError::InProgress { .. })));
    restorer.signal(Signal::SIGCONT);
    restorer.wait();
    rig.assert_as_found();

    // Both killed: what is left waits until another's run on it is over.
    let mut holder = rig.holder();
    let restorer = Other::new(holder.line().parse().unwrap());
    assert_eq!(holder.ask("brake 90"), "Done");
    restorer.signal(Signal::SIGKILL);
    restorer.wait();
    holder.kill();
    let session = begin(rig.group.path(), &elsewhere).unwrap();
    let recovered = recover(&rig.state);
    let says = format!("in progress by pid {}", std::process::id());
    assert!(
        matches!(&recovered[..], [run] if run.is_open() && run.describe().contains(&says)),
        "{recovered:?}"
    );
    assert_eq!(rig.limits().0, 90 * MIB);
    session.finish(false).unwrap();
    assert!(!recover(&rig.state)[0].is_open());
    rig.assert_as_found();
}

fn a_stopped_restorer_is_not_waited_for_for_ever() {
    let rig = Rig::new();
    let mut session = rig.begin();
    assert_eq!(session.set_brake(limit(90)), OutcomeKind::Done);
    let restorer = Other::new(session.restorer_pid());
    restorer.signal(Signal::SIGSTOP);
    let notes = session.finish(false).unwrap();
    assert!(notes.len() == 1 && notes[0].contains("was killed"), "{notes:?}");
    restorer.wait();
    rig.assert_as_found();
    assert_eq!(recover(&rig.state), []);

    // Nobody has put anything back, so the journal has it.
    let mut session = rig.begin();
    assert_eq!(session.set_brake(limit(90)), OutcomeKind::Done);
    let restorer = Other::new(session.restorer_pid());
    restorer.signal(Signal::SIGSTOP);
    drop(session);
    restorer.wait();
    assert_eq!(rig.limits().0, 90 * MIB);
    assert_eq!(recover(&rig.state).len(), 1);
    rig.assert_as_found();
}

fn a_full_or_read_only_state_dir_changes_nothing() {
    use nix::mount::{MsFlags, mount, umount};
    let rig = Rig::new();
    let point = rig.state_path.path().join("small");
    fs::create_dir(&point).unwrap();
    let none = None::<&str>;
    mount(Some("tmpfs"), &point, Some("tmpfs"), MsFlags::empty(), Some("size=8k,mode=700")).unwrap();
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
