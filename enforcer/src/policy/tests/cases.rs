//! Known cases, one container unless said otherwise.

use super::super::{LEARNED_FOR, OOM_KILL_INTERVALS, TRACKED_MAX};
use super::*;

const STEP: Micros = Micros::from_secs(15);

/// A schedule that looks at one container every [`STEP`].
struct Node {
    scheduler: Scheduler,
    now: Instant,
    rules: Rules,
    seen: Seen,
    slot: Slot,
}

impl Node {
    fn new() -> Self {
        Self {
            scheduler: Scheduler::new(6),
            now: Instant::new(77_000_000_000),
            rules: rules(),
            seen: seen(),
            slot: slot("pod", "app"),
        }
    }

    fn look(&mut self) -> Decision {
        self.scheduler.consider(self.now, &self.slot, &self.rules, &self.seen)
    }

    /// Looks for that long at most; what is decided that is no longer `while_it_is`, and when.
    fn until(&mut self, within: Micros, while_it_is: &[Why]) -> Option<(Decision, Micros)> {
        let from = self.now;
        while self.now.since(from) <= within {
            let decision = self.look();
            if !while_it_is.contains(&decision.why()) {
                return Some((decision, self.now.since(from)));
            }
            self.now = self.now.after(STEP);
        }
        None
    }

    /// Looks on until a shrink begins.
    fn shrinks(&mut self, within: Micros) -> Option<(Bytes, Micros)> {
        let from = self.now;
        while self.now.since(from) <= within {
            if let Decision::Shrink { target, why: Why::Gain } = self.look() {
                return Some((target, self.now.since(from)));
            }
            self.now = self.now.after(STEP);
        }
        None
    }

    fn ends(&mut self, ended: Ended) {
        self.now = self.now.after(STEP);
        self.scheduler.ended(self.now, &self.slot, ended);
    }

    /// A container whose limit was lowered once, to 116 MiB.
    fn shrunk() -> Self {
        let mut node = Self::new();
        assert_eq!(node.shrinks(HOUR.scaled(2, 1)).map(|(target, _)| target), Some(mib(116)));
        node.ends(Ended::Committed);
        node.seen.limit = limit(116);
        node
    }
}

#[test]
fn the_first_shrink_comes_after_an_interval_a_window_and_its_turn() {
    let mut node = Node::new();
    let begin = node.now;
    let (next, _) = node.until(HOUR, &[Why::Window]).expect("a window");
    assert_eq!((next.why(), node.now), (Why::Turn, begin.after(node.rules.window)));
    let Decision::Wait { until, .. } = next else { panic!("{next:?}") };
    let (target, _) = node.shrinks(node.rules.interval).expect("its turn");
    assert_eq!(target, mib(116));
    assert!(node.now >= until && node.now < until.after(STEP), "not before its turn, and not long after");
    assert_eq!(node.look().why(), Why::InFlight);
}

/// Of an interval and a window the one that ends later is what it waits for.
#[test]
fn what_takes_longest_is_said() {
    let mut node = Node::new();
    node.rules.interval = node.rules.window.scaled(2, 1);
    let begin = node.now;
    let (next, _) = node.until(HOUR.scaled(3, 1), &[Why::Young]).expect("no longer young");
    assert_eq!((next.why(), node.now), (Why::Turn, begin.after(node.rules.interval)));
}

#[test]
fn a_limit_that_fits_is_left_alone_and_one_that_no_longer_does_is_lowered_again() {
    let mut node = Node::shrunk();
    let ended = node.now;
    assert_eq!(node.until(HOUR, &[Why::Interval]).map(|(next, _)| next.why()), Some(Why::SmallGain));
    assert!(node.now.since(ended) >= node.rules.interval);
    assert_eq!(node.until(HOUR.scaled(48, 1), &[Why::SmallGain]), None);
    node.seen.safe_minimum = Some(mib(60));
    let (target, waited) = node.shrinks(HOUR.scaled(2, 1)).expect("less need");
    assert_eq!(target, mib(76));
    assert!(
        waited >= node.rules.window.saturating_sub(STEP),
        "the old need is remembered for a window: {waited}"
    );
}

#[test]
fn a_peak_within_the_window_counts() {
    let mut node = Node::new();
    assert_eq!(node.look().why(), Why::Window);
    node.now = node.now.after(node.rules.interval);
    node.seen.safe_minimum = Some(mib(200));
    assert_eq!(node.look().why(), Why::Window);
    node.now = node.now.after(STEP);
    node.seen.safe_minimum = Some(mib(100));
    assert_eq!(node.shrinks(HOUR).map(|(target, _)| target), Some(mib(220)));
}

#[test]
fn a_window_is_seen_without_a_gap() {
    let mut node = Node::new();
    node.until(HOUR.scaled(9, 10), &[Why::Young, Why::Window]);
    let begin = node.now;
    node.seen.safe_minimum = None;
    assert_eq!(node.until(node.rules.window.scaled(1, 4), &[Why::Unread]), None, "whatever the time");
    node.seen.safe_minimum = Some(mib(100));
    let (_, waited) = node.shrinks(HOUR.scaled(2, 1)).expect("a whole window");
    assert!(waited >= node.rules.window, "{waited} since {begin:?}");
}

#[test]
fn pressure_stretches_the_interval_and_calm_takes_it_back() {
    let mut node = Node::shrunk();
    let rules = node.rules.clone();
    let wait = |node: &mut Node| match node.look() {
        Decision::Wait { until, why } => (until.since(node.now), why),
        other @ (Decision::Shrink { .. } | Decision::Blocked { .. }) => panic!("{other:?}"),
    };
    node.seen.psi_some_avg10 = rules.pressure_avg10;
    assert_eq!(wait(&mut node), (rules.interval, Why::Interval), "not above");
    node.seen.psi_some_avg10 += 1;
    for minutes in [20, 40, 80, 120, 120] {
        assert_eq!(wait(&mut node), (MINUTE.scaled(minutes, 1), Why::Pressure));
        node.now = node.now.after(Micros::from_secs(5));
        assert_eq!(wait(&mut node), (MINUTE.scaled(minutes, 1), Why::Pressure), "the same average");
        node.now = node.now.after(Micros::from_secs(5));
    }
    node.seen.psi_some_avg10 = 0;
    node.now = node.now.after(Micros::from_secs(10));
    let mut turns = vec![];
    let from = node.now;
    while node.now.since(from) < HOUR.scaled(10, 1) {
        if let Decision::Wait { until, .. } = node.look()
            && turns.last() != Some(&until)
        {
            turns.push(until);
        }
        node.now = node.now.after(STEP);
    }
    let apart: Vec<_> = turns.windows(2).map(|pair| pair[1].since(pair[0]).get() / MINUTE.get()).collect();
    assert_eq!(apart[..9], [120, 80, 80, 40, 40, 20, 20, 10, 10], "from turn to turn, as calm lasts");
}

#[test]
fn under_pressure_nothing_is_lowered() {
    let mut node = Node::new();
    node.seen.psi_some_avg10 = 10_000;
    assert_eq!(node.shrinks(HOUR.scaled(48, 1)), None);
    node.seen.psi_some_avg10 = 0;
    let (_, waited) = node.shrinks(HOUR.scaled(3, 1)).expect("calm");
    assert!(waited >= node.rules.interval_max.saturating_sub(STEP), "{waited}");
}

#[test]
fn what_was_too_low_is_not_tried_again_and_the_next_try_is_half_way() {
    let mut node = Node::new();
    let mut at = Vec::new();
    for _ in 0..4 {
        let (target, waited) = node.shrinks(HOUR.scaled(3, 1)).expect("another try");
        at.push((target.get() >> 20, waited.get() / MINUTE.get()));
        node.ends(Ended::TooLow);
    }
    let targets: Vec<_> = at.iter().map(|(target, _)| *target).collect();
    assert_eq!(targets, [116, 314, 413, 463]);
    let waits: Vec<_> = at.iter().skip(1).map(|(_, waited)| *waited).collect();
    assert_eq!(waits, [20, 40, 80]);
    let taught = node.now;
    let nothing = [Why::Failed, Why::Learned];
    let (next, _) = node.until(LEARNED_FOR.scaled(2, 1), &nothing).expect("forgotten");
    assert_eq!(next, Decision::Shrink { target: mib(116), why: Why::Gain });
    assert!(node.now.since(taught) >= LEARNED_FOR.saturating_sub(STEP));
}

#[test]
fn a_kill_blocks_for_intervals_and_its_limit_is_too_low_for_the_next_container() {
    let mut node = Node::shrunk();
    let _ = node.look();
    node.scheduler.oom_killed(node.now, &node.slot);
    let killed = node.now;
    node.seen.cgroup = CgroupId::new(2);
    node.seen.limit = limit(512);
    let (target, _) = node.shrinks(HOUR.scaled(5, 1)).expect("it is tried again");
    assert_eq!(target, mib(314), "half way to what it had before");
    assert!(node.now.since(killed) >= node.rules.interval.scaled(OOM_KILL_INTERVALS, 1));

    let mut other = Node::shrunk();
    let _ = other.look();
    other.scheduler.oom_killed(other.now, &other.slot);
    other.seen.safe_minimum = Some(mib(60));
    assert_eq!(other.shrinks(LEARNED_FOR.saturating_sub(STEP)), None, "no lower than what killed");
}

#[test]
fn a_kill_within_an_attempt() {
    let mut node = Node::new();
    node.shrinks(HOUR.scaled(2, 1)).expect("an attempt");
    node.ends(Ended::Killed);
    let killed = node.now;
    let (target, _) = node.shrinks(HOUR.scaled(5, 1)).expect("another");
    assert_eq!(target, mib(314));
    assert!(node.now.since(killed) >= node.rules.interval.scaled(OOM_KILL_INTERVALS, 1));
}

#[test]
fn a_kill_right_after_the_commit_is_one_under_the_new_limit() {
    let mut node = Node::new();
    node.shrinks(HOUR.scaled(2, 1)).expect("an attempt");
    node.ends(Ended::Committed);
    node.scheduler.oom_killed(node.now, &node.slot);
    assert_eq!(node.shrinks(HOUR.scaled(5, 1)).map(|(target, _)| target), Some(mib(314)));
}

#[test]
fn a_failure_stretches_and_teaches_nothing_and_a_cancelled_attempt_does_neither() {
    for (ended, minutes) in [(Ended::Failed, [20, 40, 80]), (Ended::Unjudged, [10, 10, 10])] {
        let mut node = Node::new();
        node.shrinks(HOUR.scaled(2, 1)).expect("an attempt");
        for wait in minutes {
            node.ends(ended);
            let (target, waited) = node.shrinks(HOUR.scaled(2, 1)).expect("another");
            assert_eq!((target, waited), (mib(116), MINUTE.scaled(wait, 1)), "{ended:?}");
        }
    }
}

#[test]
fn a_container_that_is_started_anew_is_seen_for_a_window() {
    let mut node = Node::new();
    node.until(HOUR, &[Why::Young, Why::Window]);
    node.seen.cgroup = CgroupId::new(2);
    assert_eq!(node.look().why(), Why::Window);
    let (_, waited) = node.shrinks(HOUR.scaled(2, 1)).expect("a window");
    assert!(waited >= node.rules.window, "{waited}");
}

#[test]
fn who_raises_a_limit_is_not_fought() {
    let mut node = Node::shrunk();
    let mut waits = Vec::new();
    for _ in 0..6 {
        node.seen.limit = limit(116);
        let _ = node.look();
        node.now = node.now.after(STEP);
        node.seen.limit = limit(512);
        let from = node.now;
        assert_eq!(node.look().why(), Why::Raised);
        node.shrinks(HOUR.scaled(3, 1)).expect("it is lowered again");
        waits.push(node.now.since(from).get() / MINUTE.get());
        node.ends(Ended::Committed);
    }
    assert_eq!(waits, [20, 40, 80, 120, 120, 120]);
}

#[test]
fn what_is_in_the_way() {
    let check = |change: fn(&mut Node), expect: Why| {
        let mut node = Node::new();
        change(&mut node);
        assert_eq!(node.shrinks(HOUR.scaled(4, 1)), None, "{expect:?}");
        assert_eq!(node.look(), Decision::Blocked { why: expect });
    };
    check(|node| node.rules.mode = Mode::Observe, Why::Observe);
    check(|node| node.rules.mode = Mode::Guard, Why::Guard);
    check(|node| node.rules.fault = Some(super::super::Fault::TooMany("labels")), Why::Fault);
    check(|node| node.seen.paused = true, Why::Paused);
    check(|node| node.seen.in_flight = true, Why::InFlight);
    check(|node| node.seen.pod_busy = true, Why::PodBusy);
    check(|node| node.seen.limit = Limit::Max, Why::NoLimit);
    check(|node| node.seen.safe_minimum = None, Why::Unread);
    check(|node| node.seen.usage = Bytes::ZERO, Why::Empty);
    check(|node| node.rules.ceiling = limit(99), Why::CeilingTooLow);
    check(|node| node.scheduler.set_changes_per_hour(0), Why::NoBudget);
    let mut capped = Node::new();
    capped.seen.limit = Limit::Max;
    capped.rules.ceiling = limit(110);
    assert_eq!(capped.shrinks(HOUR.scaled(2, 1)).map(|(target, _)| target), Some(mib(110)));
}

#[test]
fn after_a_pause_each_waits_for_its_turn() {
    let mut node = Node::new();
    node.seen.paused = true;
    node.shrinks(HOUR.scaled(4, 1));
    assert_eq!(node.look(), Decision::Blocked { why: Why::Paused });
    node.seen.paused = false;
    let Decision::Wait { until, why: Why::Turn } = node.look() else { panic!("{:?}", node.look()) };
    assert!(until > node.now && until.since(node.now) < node.rules.interval);
}

#[test]
fn one_container_of_a_pod_at_a_time() {
    let mut node = Node::new();
    node.scheduler.set_changes_per_hour(1000);
    let slots = [slot("a", "one"), slot("a", "two"), slot("ab", "one")];
    let mut begun: Vec<(usize, Instant)> = Vec::new();
    while node.now < Instant::new(77_000_000_000).after(HOUR.scaled(2, 1)) {
        node.now = node.now.after(STEP);
        for (i, slot) in slots.iter().enumerate() {
            match node.scheduler.consider(node.now, slot, &node.rules, &node.seen) {
                Decision::Shrink { .. } => begun.push((i, node.now)),
                Decision::Wait { .. } | Decision::Blocked { .. } => {}
            }
        }
        if let [.., (last, at)] = begun[..]
            && node.now.since(at) == MINUTE.scaled(8, 1)
        {
            node.scheduler.ended(node.now, &slots[last], Ended::Committed);
        }
    }
    let mut first: Vec<_> = begun.iter().map(|(i, _)| *i).collect();
    first.sort_unstable();
    first.dedup();
    assert_eq!(first, [0, 1, 2], "each had its turn: {begun:?}");
    let of_pod: Vec<_> = begun.iter().filter(|(i, _)| *i < 2).collect();
    for pair in of_pod.windows(2) {
        let apart = pair[1].1.since(pair[0].1);
        assert!(apart >= MINUTE.scaled(8, 1), "{apart}");
    }
}

#[test]
fn an_attempt_whose_end_nobody_tells_is_lost_and_counted() {
    let mut node = Node::new();
    node.shrinks(HOUR.scaled(2, 1)).expect("an attempt");
    node.seen.in_flight = true;
    assert_eq!(node.until(HOUR, &[Why::InFlight]), None, "while it is seen it is not lost");
    assert_eq!(node.scheduler.counters().lost, 0);
    node.seen.in_flight = false;
    assert_eq!(node.look().why(), Why::Failed);
    let counters = node.scheduler.counters();
    assert_eq!((counters.begun, counters.lost), (1, 1));
}

#[test]
fn many_containers_do_not_come_at_once() {
    let (mut scheduler, rules) = (Scheduler::new(1000), rules());
    let slots: Vec<_> = (0..250).map(|n| slot(&format!("9f6b-{n}"), "app")).collect();
    let begin = Instant::new(5_000_000_000);
    let mut starts = Vec::new();
    let mut now = begin;
    while now < begin.after(HOUR.scaled(5, 4)) {
        for slot in &slots {
            if let Decision::Shrink { .. } = scheduler.consider(now, slot, &rules, &seen()) {
                starts.push(now.since(begin.after(HOUR)).get() / MINUTE.get());
                scheduler.ended(now, slot, Ended::Unjudged);
            }
        }
        now = now.after(if now < begin.after(HOUR) { MINUTE } else { Micros::from_secs(1) });
    }
    for minute in 0..10 {
        let within = starts.iter().filter(|start| **start == minute).count();
        assert!((13..=37).contains(&within), "{within} in minute {minute}");
    }
}

#[test]
fn a_pod_goes_with_all_of_its_containers_and_no_other_pod() {
    let mut scheduler = Scheduler::new(6);
    let slots = [slot("a", ""), slot("a", "one"), slot("ab", "one"), slot("", "a")];
    for slot in &slots {
        scheduler.consider(Instant::new(1), slot, &rules(), &seen());
    }
    scheduler.pod_gone("a");
    assert_eq!(scheduler.tracked(), 2);
    scheduler.gone(&slots[2]);
    scheduler.gone(&slots[3]);
    assert_eq!(scheduler.tracked(), 0);
}

#[test]
fn no_more_containers_are_kept_in_mind_than_there_is_room_for() {
    let mut scheduler = Scheduler::new(6);
    let slots: Vec<_> =
        (0..=TRACKED_MAX).map(|n| slot(&format!("{}", n / 2), &format!("{}", n % 2))).collect();
    let now = Instant::new(1);
    for one in &slots {
        scheduler.consider(now, one, &rules(), &seen());
    }
    let last = slots.last().expect("some");
    let look = |scheduler: &mut Scheduler, slot| scheduler.consider(now, slot, &rules(), &seen()).why();
    assert_eq!(look(&mut scheduler, last), Why::TooMany);
    assert_eq!((scheduler.tracked(), scheduler.counters().untracked), (TRACKED_MAX, 2));
    scheduler.gone(&slots[0]);
    assert_eq!(look(&mut scheduler, last), Why::Window);
    for n in 0..=TRACKED_MAX / 2 {
        scheduler.pod_gone(&n.to_string());
    }
    assert_eq!((scheduler.tracked(), scheduler.next_due(now)), (0, None));
}

#[test]
fn the_next_turn_is_told_and_is_never_now() {
    let mut node = Node::new();
    assert_eq!(node.scheduler.next_due(node.now), None);
    let Decision::Wait { .. } = node.look() else { panic!("it waits") };
    let due = node.scheduler.next_due(node.now).expect("a turn");
    assert_eq!(node.scheduler.next_due(due), None, "it is due already");
    while node.now < due {
        assert_eq!(node.scheduler.next_due(node.now), Some(due));
        assert!(!matches!(node.look(), Decision::Shrink { .. }));
        node.now = node.now.after(STEP);
    }
    let Decision::Shrink { .. } = node.look() else { panic!("it is due") };
    assert_eq!(node.scheduler.next_due(node.now), None, "in flight");
    node.ends(Ended::Committed);
    assert_eq!(node.scheduler.next_due(node.now), Some(node.now.after(node.rules.interval)));
    node.scheduler.set_changes_per_hour(1);
    let next = node.scheduler.next_due(node.now).expect("a turn");
    assert!(next > node.now.after(HOUR.scaled(9, 10)), "the budget is spent");
    node.scheduler.set_changes_per_hour(0);
    assert_eq!(node.scheduler.next_due(node.now), None);
}
