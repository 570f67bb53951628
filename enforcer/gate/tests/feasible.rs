//! A gate that refuses everything is safe and useless, one that lets everything in is fast and kills. Over
//! random workloads of every class, against what they truly need: what is feasible is done, what is not is
//! never done, and nothing dies.

mod sim;

use enforcer_gate::{Bytes, Limit, Verdict};
use proptest::prelude::*;
use sim::{MIB, Shrink, Sim, Workload, policy};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Anon,
    /// Anonymous memory that goes up and down by a twentieth, three times a second.
    Breathing,
    /// Reads files without end.
    Cache,
    Tmpfs,
    Mlock,
    Dirty,
    /// Half of its anonymous memory is cold, and there is swap for it.
    Swap,
}

#[derive(Debug, Clone, Copy)]
struct Case {
    class: Class,
    need: u64,
    cache: u64,
}

impl Case {
    fn sim(self) -> (Sim, Workload) {
        let need = self.need;
        let mut sim = Sim::new((need + self.cache) * 2);
        sim.cache = self.cache;
        let rest = need - sim.kernel;
        let mut workload: Workload = sim::idle();
        match self.class {
            Class::Anon => sim.anon = rest,
            Class::Breathing => {
                sim.anon = rest;
                workload = Box::new(move |sim| {
                    let low = rest - rest / 20;
                    if sim.now.get() / 166_000 % 2 == 0 {
                        sim.anon = sim.anon.min(low);
                    } else {
                        let room = rest.saturating_sub(sim.anon).min(MIB / 4);
                        sim.charge(room, |sim| &mut sim.anon);
                    }
                });
            }
            Class::Cache => {
                sim.anon = rest;
                workload = Box::new(|sim| sim.read_cache(MIB / 2));
            }
            Class::Tmpfs => sim.shmem = rest,
            Class::Mlock => sim.locked = rest,
            Class::Dirty => {
                sim.anon = rest - rest / 4;
                sim.cache += rest / 4;
                sim.dirty = rest / 4;
            }
            Class::Swap => {
                sim.anon = rest * 2;
                sim.swap_free = rest;
            }
        }
        (sim, workload)
    }
}

fn case() -> impl Strategy<Value = Case> {
    let class = prop_oneof![
        Just(Class::Anon),
        Just(Class::Breathing),
        Just(Class::Cache),
        Just(Class::Tmpfs),
        Just(Class::Mlock),
        Just(Class::Dirty),
        Just(Class::Swap),
    ];
    (class, 32_u64..512, 0_u64..512).prop_map(|(class, need, cache)| Case {
        class,
        need: need * MIB,
        cache: cache * MIB,
    })
}

/// The oracle: a bare write to `memory.max` on a twin, and the workload for a while after.
fn survives(case: Case, max: u64) -> bool {
    let (mut sim, mut workload) = case.sim();
    let max = max / 4096 * 4096;
    sim.max = Limit::Bytes(Bytes::new(max));
    let over = sim.usage().saturating_sub(max);
    if sim.reclaim(over) < over {
        return false;
    }
    for _ in 0..2_000 {
        sim.tick(&mut workload);
    }
    !sim.killed
}

/// The lowest limit that a twin survives, to a sixteenth of a MiB.
fn true_minimum(case: Case) -> u64 {
    let (mut dies, mut lives) = (0, case.need * 3 + case.cache);
    while lives - dies > MIB / 16 {
        let middle = dies + (lives - dies) / 2;
        if survives(case, middle) {
            lives = middle;
        } else {
            dies = middle;
        }
    }
    lives
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn feasible_shrinks_are_done_and_others_never(case in case(), permille in 300_u64..2_000) {
        let minimum = true_minimum(case);
        let target = minimum * permille / 1000;
        let (sim, mut workload) = case.sim();
        let Limit::Bytes(before) = sim.max else { unreachable!("the case sets a limit") };
        prop_assume!(target < before.get());
        let mut shrink = Shrink::new(policy(), sim);
        let certificate = shrink.run_to_end(target, &mut workload);
        prop_assert!(!shrink.sim.killed, "{certificate:#?}");

        let committed = certificate.verdict == Verdict::Committed;
        if permille >= 1_250 {
            prop_assert!(committed, "feasible at {permille} thousandths: {}", certificate.one_line());
        }
        if permille < 1_000 {
            prop_assert!(!committed, "{}", certificate.one_line());
        }
        let left = if committed { target / 4096 * 4096 } else { before.get() };
        shrink.assert_limits(left, Limit::Max);

        let safe = certificate.safe_minimum.expect("every verdict has it").get();
        prop_assert!(safe >= minimum, "safe minimum {safe} under {minimum}");
        prop_assert!(safe * 4 <= minimum * 5, "safe minimum {safe} over 1.25 x {minimum}");
    }

    /// What a refusal offers is not refused again.
    #[test]
    fn the_safe_minimum_that_is_offered_is_good(case in case()) {
        let (sim, mut workload) = case.sim();
        let mut shrink = Shrink::new(policy(), sim);
        let refused = shrink.run_to_end(case.need / 2, &mut workload);
        prop_assert!(matches!(refused.verdict, Verdict::Refused(_)));
        let safe = refused.safe_minimum.expect("a refusal has it").get();
        let certificate = shrink.run_to_end(safe, &mut workload);
        prop_assert!(certificate.verdict == Verdict::Committed, "{}", certificate.one_line());
        prop_assert!(!shrink.sim.killed);
    }
}
