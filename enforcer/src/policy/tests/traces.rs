//! What the schedule never does, over random days of random nodes.

use super::super::{LEARNED_FOR, Margin, OOM_KILL_INTERVALS};
use super::world::{Container, Happened, Trouble, Workload, World};
use super::*;
use proptest::prelude::*;

fn workload() -> impl Strategy<Value = Workload> {
    prop_oneof![
        (8_u64..700).prop_map(Workload::Steady),
        (8_u64..900).prop_map(Workload::Walk),
        (8_u64..200, 8_u64..600, 5_u64..600).prop_map(|(low, high, minutes)| Workload::Period {
            low,
            high,
            period: MINUTE.scaled(minutes, 1)
        }),
    ]
}

fn some_rules() -> impl Strategy<Value = Rules> {
    let ceiling = prop_oneof![3 => Just(Limit::Max), 1 => (20_u64..600).prop_map(limit)];
    let figures = (8_u64..100, ceiling, 0_u32..60, 0_u64..64, 1_u64..64);
    let times = (1_u64..60, 1_u64..8, 1_u64..180);
    (figures, times).prop_map(|((floor, ceiling, percent, margin, gain), (interval, stretch, window))| {
        let interval = MINUTE.scaled(interval, 1);
        Rules {
            floor: mib(floor),
            ceiling,
            margin: Margin { percent, bytes: mib(margin) },
            gain_min: mib(gain),
            interval,
            interval_max: interval.scaled(stretch, 1),
            window: MINUTE.scaled(window, 1),
            ..rules()
        }
    })
}

fn trouble() -> impl Strategy<Value = Trouble> {
    let seldom = || prop_oneof![Just(0_u64), 2_u64..20, 20_u64..2000];
    (seldom(), seldom(), seldom(), 200_u64..4000, 200_u64..4000, 0_u64..8).prop_map(
        |(pressure, unread, raise, restart, pause, fail)| Trouble {
            pressure,
            unread,
            raise,
            restart,
            pause,
            fail,
        },
    )
}

#[derive(Debug, Clone)]
struct Setup {
    changes_per_hour: u32,
    containers: Vec<(u8, Rules, Workload, u64)>,
    trouble: Trouble,
    seed: u64,
    step: Micros,
}

fn setup() -> impl Strategy<Value = Setup> {
    let container = (0_u8..3, some_rules(), workload(), 64_u64..1024);
    let containers = prop::collection::vec(container, 1..6);
    (1_u32..12, containers, trouble(), any::<u64>(), 15_u64..90).prop_map(
        |(changes_per_hour, containers, trouble, seed, step)| Setup {
            changes_per_hour,
            containers,
            trouble,
            seed,
            step: Micros::from_secs(step),
        },
    )
}

impl Setup {
    fn run(&self, span: Micros) -> World {
        let containers = self.containers.iter().enumerate().map(|(i, (pod, rules, workload, specified))| {
            Container::new(
                slot(&format!("pod-{pod}"), &format!("c{i}")),
                rules.clone(),
                *workload,
                *specified,
            )
        });
        let mut world = World::new(self.changes_per_hour, containers.collect(), self.trouble, self.seed);
        world.run(span, self.step);
        world
    }
}

/// What is remembered of one container to judge the next attempt by.
#[derive(Debug, Default, Clone)]
struct Past {
    safe_minima: Vec<(Instant, Bytes)>,
    since: Option<Instant>,
    begun: Option<Instant>,
    killed: Option<Instant>,
    raised: Option<Instant>,
    pressed: Option<Instant>,
    limit: Option<Limit>,
    too_low: Vec<(Instant, Bytes)>,
    waits: Option<Instant>,
    in_flight: bool,
}

/// Reads a world's story and fails at what must not be.
struct Judge<'a> {
    setup: &'a Setup,
    world: &'a World,
    pasts: Vec<Past>,
    begun: Vec<Instant>,
}

impl Judge<'_> {
    fn judge(setup: &Setup, world: &World) -> Result<(), TestCaseError> {
        let pasts = vec![Past::default(); world.containers.len()];
        let mut judge = Judge { setup, world, pasts, begun: Vec::new() };
        for (now, at, happened) in &world.story {
            judge.line(*now, *at, happened)?;
        }
        prop_assert_eq!(world.scheduler.counters().begun, judge.begun.len() as u64);
        prop_assert_eq!(world.scheduler.counters().lost, 0);
        Ok(())
    }

    fn line(&mut self, now: Instant, at: usize, happened: &Happened) -> Result<(), TestCaseError> {
        let past = &mut self.pasts[at];
        match happened {
            Happened::Started => {
                past.since = None;
                past.safe_minima.clear();
                past.limit = None;
            }
            Happened::Killed(limit) => {
                past.killed = Some(now);
                past.too_low.push((now, mib(*limit)));
            }
            Happened::Ended(target, ended) => {
                past.in_flight = false;
                match ended {
                    Ended::TooLow | Ended::Killed => past.too_low.push((now, *target)),
                    Ended::Committed => past.limit = Some(Limit::Bytes(*target)),
                    Ended::Failed | Ended::Unjudged => {}
                }
            }
            Happened::Looked(seen, decision) => self.looked(now, at, seen, *decision)?,
        }
        Ok(())
    }

    fn looked(
        &mut self,
        now: Instant,
        at: usize,
        seen: &Seen,
        decision: Decision,
    ) -> Result<(), TestCaseError> {
        let rules = &self.world.containers[at].rules;
        let past = &mut self.pasts[at];
        past.since = past.since.or(Some(now));
        past.safe_minima.extend(seen.safe_minimum.map(|safe| (now, safe)));
        if seen.psi_some_avg10 > rules.pressure_avg10 {
            past.pressed = Some(now);
        }
        if past.limit.is_some_and(|limit| seen.limit > limit) {
            past.raised = Some(now);
        }
        past.limit = Some(seen.limit);
        match decision {
            Decision::Shrink { target, why: Why::Gain } => self.begins(now, at, seen, target),
            Decision::Shrink { why, .. } => Err(TestCaseError::fail(format!("a shrink for {why}"))),
            Decision::Wait { until, .. } => {
                prop_assert!(until > now, "a wait is for something to come");
                past.waits = Some(until);
                Ok(())
            }
            Decision::Blocked { why } => {
                prop_assert!(!matches!(why, Why::TooMany | Why::NoBudget | Why::Observe | Why::Guard));
                Ok(())
            }
        }
    }

    fn begins(&mut self, now: Instant, at: usize, seen: &Seen, target: Bytes) -> Result<(), TestCaseError> {
        let Container { rules, slot, .. } = &self.world.containers[at];
        let past = &self.pasts[at];
        let long_ago = |when: Option<Instant>, span: Micros| when.is_none_or(|when| now.since(when) >= span);

        prop_assert!(!seen.paused && !seen.in_flight && !seen.pod_busy);
        let busy =
            self.world.containers.iter().zip(&self.pasts).any(|(c, p)| c.slot.pod == slot.pod && p.in_flight);
        prop_assert!(!busy, "one of a pod at a time");

        prop_assert_eq!(target.get() % mib(1).get(), 0);
        let Limit::Bytes(limit) = seen.limit else { panic!("the model's limits are numbers") };
        prop_assert!(limit.saturating_sub(target) >= rules.gain_min, "worth it");
        prop_assert!(target >= rules.floor);
        let ceiling = rules.ceiling.max(Limit::Bytes(rules.floor));
        prop_assert!(Limit::Bytes(target) <= ceiling);
        let window = past.safe_minima.iter().filter(|(when, _)| now.since(*when) < rules.window);
        let safe = window.map(|(_, safe)| *safe).max().expect("one was seen");
        prop_assert!(Some(safe) >= seen.safe_minimum && seen.safe_minimum.is_some());
        prop_assert!(target >= safe);
        let whole = target >= safe.saturating_add(rules.margin.of(safe));
        prop_assert!(whole || Limit::Bytes(target) == ceiling, "only the ceiling takes from the margin");

        prop_assert!(
            long_ago(past.since, rules.interval.max(rules.window)),
            "not young, and seen for a window"
        );
        prop_assert!(long_ago(past.begun, rules.interval), "one an interval");
        prop_assert!(long_ago(past.killed, rules.interval.scaled(OOM_KILL_INTERVALS, 1)));
        let stretched = rules.interval.scaled(2, 1).min(rules.interval_max);
        prop_assert!(long_ago(past.pressed, stretched) && long_ago(past.raised, stretched));
        prop_assert!(past.waits.is_none_or(|until| now >= until), "not before what was told");
        for (when, too_low) in &past.too_low {
            prop_assert!(
                now.since(*when) >= LEARNED_FOR || target > *too_low,
                "what failed is not tried again"
            );
            prop_assert!(now.since(*when) >= stretched);
        }

        self.begun.push(now);
        let hour = self.begun.iter().rev().take_while(|begun| now.since(**begun) < HOUR).count();
        prop_assert!(hour <= self.setup.changes_per_hour as usize, "{hour} within an hour");
        let past = &mut self.pasts[at];
        past.begun = Some(now);
        past.in_flight = true;
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn nothing_that_must_not_be_and_the_same_again(setup in setup()) {
        let mut world = setup.run(HOUR.scaled(36, 1));
        Judge::judge(&setup, &world)?;
        prop_assert_eq!(&world.story, &setup.run(HOUR.scaled(36, 1)).story, "the same again");

        prop_assert!(world.scheduler.tracked() <= world.containers.len());
        for container in &world.containers {
            world.scheduler.gone(&container.slot);
        }
        prop_assert_eq!(world.scheduler.tracked(), 0);
        prop_assert_eq!(world.scheduler.next_due(world.now), None);
    }
}

fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![2 => 0_u64..1 << 31, 1 => any::<u64>(), 1 => (u64::MAX - 9)..=u64::MAX, 1 => Just(0)]
}

fn extreme_rules() -> impl Strategy<Value = Rules> {
    let bound = prop::option::of(amount())
        .prop_map(|amount| amount.map_or(Limit::Max, |n| Limit::Bytes(Bytes::new(n))));
    let times = (amount(), amount(), amount()).prop_map(|(a, b, c)| [a, b, c].map(Micros::new));
    (amount(), bound, any::<u32>(), amount(), amount(), times, amount()).prop_map(
        |(floor, ceiling, percent, margin, gain, [interval, interval_max, window], pressure)| Rules {
            floor: Bytes::new(floor),
            ceiling,
            margin: Margin { percent, bytes: Bytes::new(margin) },
            gain_min: Bytes::new(gain),
            interval,
            interval_max,
            window,
            pressure_avg10: pressure,
            ..rules()
        },
    )
}

#[derive(Debug, Clone)]
enum Do {
    Look(Box<Rules>, Seen),
    End(Ended),
    Kill,
    Gone,
    Budget(u32),
}

fn anything() -> impl Strategy<Value = Do> {
    let flags = any::<[bool; 3]>();
    let seen = (0_u64..3, prop::option::of(amount()), amount(), prop::option::of(amount()), amount(), flags)
        .prop_map(|(cgroup, limit, usage, safe_minimum, psi_some_avg10, flags)| Seen {
            cgroup: CgroupId::new(cgroup),
            limit: limit.map_or(Limit::Max, |n| Limit::Bytes(Bytes::new(n))),
            usage: Bytes::new(usage),
            safe_minimum: safe_minimum.map(Bytes::new),
            psi_some_avg10,
            in_flight: flags[0] && flags[1],
            paused: flags[1] && flags[2],
            pod_busy: flags[2] && flags[0],
        });
    let ended = prop_oneof![
        Just(Ended::Committed),
        Just(Ended::TooLow),
        Just(Ended::Killed),
        Just(Ended::Failed),
        Just(Ended::Unjudged),
    ];
    prop_oneof![
        12 => (extreme_rules(), seen).prop_map(|(rules, seen)| Do::Look(Box::new(rules), seen)),
        4 => ended.prop_map(Do::End),
        1 => Just(Do::Kill),
        1 => Just(Do::Gone),
        1 => any::<u32>().prop_map(Do::Budget),
    ]
}

proptest! {
    #[test]
    fn nothing_wraps_and_no_order_of_times_panics(
        rules in extreme_rules(),
        steps in prop::collection::vec((anything(), amount(), 0_usize..2, any::<bool>()), 1..60),
    ) {
        let slots = [slot("a", "b"), slot("a", "c")];
        let mut scheduler = Scheduler::new(3);
        for (what, now, at, same) in steps {
            let now = Instant::new(now);
            match what {
                Do::Look(other, seen) => {
                    let rules = if same { &rules } else { &*other };
                    match scheduler.consider(now, &slots[at], rules, &seen) {
                        Decision::Shrink { target, .. } => {
                            prop_assert!(Some(target) >= seen.safe_minimum && target >= rules.floor);
                            prop_assert!(Limit::Bytes(target) < seen.limit);
                        }
                        Decision::Wait { until, .. } => prop_assert!(until > now || now.get() == u64::MAX),
                        Decision::Blocked { .. } => {}
                    }
                }
                Do::End(ended) => scheduler.ended(now, &slots[at], ended),
                Do::Kill => scheduler.oom_killed(now, &slots[at]),
                Do::Gone => scheduler.gone(&slots[at]),
                Do::Budget(changes) => scheduler.set_changes_per_hour(changes),
            }
            prop_assert!(scheduler.next_due(now).is_none_or(|due| due > now));
        }
    }
}
