use super::*;
use proptest::prelude::*;

const MIB: f64 = 1_048_576.0;

fn node(step: usize, pods: u32, left: f64) -> NodeSample {
    NodeSample {
        step,
        pods,
        made: 0,
        available: bytes(left),
        on_cpus: Bytes::ZERO,
        known: BTreeMap::new(),
        unsettled: false,
        probes: 0,
    }
}

/// A node that loses `each` a pod and `drift` a step, and is off by `noise` now up, now down.
fn nodes(each: f64, drift: f64, noise: f64) -> Vec<NodeSample> {
    let order = [4_u32, 0, 8, 2, 6, 8, 0, 6, 2, 4];
    let each_step = order.iter().enumerate().map(|(step, pods)| {
        let at = f64::from(u32::try_from(step).expect("few"));
        let off = if step % 2 == 0 { noise } else { -noise };
        node(step, *pods, 1500.0 * MIB - f64::from(*pods) * each - at * drift + off)
    });
    each_step.collect()
}

fn verdict(each: f64, drift: f64, noise: f64, attributed: f64) -> Verdict {
    accept(&nodes(each * MIB, drift * MIB, noise * MIB), attributed * MIB).expect("enough").verdict
}

#[test]
fn a_sum_that_the_node_confirms_is_accepted_and_others_are_not() {
    use Verdict::{Accepted, Inconclusive, Unexplained};
    for (each, drift, noise, attributed, expected) in [
        (10.0, 0.0, 0.0, 10.0, Accepted),
        (10.0, 0.0, 0.1, 9.2, Accepted),
        (10.0, 0.0, 0.1, 11.0, Accepted),
        (10.0, 3.0, 0.1, 10.0, Accepted),
        // Half of it is not there.
        (10.0, 0.0, 0.1, 5.0, Unexplained),
        (10.0, 3.0, 0.1, 5.0, Unexplained),
        // The node misses less than was attributed.
        (10.0, 0.0, 0.1, 13.0, Unexplained),
        // It may be, and may not.
        (10.0, 0.0, 20.0, 10.0, Inconclusive),
        (10.0, 0.0, 20.0, 5.0, Inconclusive),
        (10.0, 0.0, 0.1, 8.5, Inconclusive),
        // Nothing was lost.
        (0.0, 0.0, 0.1, 5.0, Unexplained),
        (-1.0, 0.0, 0.0, 0.0, Unexplained),
    ] {
        let found = verdict(each, drift, noise, attributed);
        assert_eq!(found, expected, "{each} {drift} {noise} {attributed}");
    }
}

#[test]
fn drift_is_told_apart_from_pods() {
    let found = accept(&nodes(10.0 * MIB, 3.0 * MIB, 0.0), 10.0 * MIB).expect("enough");
    let drift = found.drift.expect("enough for it");
    assert!((found.slope.value / MIB - 10.0).abs() < 0.01 && (drift / MIB - 3.0).abs() < 0.01, "{found:?}");
}

#[test]
fn too_few_readings_say_nothing() {
    let all = nodes(MIB, 0.0, 0.0);
    assert_eq!(accept(&all[..2], MIB), None);
    assert_eq!(accept(&[], MIB), None);
    let same: Vec<_> = (0..9).map(|step| node(step, 3, MIB)).collect();
    assert_eq!(accept(&same, MIB), None, "one size of step has no slope");
    assert!(accept(&all[..3], MIB).is_some());
}

#[test]
fn ranks() {
    let of = |figures: &[u64]| spread(figures.iter().copied().map(Bytes::new).collect());
    assert_eq!(of(&[]), None);
    let one = of(&[7]).expect("one");
    assert_eq!([one.mean, one.p50, one.p95, one.p99].map(Bytes::get), [7; 4]);
    let all: Vec<u64> = (1..=200).rev().collect();
    let many = of(&all).expect("many");
    assert_eq!([many.mean, many.p50, many.p95, many.p99].map(Bytes::get), [100, 100, 190, 198]);
    assert_eq!(of(&[u64::MAX, u64::MAX]).expect("two").mean.get(), u64::MAX);
}

#[test]
fn whole_mebibytes_upwards() {
    for (bytes, rounded) in [(0, 0), (1, 1 << 20), (1 << 20, 1 << 20), ((1 << 20) + 1, 2 << 20)] {
        assert_eq!(round_up_mib(Bytes::new(bytes)).get(), rounded);
    }
    assert!(round_up_mib(Bytes::new(u64::MAX)).get() > u64::MAX - (1 << 20));
}

proptest! {
    #[test]
    fn a_wider_interval_never_turns_no_into_yes(
        value in -1e8..1e8_f64, half in 0.0..1e8_f64, more in 0.0..1e8_f64, attributed in 0.0..1e8_f64,
    ) {
        let at = |half| judge(Interval { value, low: value - half, high: value + half }, attributed);
        let (narrow, wide) = (at(half), at(half + more));
        prop_assert!(wide == narrow || wide == Verdict::Inconclusive, "{narrow:?} {wide:?}");
        if narrow == Verdict::Accepted {
            prop_assert!((value - attributed).abs() <= TOLERANCE * value);
        }
    }

    #[test]
    fn ranks_are_figures_in_order(figures in proptest::collection::vec(any::<u64>(), 1..200)) {
        let found = spread(figures.iter().copied().map(Bytes::new).collect()).expect("some");
        prop_assert!(found.p50 <= found.p95 && found.p95 <= found.p99);
        for rank in [found.p50, found.p95, found.p99] {
            prop_assert!(figures.contains(&rank.get()));
        }
        let below = figures.iter().filter(|figure| **figure <= found.p95.get()).count();
        prop_assert!(below * 100 >= figures.len() * 95);
    }

    #[test]
    fn what_was_put_in_comes_out(each in 1.0..50.0_f64, drift in -2.0..2.0_f64) {
        let found = accept(&nodes(each * MIB, drift * MIB, 0.0), each * MIB).expect("enough");
        prop_assert!((found.slope.value - each * MIB).abs() < 16.0, "{found:?}");
        prop_assert_eq!(found.verdict, Verdict::Accepted);
    }
}

/// Whatever was read: nothing wraps and nothing is no number.
mod of_anything {
    use super::*;
    use crate::overhead::{
        cpu::Cpu,
        measured::measured,
        model::{Flag, PodSample, Run},
    };
    use enforcer_gate::Micros;

    fn terms() -> impl Strategy<Value = BTreeMap<Term, Bytes>> {
        proptest::array::uniform12(any::<u64>())
            .prop_map(|bytes| Term::ALL.into_iter().zip(bytes.map(Bytes::new)).collect())
    }

    fn sample() -> impl Strategy<Value = PodSample> {
        (terms(), any::<[u64; 4]>(), any::<Option<u64>>(), any::<bool>()).prop_map(
            |(terms, cpu, peak, gone)| {
                let [span, pod, helpers, reaped] = cpu.map(Micros::new);
                let mut sample = measured(2, "").pods.swap_remove(0);
                sample.terms = terms;
                sample.cpu = Some(Cpu { span, pod, helpers, reaped });
                sample.peak = peak.map(Bytes::new);
                sample.flags = if gone { vec![Flag::ProcessGone { pid: 1 }] } else { Vec::new() };
                sample
            },
        )
    }

    proptest! {
        #[test]
        fn a_result_has_only_numbers(
            samples in proptest::collection::vec(sample(), 0..6),
            books in proptest::collection::vec((any::<u32>(), any::<[u64; 3]>()), 0..12),
            margin in any::<u64>(),
        ) {
            let nodes = books.iter().enumerate().map(|(step, (pods, [available, on_cpus, known]))| NodeSample {
                available: Bytes::new(*available),
                on_cpus: Bytes::new(*on_cpus),
                known: [("others".to_owned(), Bytes::new(*known))].into(),
                ..node(step, *pods, 0.0)
            });
            let run = Run { nodes: nodes.collect(), pods: samples, ..measured(2, "") };
            let Some(result) = outcome(&run, Bytes::new(margin)) else { return Ok(()) };
            prop_assert!(result.pod_fixed >= result.total.p95 || result.pod_fixed.get() > u64::MAX - (1 << 20));
            prop_assert_eq!(result.incomplete, run.pods.iter().filter(|pod| !pod.is_complete()).count());
            let json = serde_json::to_value(&result).expect("is JSON");
            let numbers = [&json["acceptance"]["slope"]["value"], &json["acceptance"]["unexplained"], &json["cpu"]["p95"]];
            prop_assert!(numbers.iter().all(|number| number.is_number()), "{}", json);
        }
    }
}
