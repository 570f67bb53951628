//! A reader can work a verdict out again from its certificate, and sees when it was changed.

mod sim;

use enforcer_gate::{Bytes, Certificate, Limit, Micros, Reason, Verdict};
use sim::{MIB, Shrink, Sim, Workload, idle, policy};

fn committed() -> Certificate {
    let mut sim = Sim::new(160 * MIB);
    sim.anon = 10 * MIB;
    sim.cache = 120 * MIB;
    let mut workload: Workload = Box::new(|sim| sim.read_cache(MIB / 2));
    Shrink::new(policy(), sim).run_to_end(100 * MIB, &mut workload)
}

fn refused() -> Certificate {
    let mut sim = Sim::new(160 * MIB);
    sim.shmem = 120 * MIB;
    Shrink::new(policy(), sim).run_to_end(100 * MIB, &mut idle())
}

fn assert_contradicts(certificate: &Certificate, change: impl Fn(&mut Certificate), fault: &str) {
    let mut changed = certificate.clone();
    change(&mut changed);
    assert_ne!(&changed, certificate);
    let faults = changed.check();
    assert!(faults.iter().any(|found| found.contains(fault)), "{fault} not in {faults:?}");
}

#[test]
fn the_safe_minimum_follows_from_what_is_written() {
    for certificate in [committed(), refused()] {
        assert!(certificate.check().is_empty());
        assert_eq!(certificate.recompute(), certificate.safe_minimum);
    }
}

#[test]
fn what_was_changed_contradicts_the_rest() {
    let (committed, refused) = (committed(), refused());
    let minimum = "the safe minimum does not follow";
    let headroom = "the headroom does not follow";
    let verdict = "the verdict does not follow";
    assert_contradicts(&committed, |c| c.safe_minimum = Some(Bytes::from_mib(1)), minimum);
    assert_contradicts(&committed, |c| c.growth_per_second = Bytes::from_mib(10_000), minimum);
    assert_contradicts(&committed, |c| c.policy.headroom_min = Bytes::from_mib(500), headroom);
    assert_contradicts(&committed, |c| c.target = Bytes::from_mib(90), headroom);
    let floor = "the floor is not what its terms add up to";
    let more = |c: &mut Certificate| c.floor.as_mut().unwrap().terms.shmem = Bytes::from_mib(90);
    assert_contradicts(&committed, more, floor);
    let less = |c: &mut Certificate| c.peak.as_mut().unwrap().floor.bytes = Bytes::from_mib(1);
    assert_contradicts(&committed, less, floor);
    assert_contradicts(&committed, less, "the last floor is over the peak");

    assert_contradicts(&committed, |c| c.verdict = Verdict::Refused(Reason::BelowSafeMinimum), verdict);
    assert_contradicts(&committed, |c| c.verdict = Verdict::Feasible, verdict);
    assert_contradicts(&committed, |c| c.dry_run = true, verdict);
    assert_contradicts(&committed, |c| c.states.clear(), verdict);
    assert_contradicts(&committed, |c| c.previous_max = Some(Limit::Bytes(Bytes::from_mib(80))), verdict);
    let growth = |c: &mut Certificate| {
        c.verdict = Verdict::RolledBack(Reason::Growth { floor: c.floor.unwrap().bytes });
    };
    assert_contradicts(&committed, growth, verdict);
    assert_contradicts(&committed, |c| c.verdict = Verdict::RolledBack(Reason::StallBudget), verdict);
    assert_contradicts(&committed, |c| c.verdict = Verdict::Refused(Reason::Frozen), verdict);
    let bound = "whether the safe minimum is a lower bound";
    assert_contradicts(&committed, |c| c.safe_minimum_is_lower_bound = true, bound);
    assert_contradicts(&committed, |c| c.verdict = Verdict::RolledBack(Reason::BrakeLivelock), bound);
    assert_contradicts(&refused, |c| c.verdict = Verdict::Committed, verdict);
    assert_contradicts(&refused, |c| c.verdict = Verdict::Feasible, verdict);
    assert_contradicts(&refused, |c| c.verdict = Verdict::RolledBack(Reason::Cancelled), verdict);
    let current = Limit::Bytes(Bytes::from_mib(160));
    assert_contradicts(&refused, |c| c.verdict = Verdict::Refused(Reason::NotAShrink { current }), verdict);
    assert_contradicts(&refused, |c| c.verdict = Verdict::Refused(Reason::StallBudget), verdict);
}

/// The names that readers of the JSON rely on.
#[test]
fn json_has_its_names() {
    let value = serde_json::to_value(refused()).unwrap();
    assert_eq!(value["verdict"], "refused");
    assert_eq!(value["reason"], "below_safe_minimum");
    assert_eq!(value["ended_in"], "observing");
    assert_eq!(value["target"], 100 * MIB);
    assert_eq!(value["previous_max"]["bytes"], 160 * MIB);
    assert_eq!(value["previous_high"], "max");
    assert_eq!(value["peak"]["floor"]["terms"]["shmem"], 120 * MIB);
    assert_eq!(value["policy"]["headroom_permille"], 80);
    assert!(value["safe_minimum"].as_u64().unwrap() > 120 * MIB);
    assert_eq!(value["states"][0]["state"], "observing");
    assert!(value["states"][0]["took"].as_u64().unwrap() >= 500_000);
    for name in ["headroom", "deltas", "stall", "reclaim", "notes", "growth_per_second", "brake"] {
        assert!(value.get(name).is_some(), "{name}");
    }
}

#[test]
fn one_line_says_what_counts() {
    let line = refused().one_line();
    assert!(
        line.starts_with(
            "shrink to 100Mi refused: the target is under the safe minimum; safe minimum 132.4Mi; \
             floor 120.4Mi (shmem 120Mi, kernel 384Ki)"
        ),
        "{line}"
    );
    assert!(line.ends_with("; limit was 160Mi"), "{line}");

    let cut_off = Certificate { safe_minimum_is_lower_bound: true, ..refused() };
    assert!(cut_off.one_line().contains("; safe minimum at least 132.4Mi;"), "{}", cut_off.one_line());

    let mut hostile = refused();
    let what = "\x1b[31m\n".repeat(10_000);
    hostile.verdict = Verdict::Failed(Reason::Io { what, errno: 5 });
    let line = hostile.one_line();
    assert!(line.len() <= 1024 && line.bytes().all(|b| (0x20..0x7f).contains(&b)), "{line}");
}

#[test]
fn stall_is_told_for_each_mib() {
    let certificate = committed();
    assert_eq!(certificate.stall.reclaim_stall_per_mib, Micros::ZERO);
    let mut sim = Sim::new(160 * MIB);
    sim.anon = 10 * MIB;
    sim.cache = 120 * MIB;
    let mut last_cache = sim.cache;
    let mut disturbed: Workload = Box::new(move |sim| {
        sim.stall(last_cache.saturating_sub(sim.cache) / MIB * 1_000);
        last_cache = sim.cache;
    });
    let certificate = Shrink::new(policy(), sim).run_to_end(100 * MIB, &mut disturbed);
    let per_mib = certificate.stall.reclaim_stall_per_mib;
    assert!(per_mib > Micros::from_millis(0) && per_mib <= Micros::from_millis(2), "{per_mib:?}");
}
