//! The safe minimum, the brake and the policy's own checks.

use enforcer_gate::{
    Bytes, Headroom, Margins, Micros, PAGE_SIZE, Policy, StallBudget, admits, brake_for, holds, safe_minimum,
};
use proptest::prelude::*;

fn policies() -> impl Strategy<Value = Policy> {
    (1_u32..=512, 1_u32..=128, 0_u32..=500, PAGE_SIZE..(64 << 20), 1_u64..10_000_000).prop_map(
        |(cpus, charge_batch_pages, headroom_permille, headroom_min, reaction)| Policy {
            cpus,
            charge_batch_pages,
            headroom_permille,
            headroom_min: Bytes::new(headroom_min),
            reaction_time: Micros::new(reaction.max(1_000)),
            ..Policy::default()
        },
    )
}

/// Up to 4 PiB: far beyond any machine, and where nothing saturates.
fn bytes() -> impl Strategy<Value = Bytes> {
    prop_oneof![0_u64..(1 << 52), 0_u64..(1 << 32), 0_u64..(1 << 24)].prop_map(Bytes::new)
}

fn growth() -> impl Strategy<Value = Bytes> {
    (0_u64..(1 << 36)).prop_map(Bytes::new)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, failure_persistence: None, ..ProptestConfig::default() })]

    /// The safe minimum is let in, and one page less is not.
    #[test]
    fn safe_minimum_is_the_lowest_let_in(policy in policies(), peak in bytes(), growth in growth()) {
        let lowest = safe_minimum(peak, growth, &policy);
        prop_assert_eq!(lowest, lowest.page_floor());
        prop_assert!(admits(lowest, peak, growth, &policy));
        let below = lowest.saturating_sub(Bytes::new(PAGE_SIZE));
        prop_assert!(!admits(below, peak, growth, &policy));
    }

    /// So is every higher target.
    #[test]
    fn what_is_let_in_is_let_in_higher_up(
        policy in policies(), peak in bytes(), growth in growth(), pages in 0_u64..10_000_000,
    ) {
        let higher = Bytes::new(safe_minimum(peak, growth, &policy).get() + pages * PAGE_SIZE);
        prop_assert!(admits(higher, peak, growth, &policy));
    }

    /// A shrink that was let in may drift, but by no more than the drift.
    #[test]
    fn drift_is_what_may_be_used_up(policy in policies(), peak in bytes(), growth in growth()) {
        let target = safe_minimum(peak, growth, &policy);
        let headroom = Headroom::at(target, growth, &policy);
        prop_assert!(headroom.drift > Bytes::ZERO);
        let drifted = peak.saturating_add(headroom.drift);
        prop_assert!(holds(target, drifted, growth, &policy));
        let further = target.saturating_sub(headroom.to_hold()).saturating_add(Bytes::new(1));
        prop_assert!(!holds(target, further, growth, &policy));
    }

    /// While a shrink holds, the floor is under the brake, the brake under the target, and the commit's
    /// check between the two: a workload that the brake holds can be committed.
    #[test]
    fn brake_lies_between_floor_and_target(policy in policies(), peak in bytes(), growth in growth()) {
        let target = safe_minimum(peak, growth, &policy);
        let brake = brake_for(target, &policy);
        let margins = Margins::at(target, &policy);
        prop_assert!(brake < target);
        prop_assert_eq!(brake, brake.page_floor());
        let held = target.saturating_sub(Headroom::at(target, growth, &policy).to_hold());
        prop_assert!(held.saturating_add(margins.early) <= brake);
        prop_assert!(brake <= target.saturating_sub(margins.commit).page_ceil());
    }

    /// `calculate_high_delay`, at the target: a task that charged its way from the brake to the target
    /// waits, so the brake bites before `memory.max` does.
    #[test]
    fn brake_bites_before_the_target(policy in policies(), peak in bytes()) {
        let target = safe_minimum(peak, Bytes::ZERO, &policy);
        let brake = brake_for(target, &policy).get();
        prop_assume!(brake > 0);
        let f = (u128::from(target.get() - brake) << 20) / u128::from(brake);
        let micros = (f * f * 1_000_000) >> 34;
        prop_assert!(micros >= 100_000, "{micros} us a batch");
    }

    #[test]
    fn nothing_wraps(peak in any::<u64>(), growth in any::<u64>(), target in any::<u64>(), policy in policies()) {
        let (peak, growth, target) = (Bytes::new(peak), Bytes::new(growth), Bytes::new(target));
        let lowest = safe_minimum(peak, growth, &policy);
        prop_assert!(lowest >= peak.page_floor());
        let headroom = Headroom::at(target, growth, &policy);
        prop_assert!(headroom.list().iter().take(5).all(|term| term.bytes <= headroom.bytes));
        prop_assert!(brake_for(target, &policy) <= target.page_ceil());
        prop_assert!(!admits(target, peak, growth, &policy) || peak < target);
    }
}

/// The aim for usual sizes on usual machines: within a quarter of what is needed.
#[test]
fn safe_minimum_is_near_the_need() {
    for cpus in [1, 2, 4, 8, 16] {
        for mib in [32, 48, 64, 100, 128, 256, 512, 4096] {
            let policy = Policy { cpus, ..Policy::default() };
            let safe = safe_minimum(Bytes::from_mib(mib), Bytes::ZERO, &policy);
            // With 16 CPUs, batches alone are 4 MiB.
            let batches = u64::from(cpus) * 256 * 1024;
            let most = Bytes::new((mib << 20) * 5 / 4 + batches);
            assert!(safe <= most, "{mib} MiB on {cpus} CPUs: {safe:?}");
        }
    }
    let two = Policy { cpus: 2, ..Policy::default() };
    assert!(safe_minimum(Bytes::from_mib(32), Bytes::ZERO, &two) <= Bytes::from_mib(36));
}

#[test]
fn growth_asks_for_room() {
    let policy = Policy { reaction_time: Micros::from_millis(100), ..Policy::default() };
    let still = safe_minimum(Bytes::from_mib(100), Bytes::ZERO, &policy);
    let fast = safe_minimum(Bytes::from_mib(100), Bytes::from_mib(1_000), &policy);
    assert!(still < Bytes::from_mib(115));
    // 100 MiB in a reaction's time, and an eighth to drift.
    assert_eq!(fast, Bytes::new((100 << 20) + (100 << 20) * 9 / 8).page_ceil());
}

#[test]
fn a_policy_says_every_fault_at_once() {
    assert_eq!(Policy::default().validate(), Ok(()));
    let policy = Policy {
        sample_interval: Micros::from_secs(1),
        trial_window: Micros::ZERO,
        cpus: 0,
        charge_batch_pages: 0,
        headroom_permille: 501,
        slab_permille: 1001,
        headroom_min: Bytes::ZERO,
        reclaim_step: Bytes::new(1),
        reclaim_deadline: Micros::ZERO,
        commit_deadline: Micros::new(u64::MAX),
        restore_deadline: Micros::ZERO,
        reaction_time: Micros::ZERO,
        back_off: Micros::new(u64::MAX),
        observe_window: Micros::ZERO,
        watch_window: Micros::new(u64::MAX),
        stall: StallBudget {
            full_per_second: Micros::ZERO,
            full_total: Micros::ZERO,
            some_total: Micros::ZERO,
        },
        allow_pressure_killer: false,
    };
    let error = policy.validate().unwrap_err();
    assert_eq!(error.0.len(), 18, "{error}");
    for field in ["sample_interval", "cpus", "stall.some_total", "reclaim_step", "back_off"] {
        assert!(error.to_string().contains(field), "{error}");
    }
}

#[test]
fn a_policy_is_read_with_defaults_and_without_unknown_fields() {
    let policy: Policy = serde_json::from_str(r#"{"cpus": 8}"#).unwrap();
    assert_eq!(policy, Policy { cpus: 8, ..Policy::default() });
    assert!(serde_json::from_str::<Policy>(r#"{"cpu": 8}"#).is_err());
}
