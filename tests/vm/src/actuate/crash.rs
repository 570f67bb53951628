//! Every way to die in the middle.

use super::{DEADLINE, MIB, Rig, limit, mib};
use crate::process::Other;
use enforcer::actuate::{ActuateError, RecoveredRun, RecoveredValue, SessionOptions, recover};
use enforcer_gate::OutcomeKind;
use enforcer_vm_tests::case::{Case, Tier, nothing};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::Signal,
};
use std::{fs, os::fd::AsFd as _, time::Duration};

pub(super) fn cases() -> Vec<Case> {
    let case = |name, tier, run| Case { name, tier, needs: nothing, run };
    vec![
        case("actuate::a_dropped_session_is_undone", Tier::Full, a_dropped_session_is_undone as fn()),
        case(
            "actuate::kill_9_in_every_state_leaves_all_as_found",
            Tier::Full,
            kill_9_in_every_state_leaves_all_as_found,
        ),
        case(
            "actuate::kill_9_at_any_moment_leaves_all_as_found",
            Tier::Full,
            kill_9_at_any_moment_leaves_all_as_found,
        ),
        case("actuate::both_killed_is_settled_by_recover", Tier::Full, both_killed_is_settled_by_recover),
        case(
            "actuate::a_raise_after_the_crash_is_not_undone",
            Tier::Full,
            a_raise_after_the_crash_is_not_undone,
        ),
        case("actuate::the_restorer_acts_at_its_deadline", Tier::Full, the_restorer_acts_at_its_deadline),
        case("actuate::what_was_put_back_is_not_kept", Tier::Full, what_was_put_back_is_not_kept),
        case(
            "actuate::nothing_is_lowered_without_a_restorer",
            Tier::Full,
            nothing_is_lowered_without_a_restorer,
        ),
        case(
            "actuate::a_session_inside_its_cgroup_is_undone",
            Tier::Full,
            a_session_inside_its_cgroup_is_undone,
        ),
        case(
            "actuate::a_frozen_cgroup_is_braked_and_undone",
            Tier::Full,
            a_frozen_cgroup_is_braked_and_undone,
        ),
        case("actuate::the_restorer_is_small", Tier::Full, the_restorer_is_small),
    ]
}

/// The states in which a holder can be killed, as what it is told to do before.
const STATES: [&[&str]; 5] = [
    &[],
    &["brake 90"],
    &["brake 90", "brake 80"],
    &["brake 90", "commit 100"],
    &["brake 90", "commit 100", "commit 95"],
];

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
    rig.becomes_as_found();
    let acted = session.restorer_acted().unwrap();
    let mut fds = [PollFd::new(acted.as_fd(), PollFlags::POLLIN)];
    assert_eq!(poll(&mut fds, PollTimeout::from(10_000_u16)), Ok(1), "the session is told");
    assert!(matches!(session.set_brake(limit(80)), OutcomeKind::Failed { .. }));
    rig.assert_as_found();
    // It stays for what may still be written: here a write of ours that nobody but the restorer knows for one.
    rig.group.write("memory.high", "90M");
    rig.becomes_as_found();
    session.finish(false).unwrap();
    restorer.wait();
    rig.assert_as_found();
    assert_eq!(recover(&rig.state), []);
}

/// Whoever ends a session hears that its limit is gone, also where the restorer acts at the very end.
fn what_was_put_back_is_not_kept() {
    let rig = Rig::new();
    let options = SessionOptions { deadline: Duration::from_secs(2), ..SessionOptions::default() };
    let mut session = rig.begin_with(&options).unwrap();
    let restorer = Other::new(session.restorer_pid());
    assert_eq!(session.commit(mib(100), mib(95), DEADLINE), OutcomeKind::Done);
    rig.becomes_as_found();
    let ended = session.finish(true);
    assert!(matches!(ended, Err(ActuateError::Undone { .. })), "{ended:?}");
    restorer.wait();
    rig.assert_as_found();
    assert_eq!(recover(&rig.state), []);
    // One that was killed has put nothing back, and neither has one that was told in time.
    for killed in [true, false] {
        let mut session = rig.begin();
        assert_eq!(session.commit(mib(100), mib(95), DEADLINE), OutcomeKind::Done);
        let restorer = Other::new(session.restorer_pid());
        if killed {
            restorer.signal(Signal::SIGKILL);
            restorer.wait();
        }
        session.finish(true).unwrap();
        restorer.wait();
        assert_eq!(rig.number("memory.max"), 100 * MIB, "killed: {killed}");
        assert_eq!(recover(&rig.state), []);
        rig.group.write("memory.max", "256M");
    }
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

/// The braked cgroup is the one that the command was called from: the restorer has left it.
fn a_session_inside_its_cgroup_is_undone() {
    let rig = Rig::new();
    let mut holder = rig.holder_inside();
    let pid = holder.line();
    let restorer = Other::new(pid.parse().unwrap());
    assert_eq!(fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap(), "0::/\n");
    assert_eq!(holder.ask("brake 90"), "Done");
    assert_eq!(holder.ask("commit 100"), "Done");
    rig.group.clear();
    restorer.wait();
    rig.assert_as_found();
}

fn a_frozen_cgroup_is_braked_and_undone() {
    let rig = Rig::new();
    let mut workload = rig.workload();
    workload.step("grow 20Mi");
    rig.group.write("cgroup.freeze", "1");
    let mut holder = rig.holder();
    let restorer = Other::new(holder.line().parse().unwrap());
    assert_eq!(holder.ask("brake 90"), "Done");
    assert_eq!(holder.ask("commit 100"), "Done");
    assert_eq!(rig.limits(), (90 * MIB, 100 * MIB));
    holder.kill();
    restorer.wait();
    rig.assert_as_found();
    rig.group.write("cgroup.freeze", "0");
    workload.step("report");
}

/// Each shrink has a restorer of its own, so what it keeps in memory counts.
fn the_restorer_is_small() {
    let rig = Rig::new();
    let session = rig.begin();
    let status = fs::read_to_string(format!("/proc/{}/status", session.restorer_pid())).unwrap();
    let kib = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim_end_matches("kB").trim().parse::<u64>().unwrap()
    };
    let (anon, file) = (kib("RssAnon:"), kib("RssFile:"));
    println!("restorer: {anon} KiB of its own, {file} KiB of the program file");
    assert!(anon <= 1024, "{status}");
    assert!(kib("VmLck:") > 0, "{status}");
    session.finish(false).unwrap();
}
