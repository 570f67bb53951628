//! The invariants of the gate, held by name over random traces.

mod world;

use enforcer_gate::{Action, Bytes, Gate, Limit, LimitFile, Micros, Policy, Reason, Signal, State, Verdict};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::collections::BTreeSet;
use world::{Answer, MAX, Op, Record, Workload, World};

fn policy() -> Policy {
    Policy {
        observe_window: Micros::from_millis(100),
        trial_window: Micros::from_millis(600),
        watch_window: Micros::from_millis(100),
        sample_interval: Micros::from_millis(40),
        back_off: Micros::from_secs(5),
        ..Policy::default()
    }
}

fn workload() -> impl Strategy<Value = Workload> {
    let amount = || prop_oneof![8 => 0_u64..(60 << 20), 1 => Just(u64::MAX), 1 => any::<u64>()];
    let flag = |p| prop::bool::weighted(p);
    (amount(), amount(), 0_u64..(8 << 20), 0_u64..50, 0_u64..30_000, 0_u64..2_000).prop_flat_map(
        move |(anon, cache, dirty, high_events, stall, refaults)| {
            (flag(0.05), flag(0.9), flag(0.05), flag(0.9)).prop_map(
                move |(oom, populated, frozen, pressure)| Workload {
                    anon,
                    cache,
                    dirty,
                    high_events,
                    stall,
                    refaults,
                    oom,
                    populated,
                    frozen,
                    pressure,
                },
            )
        },
    )
}

fn signal() -> impl Strategy<Value = Signal> {
    let file = prop_oneof![Just(LimitFile::High), Just(LimitFile::Max)];
    let limit = prop_oneof![Just(Limit::Max), (0_u64..2 * MAX).prop_map(|n| Limit::Bytes(Bytes::new(n)))];
    prop_oneof![
        8 => Just(Signal::ReclaimBegin),
        4 => (0_u64..1_000_000, 0_u64..10_000)
            .prop_map(|(b, t)| Signal::ReclaimEnd { reclaimed: Bytes::new(b), took: Micros::new(t) }),
        4 => Just(Signal::Pressure),
        4 => Just(Signal::EventsChanged),
        1 => any::<bool>().prop_map(|own_limit| Signal::OomKill { victim_pid: 9, own_limit }),
        1 => (file, limit).prop_map(|(file, new)| Signal::LimitWritten { file, new, writer_pid: 3 }),
        1 => Just(Signal::ProbeFailed),
        1 => Just(Signal::Gone),
        1 => Just(Signal::Cancel),
        1 => Just(Signal::RestorerGone),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let answer = prop_oneof![
        40 => Just(Answer::Well),
        1 => Just(Answer::Fail),
        1 => Just(Answer::Superseded),
        1 => Just(Answer::Gone),
        2 => Just(Answer::TooHigh),
        1 => Just(Answer::Wrong),
    ];
    let flag = prop::bool::weighted;
    let request =
        (0_u64..1_100, flag(0.1), flag(0.1), flag(0.3)).prop_map(|(permille, dry_run, killer, by_other)| {
            Op::Request { permille, dry_run, killer, by_other }
        });
    prop_oneof![
        40 => Just(Op::Proceed),
        10 => answer.prop_map(Op::Answer),
        4 => (0_u64..3_000).prop_map(Op::Timeout),
        4 => prop_oneof![9 => 0_u64..50_000, 1 => 0_u64..20_000_000].prop_map(Op::Wait),
        2 => prop_oneof![0_u64..100_000, 0_u64..60_000_000, 0_u64..1 << 50].prop_map(Op::Jump),
        6 => signal().prop_map(Op::Signal),
        5 => request,
        3 => any::<bool>().prop_map(|told| Op::Other { told }),
        2 => (0_u64..50).prop_map(Op::Stray),
        4 => workload().prop_map(Op::Workload),
    ]
}

/// A trace that mostly goes well begins most traces, so that the late states are reached.
fn trace() -> impl Strategy<Value = Vec<Op>> {
    let target = prop_oneof![3 => Just(500_u64), 1 => 200_u64..1_000];
    let ops = prop::collection::vec(op(), 0..60);
    (target, prop::bool::weighted(0.3), 0_usize..70, ops).prop_map(|(permille, by_other, well, ops)| {
        let mut trace = vec![Op::Request { permille, dry_run: false, killer: false, by_other }];
        trace.resize(1 + well, Op::Proceed);
        trace.extend(ops);
        trace
    })
}

fn run(ops: &[Op], high: Option<u64>) -> Record {
    let mut world = World::new(&policy());
    if let Some(high) = high {
        world.set_high(high);
    }
    world.carry_out(ops);
    world.record
}

fn config() -> ProptestConfig {
    let base = ProptestConfig::default();
    ProptestConfig { cases: 500, failure_persistence: None, max_global_rejects: 20_000, ..base }
}

fn present_high() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![3 => Just(None), 1 => (30_u64 << 20..120 << 20).prop_map(|n| Some(n / 4096 * 4096))]
}

proptest! {
    #![proptest_config(config())]

    /// Never a lower limit under the last floor and headroom; at most one command in flight; every way
    /// out restores; no state without a deadline, and time alone ends each: see `World`.
    #[test]
    fn every_trace_keeps_the_invariants(ops in trace(), high in present_high()) {
        run(&ops, high);
    }

    /// Same trace, same commands, same evidence.
    #[test]
    fn same_trace_same_commands(ops in trace(), high in present_high()) {
        prop_assert_eq!(run(&ops, high), run(&ops, high));
    }

    /// No flapping: after a failure the same target, or a lower one, is not tried again before the
    /// back-off is over, as long as the floor has not fallen.
    #[test]
    fn a_failed_target_is_not_tried_again_at_once(
        ops in failing_trace(), soon in 0_u64..4_000_000, more in 0_u64..3, lower in 0_u64..100,
    ) {
        let mut world = World::new(&policy());
        world.carry_out(&ops);
        let failed = world.record.certificates.last().expect("it ended").clone();
        let counts = match &failed.verdict {
            Verdict::RolledBack(reason) => matches!(
                reason,
                Reason::Growth { .. } | Reason::BrakeLivelock | Reason::StallBudget | Reason::OomKill { .. }
                    | Reason::ProbeFailed | Reason::Refaults
            ),
            Verdict::Refused(reason) => matches!(reason, Reason::BelowSafeMinimum),
            Verdict::Committed | Verdict::Feasible | Verdict::Failed(_) => false,
        };
        prop_assume!(counts);
        let peak = failed.peak.expect("a reading").floor.bytes.get();
        // As much as before, or more.
        let anon = peak.saturating_add(more << 20);
        let again = Workload { anon, cache: 0, ..Workload::quiet() };
        let permille = failed.target.scaled(1000, MAX).get().saturating_sub(lower);
        let mut second = vec![
            Op::Wait(soon),
            Op::Workload(again),
            Op::Request { permille, dry_run: false, killer: false, by_other: false },
        ];
        second.resize(100, Op::Proceed);
        let tried_before = world.record.commands.len();
        world.carry_out(&second);
        let verdict = &world.record.certificates.last().unwrap().verdict;
        prop_assert!(matches!(verdict, Verdict::Refused(_)), "{verdict:?} after {:?}", failed.verdict);
        let touched = world.record.commands[tried_before..]
            .iter()
            .any(|command| !matches!(command.action, Action::Observe));
        prop_assert!(!touched, "a failed target was tried again");
    }
}

/// A shrink that goes well for a while, then does not.
fn failing_trace() -> impl Strategy<Value = Vec<Op>> {
    let quiet = Workload::quiet();
    let spoil = prop_oneof![
        Just(Op::Workload(Workload { anon: 70 << 20, ..quiet })),
        Just(Op::Workload(Workload { stall: 300_000, ..quiet })),
        Just(Op::Workload(Workload { high_events: 1_000, cache: 40 << 20, ..quiet })),
        Just(Op::Workload(Workload { oom: true, ..quiet })),
        Just(Op::Signal(Signal::ProbeFailed)),
        Just(Op::Signal(Signal::OomKill { victim_pid: 8, own_limit: true })),
    ];
    (400_u64..600, 0_usize..60, spoil).prop_map(|(permille, well, spoil)| {
        let mut trace = vec![Op::Request { permille, dry_run: false, killer: false, by_other: false }];
        trace.resize(1 + well, Op::Proceed);
        trace.push(spoil);
        trace.resize(150, Op::Proceed);
        trace
    })
}

/// Without this the properties above could pass by never getting anywhere.
#[test]
fn traces_reach_every_state_and_verdict() {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut seen = BTreeSet::new();
    let strategy = (prop_oneof![2 => trace(), 1 => failing_trace()], present_high());
    for _ in 0..1_500 {
        let (ops, high) = strategy.new_tree(&mut runner).unwrap().current();
        let record = run(&ops, high);
        seen.extend(record.states.iter().map(ToString::to_string));
        for certificate in record.certificates {
            let words = format!("{:?}", certificate.verdict).replace(['(', ')', '{'], " ");
            seen.insert(words.split_whitespace().take(2).collect::<Vec<_>>().join(" "));
        }
    }
    let states = "observing reclaiming trial committing watching restoring ended";
    let refused = "BelowSafeMinimum NotAShrink Frozen PressureKiller BackOff Cancelled OomKill \
                   LimitWritten Deadline Io ProbeFailed StallBudget RestorerGone Unseen";
    let rolled_back = "Growth StallBudget BrakeLivelock Refaults ProbeFailed OomKill LimitWritten \
                       Cancelled RestorerGone Deadline Io Frozen Unseen";
    let ended = |verdict: &'static str, reasons: &'static str| {
        reasons.split_whitespace().map(move |reason| format!("{verdict} {reason}"))
    };
    let expected = states
        .split_whitespace()
        .chain(["Committed", "Feasible"])
        .map(str::to_owned)
        .chain(ended("Refused", refused))
        .chain(ended("RolledBack", rolled_back))
        .chain(ended("Failed", "Gone Io"));
    let missed: Vec<String> = expected.filter(|name| !seen.contains(name)).collect();
    assert!(missed.is_empty(), "{missed:?} not reached; reached: {seen:?}");
}

/// Time that goes back does not move the gate's clock back.
#[test]
fn time_that_goes_back_counts_as_the_last() {
    let mut gate = Gate::new(policy()).unwrap();
    let request = enforcer_gate::Request {
        target: Bytes::from_mib(50),
        dry_run: false,
        pressure_killer: None,
        by_other: false,
    };
    gate.handle_signal(&Signal::Request(request), enforcer_gate::Instant::new(5_000_000));
    let due = gate.poll_timeout().unwrap();
    gate.handle_timeout(enforcer_gate::Instant::new(1));
    assert_eq!(gate.state(), State::Observing);
    assert_eq!(gate.poll_timeout(), Some(due));
}
