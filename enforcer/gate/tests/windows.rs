//! What counts as a window: readings that show the cgroup's processes, all through it.

mod sim;

use enforcer_gate::{Action, Certificate, Limit, Micros, Policy, Reason, State, Verdict};
use sim::{MIB, Shrink, Sim, Workload, idle, policy};

const WINDOWED: [State; 3] = [State::Observing, State::Trial, State::Watching];

fn service() -> Sim {
    let mut sim = Sim::new(160 * MIB);
    sim.anon = 10 * MIB;
    sim.cache = 120 * MIB;
    sim
}

fn window(state: State) -> Micros {
    let Policy { observe_window, trial_window, watch_window, .. } = policy();
    if state == State::Observing {
        observe_window
    } else if state == State::Trial {
        trial_window
    } else {
        watch_window
    }
}

/// In `state`, `ms` milliseconds after it was entered.
fn reach(state: State, ms: u64, sim: Sim) -> Shrink {
    let mut shrink = Shrink::new(policy(), sim);
    shrink.run_to(state, 100 * MIB, &mut idle());
    shrink.run(&mut idle(), ms, |_, _| {});
    assert_eq!(shrink.gate.state(), state);
    shrink
}

fn run_for(shrink: &mut Shrink, ms: u64) {
    shrink.run(&mut idle(), ms, |_, _| {});
}

/// How long the present state goes on.
fn rest_of(shrink: &mut Shrink, state: State) -> Micros {
    let from = shrink.sim.now;
    while shrink.gate.state() == state {
        run_for(shrink, 1);
    }
    shrink.sim.now.since(from)
}

fn noted(certificate: &Certificate, what: &str) -> bool {
    certificate.notes.iter().any(|note| note.contains(what))
}

fn taken_back(state: State) -> Verdict {
    let reason = Reason::Unseen { state };
    if state == State::Observing { Verdict::Refused(reason) } else { Verdict::RolledBack(reason) }
}

/// A service that restarts is without a process for a moment: what comes then is watched for a whole window.
#[test]
fn a_moment_without_a_process_begins_the_window_anew() {
    for state in WINDOWED {
        let mut shrink = reach(state, 200, service());
        shrink.sim.populated = false;
        run_for(&mut shrink, 100);
        assert_eq!(shrink.gate.state(), state, "an empty moment ended it");
        shrink.sim.populated = true;
        let rest = rest_of(&mut shrink, state);
        assert!(rest >= window(state), "{rest} of {state}");
        shrink.run_on(&mut idle());
        let certificate = shrink.certificate();
        assert_eq!(certificate.verdict, Verdict::Committed, "{certificate:#?}");
        assert!(!certificate.windows_skipped && noted(&certificate, "without a process for a while"));
    }
}

#[test]
fn a_restart_whose_start_needs_more_is_not_killed() {
    for state in [State::Trial, State::Watching] {
        let mut shrink = reach(state, 200, service());
        shrink.sim.populated = false;
        run_for(&mut shrink, 100);
        shrink.sim.populated = true;
        let ready = shrink.sim.now.after(Micros::from_millis(500));
        let mut starts: Workload = Box::new(move |sim| {
            if sim.now > ready && sim.anon < 130 * MIB {
                sim.charge(MIB / 4, |s| &mut s.anon);
            }
        });
        shrink.run_on(&mut starts);
        let verdict = shrink.certificate().verdict;
        assert!(matches!(verdict, Verdict::RolledBack(Reason::Growth { .. })), "{verdict:?} in {state}");
        shrink.assert_limits(160 * MIB, Limit::Max);
        assert!(!shrink.sim.killed);
    }
}

#[test]
fn processes_that_went_or_keep_coming_and_going_end_it() {
    for state in WINDOWED {
        for back_after in [0, 300] {
            let mut shrink = reach(state, 200, service());
            shrink.sim.populated = false;
            let mut ticks = 0;
            shrink.run(&mut idle(), 120_000, |_, sim| {
                ticks += 1;
                if back_after > 0 && ticks % back_after == 0 {
                    sim.populated = !sim.populated;
                }
            });
            assert_eq!(shrink.certificate().verdict, taken_back(state), "{:#?}", shrink.certificate());
            shrink.assert_limits(160 * MIB, Limit::Max);
        }
    }
}

/// Only who is not there at any reading needs no window.
#[test]
fn a_process_that_comes_into_an_empty_cgroup_gets_its_windows() {
    let empty = || {
        let mut sim = service();
        sim.populated = false;
        sim
    };
    let mut shrink = reach(State::Reclaiming, 0, empty());
    shrink.sim.populated = true;
    let from = shrink.sim.now;
    shrink.run_on(&mut idle());
    let certificate = shrink.certificate();
    assert_eq!(certificate.verdict, Verdict::Committed);
    assert!(!certificate.windows_skipped && noted(&certificate, "came into the empty cgroup"));
    let took = shrink.sim.now.since(from);
    assert!(took >= policy().trial_window.saturating_add(policy().watch_window), "{took}");

    // Too late for the trial: at the reading after the commit.
    let mut shrink = Shrink::new(policy(), empty());
    shrink.request(100 * MIB);
    let found = (shrink.sim.high, shrink.sim.max);
    while shrink.gate.state() != State::Ended {
        if let Some(command) = shrink.gate.poll_command() {
            shrink.sim.populated |= matches!(command.action, Action::Commit { .. });
            let outcome = shrink.sim.execute(&command, found);
            shrink.gate.handle_outcome(&outcome, shrink.sim.now);
        } else {
            shrink.sim.tick(&mut idle());
            shrink.gate.handle_timeout(shrink.sim.now);
        }
    }
    assert_eq!(shrink.certificate().verdict, taken_back(State::Trial));
    shrink.assert_limits(160 * MIB, Limit::Max);
}

/// The driver was stopped, or got no CPU: time that nobody read in is no part of a window.
#[test]
fn a_gap_between_readings_begins_the_window_anew() {
    for state in [State::Trial, State::Watching] {
        for seconds in 3..30 {
            let mut shrink = reach(state, 200, service());
            shrink.sim.now = shrink.sim.now.after(Micros::from_secs(seconds));
            let rest = rest_of(&mut shrink, state);
            shrink.run_on(&mut idle());
            let certificate = shrink.certificate();
            if certificate.verdict == Verdict::Committed {
                assert!(rest >= window(state), "{rest} of {state} after {seconds} s without a reading");
                assert!(noted(&certificate, "readings stopped"));
            } else {
                let (Verdict::Refused(reason) | Verdict::RolledBack(reason)) = certificate.verdict else {
                    panic!("{certificate:#?}")
                };
                let unseen = reason == Reason::Unseen { state };
                assert!(unseen || reason == Reason::Deadline { state }, "{reason:?}");
                shrink.assert_limits(160 * MIB, Limit::Max);
            }
        }
    }
}

/// A slow reading is no gap.
#[test]
fn readings_of_up_to_two_seconds_go_on() {
    for state in [State::Trial, State::Watching] {
        let mut shrink = reach(state, 200, service());
        shrink.sim.now = shrink.sim.now.after(Micros::from_secs(2));
        shrink.run_on(&mut idle());
        let certificate = shrink.certificate();
        assert_eq!(certificate.verdict, Verdict::Committed);
        assert!(!noted(&certificate, "readings stopped"));
    }
}

#[test]
fn a_certificate_without_whole_windows_contradicts_itself() {
    let mut shrink = Shrink::new(policy(), service());
    let good = shrink.run_to_end(100 * MIB, &mut idle());
    for state in [State::Trial, State::Watching] {
        let mut bad = good.clone();
        for time in bad.states.iter_mut().filter(|time| time.state == state) {
            time.took = window(state).saturating_sub(Micros::new(1));
        }
        assert_eq!(bad.check(), ["the verdict does not follow from the figures"]);
        bad.windows_skipped = true;
        assert!(bad.check().is_empty());
    }
}

#[test]
fn a_frozen_cgroup_below_is_refused_or_taken_back_by_name() {
    let path = "pod/paused\x1b";
    let reason = Reason::FrozenBelow { cgroup: path.into() };
    let mut sim = service();
    sim.frozen_below = Some(path.into());
    let refused = Shrink::new(policy(), sim).run_to_end(100 * MIB, &mut idle());
    assert_eq!(refused.verdict, Verdict::Refused(reason.clone()));
    assert!(refused.one_line().contains("pod/paused\\u{1b} is frozen"), "{}", refused.one_line());
    for state in [State::Trial, State::Watching] {
        let mut shrink = reach(state, 200, service());
        shrink.sim.frozen_below = Some(path.into());
        shrink.run_on(&mut idle());
        assert_eq!(shrink.certificate().verdict, Verdict::RolledBack(reason.clone()), "{state}");
        shrink.assert_limits(160 * MIB, Limit::Max);
    }
}
