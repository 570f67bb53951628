//! The writes themselves, against workloads that make them dangerous.

use super::{DEADLINE, MIB, NO_CHECK, Rig, limit, mib};
use enforcer::{
    actuate::{WriteMethod, write_method},
    cgroup::Mount,
};
use enforcer_gate::OutcomeKind;
use enforcer_vm_tests::{
    case::{Case, Tier, at_least, nothing},
    workload::Workload,
};
use std::{fs, sync::Arc};

pub(super) fn cases() -> Vec<Case> {
    let case = |name, tier, run| Case { name, tier, needs: nothing, run };
    vec![
        case(
            "actuate::a_commit_over_usage_kills_nobody",
            Tier::Smoke,
            a_commit_over_usage_kills_nobody as fn(),
        ),
        case(
            "actuate::a_commit_against_an_allocator_kills_nobody",
            Tier::Smoke,
            a_commit_against_an_allocator_kills_nobody,
        ),
        case("actuate::the_write_method_fits_the_kernel", Tier::Smoke, the_write_method_fits_the_kernel),
        case(
            "actuate::a_blocked_brake_is_lifted_by_a_restore",
            Tier::Smoke,
            a_blocked_brake_is_lifted_by_a_restore,
        ),
        case(
            "actuate::a_blocked_reclaim_is_interrupted_by_a_restore",
            Tier::Full,
            a_blocked_reclaim_is_interrupted_by_a_restore,
        ),
        case("actuate::reclaim_says_when_it_is_partial", Tier::Full, reclaim_says_when_it_is_partial),
        case("actuate::nothing_is_lowered_after_a_restore", Tier::Full, nothing_is_lowered_after_a_restore),
    ]
}

/// Usage is over the limit when the write comes, as if a process had grown since the check. What the kernel does by
/// itself is shown at the end, so that this can't pass on a kernel that never kills.
fn a_commit_over_usage_kills_nobody() {
    let rig = Rig::new();
    let mut victim = rig.workload();
    victim.step("grow 64Mi");
    for _ in 0..3 {
        let mut session = rig.begin();
        for _ in 0..100 {
            let outcome = session.commit(mib(16), NO_CHECK, DEADLINE);
            assert!(matches!(outcome, OutcomeKind::UsageTooHigh { .. }), "{outcome:?}");
            rig.assert_as_found();
        }
        session.finish(false).unwrap();
        assert!(victim.is_alive());
    }
    assert_eq!(rig.group.kills(), 0);
    victim.step("touch");
    victim.step("grow 8Mi");
    rig.group.write("memory.max", "16M");
    // It can be dead before it could be asked anything.
    assert_eq!(victim.0.line(), "", "a bare write left the victim alive");
    assert_eq!(rig.group.kills(), 1);
}

/// The victim allocates all the time, so its own charges meet the low limit. As in a shrink the brake is under it: it is what
/// keeps the victim from the limit between the check and the restore (without it one of 40 commits killed once, Linux 6.1).
#[expect(clippy::wildcard_enum_match_arm, reason = "any other outcome fails the test")]
fn a_commit_against_an_allocator_kills_nobody() {
    const ROUNDS: usize = 20;
    let rig = Rig::new();
    let bursts = "bursts --base 20Mi --burst 60Mi --period 20ms --duty 10ms";
    let mut victim = Workload::run(&rig.group, bursts);
    let mut committed = 0;
    for _ in 0..ROUNDS {
        let mut session = rig.begin();
        // Between two bursts: what is far over the brake already waits for seconds.
        while rig.number("memory.current") > 45 * MIB {
            std::thread::yield_now();
        }
        assert_eq!(session.set_brake(limit(52)), OutcomeKind::Done);
        match session.commit(mib(60), mib(50), DEADLINE) {
            OutcomeKind::Done => committed += 1,
            OutcomeKind::UsageTooHigh { .. } => {}
            other => panic!("{other:?}"),
        }
        // The limit before the brake.
        assert_eq!(session.restore_handle().restore(Some(limit(200)), Some(limit(256))), OutcomeKind::Done);
        session.finish(false).unwrap();
        rig.assert_as_found();
        assert!(victim.alive());
    }
    let kills = rig.group.kills();
    println!("committed {committed} of {ROUNDS} against a burst allocator, {kills} kills");
    assert_eq!(kills, 0);
    assert_ne!(committed, 0, "never below the check");
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
