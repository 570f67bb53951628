//! How the guard judges.

use enforcer_abi::{Facts, GuardLife, GuardMode, Lease, PAGES_MAX, Reason, Verdict};
use proptest::prelude::*;

/// 100 pages in use of 200 allowed, 10 to spare, nobody vouches for anything.
const FACTS: Facts =
    Facts { asked: Some(50), limit: 200, usage: 100, margin: 10, populated: true, lease: None };

/// Holds for two seconds from 1,000 ns on.
const fn lease(minimum: u64) -> Lease {
    Lease { granted_ns: 1_000, expires_ns: 2_000_001_000, minimum, growth_per_second: 0 }
}

#[test]
fn each_reason_has_its_case() {
    let now = 1_000_001_000;
    for (facts, reason) in [
        (FACTS, Reason::NoLease),
        (Facts { asked: Some(200), ..FACTS }, Reason::NotLower),
        (Facts { asked: Some(PAGES_MAX), limit: PAGES_MAX, ..FACTS }, Reason::NotLower),
        (Facts { asked: Some(110), ..FACTS }, Reason::AboveUsage),
        (Facts { asked: Some(109), ..FACTS }, Reason::NoLease),
        (Facts { margin: u64::MAX, asked: Some(199), ..FACTS }, Reason::NoLease),
        (Facts { populated: false, ..FACTS }, Reason::Empty),
        (Facts { populated: false, asked: None, ..FACTS }, Reason::Empty),
        (Facts { lease: Some(lease(50)), ..FACTS }, Reason::Leased),
        (Facts { lease: Some(lease(51)), ..FACTS }, Reason::UnderLease),
        (Facts { asked: None, ..FACTS }, Reason::Unavailable),
        (Facts { asked: None, lease: Some(lease(99)), ..FACTS }, Reason::Unavailable),
        (Facts { asked: None, lease: Some(lease(100)), ..FACTS }, Reason::UnavailableLeased),
    ] {
        assert_eq!(facts.judge(now), reason, "{facts:?}");
    }
    let void = Facts { lease: Some(lease(0)), ..FACTS };
    assert_eq!(void.judge(2_000_000_999), Reason::Leased);
    assert_eq!(void.judge(2_000_001_000), Reason::LeaseExpired);
    assert_eq!(Facts { asked: None, ..void }.judge(u64::MAX), Reason::Unavailable);
}

#[test]
fn a_lease_rises_as_it_ages() {
    let lease = Lease { granted_ns: 0, expires_ns: u64::MAX, minimum: 10, growth_per_second: 4 };
    for (now_ns, minimum) in
        [(0, 10), (249_999_999, 10), (250_000_000, 11), (1_000_000_000, 14), (10_000_000_000, 50)]
    {
        assert_eq!(lease.minimum_at(now_ns), Some(minimum), "{now_ns} ns");
    }
    let fast = Lease { growth_per_second: u64::MAX, ..lease };
    assert!(fast.minimum_at(u64::MAX - 1).is_some_and(|minimum| minimum > 1 << 40), "no overflow");
    assert_eq!(Lease { granted_ns: 5, ..lease }.minimum_at(4), Some(10), "a clock behind the grant");
}

#[test]
fn a_verdict_follows_mode_and_life() {
    let (enforce, audit) = (GuardMode::Enforce as u32, GuardMode::Audit as u32);
    for reason in Reason::ALL {
        let expected = |unsafe_verdict| if reason.is_safe() { Verdict::Allowed } else { unsafe_verdict };
        assert_eq!(Verdict::of(*reason, enforce, true), expected(Verdict::Denied));
        assert_eq!(Verdict::of(*reason, audit, true), expected(Verdict::WouldDeny));
        assert_eq!(Verdict::of(*reason, enforce, false), expected(Verdict::Disarmed));
    }
    assert!(Reason::Blind.is_safe(), "a guard that sees nothing is in nobody's way");
    let life = GuardLife { beat_ns: 100, stale_ns: 10, pid: 1 };
    assert_eq!([99, 110, 111].map(|now| life.is_armed(now)), [true, true, false]);
    assert!(!GuardLife { beat_ns: 0, stale_ns: u64::MAX, pid: 1 }.is_armed(1));
}

#[test]
fn every_counter_has_its_slot() {
    let slots =
        Reason::ALL.iter().flat_map(|reason| Verdict::ALL.iter().map(|verdict| verdict.slot(*reason)));
    let mut slots: Vec<u32> = slots.collect();
    slots.sort_unstable();
    assert_eq!(slots, (0..Verdict::COUNTS).collect::<Vec<_>>());
}

proptest! {
    /// Without a lease nothing goes through that takes the limit below usage and margin.
    #[test]
    fn what_goes_through_unvouched_is_above_usage(
        asked: Option<u64>, limit: u64, usage: u64, margin: u64, now: u64
    ) {
        let facts = Facts { asked, limit, usage, margin, populated: true, lease: None };
        if facts.judge(now).is_safe() {
            let asked = asked.expect("a value");
            prop_assert!(asked >= limit || asked >= usage.saturating_add(margin));
        }
    }

    /// With one, nothing below it.
    #[test]
    fn a_lease_is_the_lowest_that_goes_through(
        asked: u64, limit: u64, usage: u64, margin: u64, minimum: u64, growth: u64, granted: u64, now: u64
    ) {
        let lease = Lease { granted_ns: granted, expires_ns: u64::MAX, minimum, growth_per_second: growth };
        let facts = Facts { asked: Some(asked), limit, usage, margin, populated: true, lease: Some(lease) };
        if facts.judge(now) == Reason::Leased {
            prop_assert!(asked >= minimum && asked < limit);
        }
    }
}
