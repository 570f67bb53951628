//! Whole shrinks of a simulated cgroup: what is safe is done, what is not is refused or taken back.

mod sim;

use enforcer_gate::{
    Action, Bytes, Limit, Micros, Policy, PressureKiller, Reason, Request, Signal, State, Verdict,
};
use sim::{MIB, Shrink, Sim, Workload, idle, policy};

fn mib(n: u64) -> Bytes {
    Bytes::from_mib(n)
}

/// A service: some anonymous memory and a cache that fills whatever room there is.
fn cache_heavy() -> (Sim, Workload) {
    let mut sim = Sim::new(160 * MIB);
    sim.anon = 10 * MIB;
    sim.cache = 120 * MIB;
    (sim, Box::new(|sim| sim.read_cache(MIB / 2)))
}

fn only_observes(shrink: &Shrink) -> bool {
    shrink.commands.iter().all(|action| matches!(action, Action::Observe))
}

#[test]
fn clean_cache_makes_way() {
    let (sim, mut workload) = cache_heavy();
    let mut shrink = Shrink::new(policy(), sim);
    let certificate = shrink.run_to_end(100 * MIB, &mut workload);
    assert_eq!(certificate.verdict, Verdict::Committed, "{certificate:#?}");
    shrink.assert_limits(100 * MIB, Limit::Max);
    let states: Vec<String> = shrink.states.iter().map(ToString::to_string).collect();
    assert_eq!(states.join(" "), "observing reclaiming trial committing watching restoring ended");
    assert!(!shrink.sim.killed);
    assert!(certificate.stall.full_total < Micros::from_millis(200), "{:?}", certificate.stall);
    assert!(!certificate.reclaim.is_empty());
    assert!(certificate.one_line().starts_with("shrink to 100Mi committed"));
}

#[test]
fn anonymous_memory_is_refused_with_the_safe_minimum() {
    let mut sim = Sim::new(160 * MIB);
    sim.anon = 120 * MIB;
    let mut shrink = Shrink::new(policy(), sim);
    let certificate = shrink.run_to_end(100 * MIB, &mut idle());
    assert_eq!(certificate.verdict, Verdict::Refused(Reason::BelowSafeMinimum));
    let safe = certificate.safe_minimum.unwrap();
    assert!(safe > mib(120) && safe < mib(140), "{safe:?}");
    assert!(only_observes(&shrink));
    // What the refusal says is true: that limit goes through at once.
    let certificate = shrink.run_to_end(safe.get(), &mut idle());
    assert_eq!(certificate.verdict, Verdict::Committed, "{certificate:#?}");
}

#[test]
fn what_can_not_be_reclaimed_is_named() {
    let check = |set: fn(&mut Sim), name: &str| {
        let mut sim = Sim::new(160 * MIB);
        sim.anon = 10 * MIB;
        set(&mut sim);
        let mut shrink = Shrink::new(policy(), sim);
        let certificate = shrink.run_to_end(100 * MIB, &mut idle());
        assert_eq!(certificate.verdict, Verdict::Refused(Reason::BelowSafeMinimum), "{name}");
        let floor = certificate.peak.unwrap().floor;
        let greatest = floor.terms.list().into_iter().max_by_key(|term| term.bytes).unwrap();
        assert_eq!(greatest.name, name);
        assert!(certificate.one_line().contains(&format!("{name} 120Mi")), "{}", certificate.one_line());
    };
    check(|sim| sim.shmem = 120 * MIB, "shmem");
    check(|sim| sim.locked = 120 * MIB, "unevictable");
    check(|sim| sim.kernel += 120 * MIB - MIB / 2 + sim.slab, "kernel");
    check(
        |sim| {
            sim.cache = 130 * MIB;
            sim.protected = 120 * MIB;
        },
        "protected",
    );
    check(
        |sim| {
            sim.cache = 130 * MIB;
            sim.dirty = 120 * MIB;
        },
        "dirty",
    );
}

#[test]
fn cold_memory_goes_to_swap_without_stall() {
    let mut sim = Sim::new(512 * MIB);
    sim.anon = 400 * MIB;
    sim.swap_free = 1024 * MIB;
    let mut shrink = Shrink::new(policy(), sim);
    let start = shrink.sim.now;
    shrink.run_to(State::Trial, 200 * MIB, &mut idle());
    let took = shrink.sim.now.since(start);
    assert!(took < Micros::from_secs(5), "{took:?} to reclaim half");
    shrink.run_on(&mut idle());
    assert_eq!(shrink.certificate().verdict, Verdict::Committed);
    assert_eq!(shrink.sim.some, 0);
}

#[test]
fn growth_in_trial_is_taken_back() {
    let mut sim = Sim::new(160 * MIB);
    sim.anon = 60 * MIB;
    let mut shrink = Shrink::new(policy(), sim);
    shrink.run_to(State::Trial, 100 * MIB, &mut idle());
    let mut grows: Workload = Box::new(|sim| sim.charge(MIB / 4, |s| &mut s.anon));
    shrink.run_on(&mut grows);
    let certificate = shrink.certificate();
    assert!(matches!(certificate.verdict, Verdict::RolledBack(Reason::Growth { .. })), "{certificate:#?}");
    shrink.assert_limits(160 * MIB, Limit::Max);
    assert!(!shrink.sim.killed);
}

/// A burst of a gigabyte a second while the new limit is in force already: the brake holds it until it
/// is taken back.
#[test]
fn growth_in_watch_is_taken_back_before_it_kills() {
    for target in [48, 64, 100, 200, 400] {
        let mut sim = Sim::new(512 * MIB);
        sim.anon = target * MIB * 3 / 5;
        let mut shrink = Shrink::new(policy(), sim);
        shrink.run_to(State::Watching, target * MIB, &mut idle());
        let mut bursts: Workload = Box::new(|sim| {
            if sim.anon < 480 * MIB {
                sim.charge(MIB, |s| &mut s.anon);
            }
        });
        shrink.run_on(&mut bursts);
        let verdict = shrink.certificate().verdict;
        assert!(matches!(verdict, Verdict::RolledBack(Reason::Growth { .. })), "{verdict:?}");
        shrink.assert_limits(512 * MIB, Limit::Max);
        assert!(!shrink.sim.killed, "at {target} MiB");
    }
}

/// Touches its heap in bursts every seven seconds, and gives it back.
#[test]
fn a_window_that_covers_the_burst_sees_it() {
    let long = Policy { trial_window: Micros::from_secs(10), ..policy() };
    let mut sim = Sim::new(160 * MIB);
    sim.anon = 40 * MIB;
    let mut workload: Workload = Box::new(|sim| {
        let phase = sim.now.get() % 7_000_000;
        if (2_000_000..2_500_000).contains(&phase) {
            if sim.anon < 130 * MIB {
                sim.charge(MIB / 2, |s| &mut s.anon);
            }
        } else {
            sim.anon = sim.anon.min(40 * MIB);
        }
    });
    let mut shrink = Shrink::new(long, sim);
    let certificate = shrink.run_to_end(80 * MIB, &mut workload);
    assert!(
        matches!(certificate.verdict, Verdict::RolledBack(_) | Verdict::Refused(_)),
        "{:?}",
        certificate.verdict
    );
    shrink.assert_limits(160 * MIB, Limit::Max);
    assert!(!shrink.sim.killed);
}

/// What looks reclaimable and is not: the workload hits the brake on and on, and nothing gives way.
#[test]
fn the_breaker_lifts_a_livelock_within_a_second() {
    // Only the breaker is to act here.
    let patient = Policy {
        stall: enforcer_gate::StallBudget {
            full_per_second: Micros::from_secs(1),
            full_total: Micros::from_secs(60),
            some_total: Micros::from_secs(60),
        },
        ..policy()
    };
    let mut sim = Sim::new(160 * MIB);
    sim.anon = 10 * MIB;
    sim.cache = 70 * MIB;
    sim.pinned = 70 * MIB;
    let mut shrink = Shrink::new(patient, sim);
    shrink.run_to(State::Trial, 100 * MIB, &mut idle());
    // Mapped in and pinned as it comes: charged as cache, never free again.
    let mut pins: Workload = Box::new(|sim| {
        sim.pinned = sim.cache + 16 * 4096;
        sim.charge(16 * 4096, |s| &mut s.cache);
    });
    let mut hit_at = None;
    shrink.run(&mut pins, 60_000, |_, sim| {
        if sim.events.high > 0 && hit_at.is_none() {
            hit_at = Some(sim.now);
        }
    });
    let certificate = shrink.certificate();
    assert_eq!(certificate.verdict, Verdict::RolledBack(Reason::BrakeLivelock), "{certificate:#?}");
    let took = shrink.sim.now.since(hit_at.expect("the brake was hit"));
    assert!(took <= Micros::from_secs(1), "{took:?}");
    shrink.assert_limits(160 * MIB, Limit::Max);
}

#[test]
fn stall_ends_it_and_usual_stall_does_not() {
    let outcome = |before: u64, after: u64| {
        let (sim, _) = cache_heavy();
        let mut shrink = Shrink::new(policy(), sim);
        let mut usual: Workload = Box::new(move |sim| sim.stall(before));
        shrink.run_to(State::Trial, 100 * MIB, &mut usual);
        let mut now: Workload = Box::new(move |sim| sim.stall(after));
        shrink.run_on(&mut now);
        shrink.assert_limits(if after > before + 100 { 160 } else { 100 } * MIB, Limit::Max);
        shrink.certificate().verdict
    };
    // Microseconds in each millisecond: a fifth is the budget of a second.
    assert_eq!(outcome(0, 20), Verdict::Committed);
    assert_eq!(outcome(0, 300), Verdict::RolledBack(Reason::StallBudget));
    assert_eq!(outcome(150, 150), Verdict::Committed);
    assert_eq!(outcome(150, 500), Verdict::RolledBack(Reason::StallBudget));
}

/// What the workload stalled before the shrink began to work is not held against it; what it stalls all
/// the time gives it no budget without end.
#[test]
fn stall_from_before_counts_for_no_more_than_a_budget() {
    let (sim, _) = cache_heavy();
    let mut shrink = Shrink::new(policy(), sim);
    let mut stalls: Workload = Box::new(|sim| sim.stall(900));
    shrink.run_to(State::Reclaiming, 100 * MIB, &mut stalls);
    shrink.run_on(&mut idle());
    assert_eq!(shrink.certificate().verdict, Verdict::Committed, "{:#?}", shrink.certificate());

    let (sim, _) = cache_heavy();
    let certificate = Shrink::new(policy(), sim).run_to_end(100 * MIB, &mut stalls);
    let (Verdict::Refused(reason) | Verdict::RolledBack(reason)) = certificate.verdict else {
        panic!("{certificate:#?}")
    };
    assert_eq!(reason, Reason::StallBudget);
}

#[test]
fn a_floor_that_rises_while_reclaiming_is_refused_with_nothing_lowered() {
    let (sim, _) = cache_heavy();
    let mut shrink = Shrink::new(policy(), sim);
    shrink.run_to(State::Reclaiming, 100 * MIB, &mut idle());
    shrink.sim.anon += 90 * MIB;
    shrink.sim.cache = 50 * MIB;
    shrink.run_on(&mut idle());
    let certificate = shrink.certificate();
    assert_eq!(certificate.verdict, Verdict::Refused(Reason::BelowSafeMinimum));
    assert!(certificate.safe_minimum.unwrap() > mib(100));
    assert!(!shrink.commands.iter().any(|action| matches!(action, Action::SetBrake { .. })));
}

/// Reclaim that stalls the workload goes on in smaller steps.
#[test]
fn steps_shrink_where_they_stall() {
    let steps = |stall_per_mib: u64| {
        let (sim, _) = cache_heavy();
        let mut shrink = Shrink::new(policy(), sim);
        let mut last_cache = shrink.sim.cache;
        let mut disturbed: Workload = Box::new(move |sim| {
            sim.stall((last_cache.saturating_sub(sim.cache)) / MIB * stall_per_mib);
            last_cache = sim.cache;
        });
        let certificate = shrink.run_to_end(100 * MIB, &mut disturbed);
        [certificate.reclaim[0].asked, certificate.reclaim[1].asked]
    };
    assert_eq!(steps(0), [mib(4), mib(8)]);
    assert_eq!(steps(2_000), [mib(4), mib(4)]);
    assert_eq!(steps(7_000), [mib(4), mib(2)]);
}

#[test]
fn refaults_that_hurt_end_it_and_others_do_not() {
    let outcome = |stall: u64| {
        let (sim, _) = cache_heavy();
        let mut shrink = Shrink::new(policy(), sim);
        shrink.run_to(State::Trial, 100 * MIB, &mut idle());
        let mut thrashes: Workload = Box::new(move |sim| {
            sim.refault_pages += 20;
            sim.stall(stall);
        });
        shrink.run_on(&mut thrashes);
        shrink.certificate().verdict
    };
    assert_eq!(outcome(150), Verdict::RolledBack(Reason::Refaults));
    assert_eq!(outcome(5), Verdict::Committed);
}

#[test]
fn without_psi_direct_reclaim_is_timed() {
    let (mut sim, mut workload) = cache_heavy();
    sim.psi = false;
    let mut shrink = Shrink::new(policy(), sim);
    let certificate = shrink.run_to_end(100 * MIB, &mut workload);
    assert_eq!(certificate.verdict, Verdict::Committed, "{certificate:#?}");
    assert!(certificate.stall.direct_reclaim > Micros::ZERO);
    assert!(certificate.notes.iter().any(|note| note.contains("memory.pressure")));

    let (mut sim, _) = cache_heavy();
    sim.psi = false;
    let mut shrink = Shrink::new(policy(), sim);
    shrink.run_to(State::Trial, 100 * MIB, &mut idle());
    let mut waits: Workload = Box::new(|sim| {
        let took = Micros::from_millis(20);
        sim.signals.push(Signal::ReclaimEnd { reclaimed: mib(1), took });
    });
    shrink.run_on(&mut waits);
    assert_eq!(shrink.certificate().verdict, Verdict::RolledBack(Reason::StallBudget));
}

#[test]
fn nobody_there_skips_the_windows() {
    let (mut sim, _) = cache_heavy();
    sim.populated = false;
    let mut shrink = Shrink::new(policy(), sim);
    let start = shrink.sim.now;
    let certificate = shrink.run_to_end(100 * MIB, &mut idle());
    assert_eq!(certificate.verdict, Verdict::Committed, "{certificate:#?}");
    assert!(shrink.sim.now.since(start) < Micros::from_secs(1));
    assert!(certificate.notes.iter().any(|note| note.contains("no process")));
    shrink.assert_limits(100 * MIB, Limit::Max);

    // The floor holds all the same: tmpfs outlives its writers.
    let mut sim = Sim::new(160 * MIB);
    sim.populated = false;
    sim.shmem = 120 * MIB;
    let verdict = Shrink::new(policy(), sim).run_to_end(100 * MIB, &mut idle()).verdict;
    assert_eq!(verdict, Verdict::Refused(Reason::BelowSafeMinimum));
}

#[test]
fn frozen_is_refused_or_taken_back() {
    let (mut sim, _) = cache_heavy();
    sim.frozen = true;
    let mut shrink = Shrink::new(policy(), sim);
    assert_eq!(shrink.run_to_end(100 * MIB, &mut idle()).verdict, Verdict::Refused(Reason::Frozen));

    let (sim, _) = cache_heavy();
    let mut shrink = Shrink::new(policy(), sim);
    shrink.run_to(State::Trial, 100 * MIB, &mut idle());
    shrink.sim.frozen = true;
    shrink.run_on(&mut idle());
    assert_eq!(shrink.certificate().verdict, Verdict::RolledBack(Reason::Frozen));
    shrink.assert_limits(160 * MIB, Limit::Max);
}

#[test]
fn a_pressure_killer_is_respected() {
    let killer = PressureKiller { pid: 77, comm: "oomd\x1b".into(), cgroup: "/kubepods\n".into() };
    let ask = |allow_pressure_killer| {
        let (sim, mut workload) = cache_heavy();
        let mut shrink = Shrink::new(Policy { allow_pressure_killer, ..policy() }, sim);
        let request = Request {
            target: mib(100),
            dry_run: false,
            pressure_killer: Some(killer.clone()),
            by_other: false,
        };
        shrink.signal(&Signal::Request(request));
        shrink.run_on(&mut workload);
        (shrink.certificate(), only_observes(&shrink))
    };
    let (certificate, untouched) = ask(false);
    assert_eq!(certificate.verdict, Verdict::Refused(Reason::PressureKiller(killer.clone())));
    assert!(untouched && certificate.safe_minimum.is_some());
    assert!(certificate.one_line().contains("oomd\\u{1b} (pid 77)"));
    let (certificate, _) = ask(true);
    assert_eq!(certificate.verdict, Verdict::Committed);
    assert!(certificate.notes.iter().any(|note| note.contains("allowed by policy")));
}

#[test]
fn a_tighter_ancestor_is_noted_and_no_obstacle() {
    let (mut sim, mut workload) = cache_heavy();
    sim.ancestors = vec![enforcer_gate::AncestorLimit {
        path: "/pod\x07".into(),
        max: Limit::Bytes(mib(90)),
        high: Limit::Max,
        current: mib(60),
    }];
    let certificate = Shrink::new(policy(), sim).run_to_end(100 * MIB, &mut workload);
    assert_eq!(certificate.verdict, Verdict::Committed);
    let note = certificate.notes.iter().find(|note| note.contains("tighter limit")).expect("a note");
    assert!(note.contains("/pod\\u{7}") && note.contains("memory.max 90Mi"), "{note}");
}

#[test]
fn a_present_brake_below_ours_is_left_as_it_is() {
    let (mut sim, _) = cache_heavy();
    let present = Limit::Bytes(mib(80));
    sim.high = present;
    let mut shrink = Shrink::new(policy(), sim);
    let certificate = shrink.run_to_end(100 * MIB, &mut idle());
    assert_eq!(certificate.verdict, Verdict::Committed, "{certificate:#?}");
    shrink.assert_limits(100 * MIB, present);
    assert!(!shrink.commands.iter().any(|a| matches!(a, Action::SetBrake { .. } | Action::Restore { .. })));
}

#[test]
fn a_dry_run_gives_the_verdict_and_changes_nothing() {
    let ask = |target| {
        let (sim, mut workload) = cache_heavy();
        let mut shrink = Shrink::new(policy(), sim);
        let request = Request { target, dry_run: true, pressure_killer: None, by_other: false };
        shrink.signal(&Signal::Request(request));
        shrink.run_on(&mut workload);
        assert!(only_observes(&shrink));
        shrink.certificate().verdict
    };
    assert_eq!(ask(mib(100)), Verdict::Feasible);
    assert_eq!(ask(mib(10)), Verdict::Refused(Reason::BelowSafeMinimum));
    assert_eq!(ask(mib(160)), Verdict::Refused(Reason::NotAShrink { current: Limit::Bytes(mib(160)) }));
    assert_eq!(ask(Bytes::ZERO), Verdict::Refused(Reason::BelowSafeMinimum));
    assert_eq!(ask(Bytes::new(4095)), Verdict::Refused(Reason::BelowSafeMinimum));
}
