//! Days of known workloads: the schedule comes to rest.

use super::super::LEARNED_FOR;
use super::world::{Container, Happened, Line, Trouble, Workload, World};
use super::*;

const DAY: Micros = Micros::from_secs(24 * 3600);
const STEP: Micros = Micros::from_secs(30);

fn containers(n: usize, workload: impl Fn(usize) -> Workload) -> Vec<Container> {
    let container = |i| {
        Container::new(slot(&format!("pod-{}", i / 2), &format!("{}", i % 2)), rules(), workload(i), 1024)
    };
    (0..n).map(container).collect()
}

#[test]
fn steady_containers_are_changed_once_and_then_never() {
    let need = |i| 40 + 25 * u64::try_from(i).expect("small");
    let mut world = World::new(6, containers(20, |i| Workload::Steady(need(i))), Trouble::default(), 7);
    world.run(DAY.scaled(3, 1), STEP);
    for (at, container) in world.containers.iter().enumerate() {
        let ends = world.ends(at);
        let [(when, target, Ended::Committed)] = ends[..] else { panic!("{at}: {ends:?}") };
        let safe = container.safe_minimum();
        assert!(target >= safe.saturating_add(container.rules.margin.of(safe)));
        assert!(target < safe.saturating_add(container.rules.margin.of(safe)).saturating_add(mib(1)));
        assert!(when < Instant::new(3_000_000_000).after(HOUR.scaled(5, 1)), "six an hour: {when:?}");
    }
}

#[test]
fn a_peak_in_every_window_is_never_cut_off() {
    let period = |i| {
        let period = MINUTE.scaled([7, 20, 45, 59][i % 4], 1);
        Workload::Period { low: 100, high: 400, period }
    };
    let mut world = World::new(60, containers(8, period), Trouble::default(), 3);
    world.run(DAY.scaled(3, 1), STEP);
    for (at, container) in world.containers.iter().enumerate() {
        assert_eq!(container.cgroup, 2 + at as u64, "none was killed and started anew");
        assert_eq!(world.ends(at).len(), 1);
        assert_eq!(container.limit, 477, "a high of 433.3 MiB safe minimum, and a tenth");
    }
}

#[test]
fn a_peak_that_no_window_has_seen_kills_once_and_teaches() {
    let rare = |_| Workload::Period { low: 100, high: 400, period: HOUR.scaled(5, 1) };
    let mut world = World::new(60, containers(4, rare), Trouble::default(), 5);
    world.run(DAY.scaled(7, 1), STEP);
    for (at, container) in world.containers.iter().enumerate() {
        let killed = |(_, of, happened): &&Line| *of == at && matches!(happened, Happened::Killed(_));
        assert_eq!(world.story.iter().filter(killed).count(), 1);
        assert_eq!(world.ends(at).len(), 2, "{:?}", world.ends(at));
        assert_eq!(container.limit, 575, "half way from the limit that killed to that before");
    }
}

/// A gate that takes everything back under a bound that nobody is told of.
#[test]
fn a_hidden_bound_is_found_and_kept_to_for_a_week() {
    let mut scheduler = Scheduler::new(6);
    let (slot, rules) = (slot("a", "b"), rules());
    let mut seen = Seen { limit: limit(4096), ..seen() };
    let (begin, hidden) = (Instant::new(1), mib(2500));
    let mut now = begin;
    let mut tries = Vec::new();
    while now.since(begin) < LEARNED_FOR {
        now = now.after(STEP);
        if let Decision::Shrink { target, .. } = scheduler.consider(now, &slot, &rules, &seen) {
            tries.push(target);
            if target >= hidden {
                seen.limit = Limit::Bytes(target);
                scheduler.ended(now, &slot, Ended::Committed);
            } else {
                scheduler.ended(now, &slot, Ended::TooLow);
            }
        }
    }
    let targets: Vec<_> = tries.iter().map(|target| target.get() >> 20).collect();
    assert_eq!(targets, [116, 2106, 3101], "half way each time, until it holds");
}
