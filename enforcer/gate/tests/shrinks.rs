//! Whole shrinks of a simulated cgroup.

mod sim;

use enforcer_gate::{Bytes, Limit, Reason, State, Verdict};
use sim::{MIB, Shrink, Sim, Workload, idle, policy};

#[test]
fn cache_heavy_shrink_is_committed() {
    let mut sim = Sim::new(160 * MIB);
    sim.anon = 10 * MIB;
    sim.cache = 120 * MIB;
    let mut shrink = Shrink::new(policy(), sim);
    // Reads on and on: the cache fills whatever room there is.
    let mut workload: Workload = Box::new(|sim| sim.read_cache(MIB / 2));
    shrink.run_to_end(100 * MIB, &mut workload);
    let certificate = shrink.gate.certificate().unwrap();
    assert_eq!(certificate.verdict, Verdict::Committed, "{certificate:#?}");
    assert_eq!(shrink.sim.max, Limit::Bytes(Bytes::from_mib(100)));
    assert_eq!(shrink.sim.high, Limit::Max);
    assert_eq!(
        shrink.states,
        [
            State::Observing,
            State::Reclaiming,
            State::Trial,
            State::Committing,
            State::Watching,
            State::Restoring,
            State::Ended
        ]
    );
    assert!(!shrink.sim.killed);
}

#[test]
fn anon_heavy_shrink_is_refused_with_the_safe_minimum() {
    let mut sim = Sim::new(160 * MIB);
    sim.anon = 120 * MIB;
    let mut shrink = Shrink::new(policy(), sim);
    shrink.run_to_end(100 * MIB, &mut idle());
    let certificate = shrink.gate.certificate().unwrap();
    assert_eq!(certificate.verdict, Verdict::Refused(Reason::BelowSafeMinimum));
    let safe = certificate.safe_minimum.unwrap();
    assert!(safe > Bytes::from_mib(120) && safe < Bytes::from_mib(140), "{safe:?}");
    assert!(shrink.commands.iter().all(|a| matches!(a, enforcer_gate::Action::Observe)));
}

#[test]
fn growth_in_trial_is_taken_back() {
    let mut sim = Sim::new(160 * MIB);
    sim.anon = 60 * MIB;
    let mut shrink = Shrink::new(policy(), sim);
    let mut workload: Workload = Box::new(|sim| {
        if sim.now.get() > 2_000_000 {
            sim.charge(MIB / 4, |s| &mut s.anon);
        }
    });
    shrink.request(100 * MIB);
    shrink.run(&mut workload, 2_000, |_, _| {});
    let certificate = shrink.gate.certificate().unwrap();
    assert!(matches!(certificate.verdict, Verdict::RolledBack(Reason::Growth { .. })), "{certificate:#?}");
    assert_eq!(shrink.sim.max, Limit::Bytes(Bytes::from_mib(160)));
    assert_eq!(shrink.sim.high, Limit::Max);
    assert!(!shrink.sim.killed);
}
