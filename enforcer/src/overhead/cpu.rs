//! CPU time of a pod beyond its containers, from two readings. No I/O; nothing wraps, and what would is flagged.

use super::model::Flag;
use enforcer_gate::Micros;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// CPU time of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Its own.
    pub own: Micros,
    /// Of its children that have ended and that it has waited for.
    pub reaped: Micros,
}

/// What was used up to one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Times {
    /// By the pod's cgroup (`usage_usec` of `cpu.stat`).
    pub pod: Micros,
    /// By its app containers' cgroups.
    pub apps: Micros,
    /// By each helper outside of the pod's cgroup, by process number and start.
    pub helpers: BTreeMap<(u32, u64), Used>,
}

/// What was used in a span in which no pod was made or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// How long that was.
    pub span: Micros,
    /// In the pod's cgroup, less its app containers.
    pub pod: Micros,
    /// By helpers outside of it.
    pub helpers: Micros,
    /// By processes that helpers outside of it have started and reaped, such as a runtime's for an exec probe; what the
    /// app containers used in the same span is taken off, for what an exec runs in a container is reaped as well.
    #[serde(default)]
    pub reaped: Micros,
}

impl Cpu {
    /// All of it.
    pub fn used(self) -> Micros {
        self.pod.saturating_add(self.helpers).saturating_add(self.reaped)
    }

    /// Thousandths of a CPU; zero of no time.
    #[expect(clippy::cast_precision_loss, reason = "exact up to 285 years")]
    pub fn millicores(self) -> f64 {
        if self.span == Micros::ZERO {
            return 0.0;
        }
        self.used().get() as f64 * 1000.0 / self.span.get() as f64
    }
}

/// What was used between two readings, `span` apart.
pub fn between(before: &Times, after: &Times, span: Micros) -> (Cpu, Vec<Flag>) {
    let mut flags = Vec::new();
    let mut less = |whole: Micros, part: Micros| {
        if part > whole {
            flags.push(Flag::ClampedCpu { by: part.saturating_sub(whole) });
        }
        whole.saturating_sub(part)
    };
    let pod = less(after.pod, before.pod);
    let apps = less(after.apps, before.apps);
    let pod = less(pod, apps);
    let (mut helpers, mut reaped) = (Micros::ZERO, Micros::ZERO);
    for (process, used) in &after.helpers {
        let before = before.helpers.get(process).copied().unwrap_or_default();
        helpers = helpers.saturating_add(less(used.own, before.own));
        reaped = reaped.saturating_add(less(used.reaped, before.reaped));
    }
    // No part of a whole, so nothing is odd where it is less.
    let reaped = reaped.saturating_sub(apps);
    let ended = before.helpers.keys().filter(|process| !after.helpers.contains_key(process));
    flags.extend(ended.map(|(pid, _)| Flag::ProcessGone { pid: *pid }));
    (Cpu { span, pod, helpers, reaped }, flags)
}

/// How the pods' CPU lies, in thousandths of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Millicores {
    /// Their mean.
    pub mean: f64,
    /// 95 of 100 are no larger.
    pub p95: f64,
    /// The number for the `RuntimeClass`.
    pub pod_fixed: u32,
}

/// The 95th percentile by nearest rank, and one more than that, whole. `None` without any.
pub fn spread(figures: impl IntoIterator<Item = Cpu>) -> Option<Millicores> {
    let mut figures: Vec<f64> = figures.into_iter().map(Cpu::millicores).collect();
    figures.sort_by(f64::total_cmp);
    let count = figures.len();
    let p95 = *figures.get((count * 95).div_ceil(100).max(1) - 1)?;
    let mean = figures.iter().sum::<f64>() / f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
    let pod_fixed = (p95.ceil() + 1.0) as u32;
    Some(Millicores { mean, p95, pod_fixed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOTHING: Cpu =
        Cpu { span: Micros::ZERO, pod: Micros::ZERO, helpers: Micros::ZERO, reaped: Micros::ZERO };

    fn times(pod: u64, apps: u64, helpers: &[(u32, u64)]) -> Times {
        let of = |used: &u64| Used { own: Micros::new(*used), reaped: Micros::new(used / 10) };
        let helpers = helpers.iter().map(|(pid, used)| ((*pid, 1), of(used))).collect();
        Times { pod: Micros::new(pod), apps: Micros::new(apps), helpers }
    }

    #[test]
    fn what_containers_use_is_no_overhead_and_what_helpers_use_is() {
        let before = times(1000, 400, &[(1, 50)]);
        let after = times(4000, 2400, &[(1, 1050), (2, 500)]);
        let (cpu, flags) = between(&before, &after, Micros::from_secs(1));
        assert_eq!((cpu.pod.get(), cpu.helpers.get(), flags), (1000, 1500, vec![]));
        assert_eq!(cpu.reaped, Micros::ZERO, "the containers used more than was reaped");
        assert!((cpu.millicores() - 2.5).abs() < 1e-9);
    }

    #[test]
    fn what_helpers_reap_is_overhead_but_for_what_ran_in_containers() {
        let (before, after) = (times(0, 0, &[(1, 500)]), times(70, 30, &[(1, 2500)]));
        let (cpu, flags) = between(&before, &after, Micros::from_secs(1));
        assert_eq!((cpu.pod.get(), cpu.helpers.get(), cpu.reaped.get()), (40, 2000, 200 - 30));
        assert_eq!(flags, []);
        assert!((cpu.millicores() - 2.21).abs() < 1e-9);
    }

    #[test]
    fn what_can_not_be_is_zero_and_said() {
        let by = |by| Flag::ClampedCpu { by: Micros::new(by) };
        // A container that used more than its pod; a counter that goes back.
        let (cpu, flags) = between(&times(0, 0, &[]), &times(10, 30, &[]), Micros::new(1));
        assert_eq!((cpu.pod, flags), (Micros::ZERO, vec![by(20)]));
        let (cpu, flags) = between(&times(10, 0, &[(1, 19)]), &times(4, 0, &[(1, 2)]), Micros::new(1));
        assert_eq!((cpu.pod, cpu.helpers, flags), (Micros::ZERO, Micros::ZERO, vec![by(6), by(17), by(1)]));
        let (_, flags) = between(&times(0, 0, &[(1, 9)]), &times(0, 0, &[]), Micros::new(1));
        assert_eq!(flags, [Flag::ProcessGone { pid: 1 }]);
        let none = Cpu { pod: Micros::new(1), ..NOTHING };
        assert!(none.millicores().abs() < f64::EPSILON);
    }

    #[test]
    fn the_number_is_enough_for_95_of_100() {
        let cpu = |used| Cpu { span: Micros::from_secs(1), pod: Micros::new(used), ..NOTHING };
        let spread = spread((1..=100).map(|milli| cpu(milli * 1000))).expect("some");
        assert_eq!((spread.p95, spread.mean, spread.pod_fixed), (95.0, 50.5, 96));
        assert_eq!(super::spread([]), None);
    }

    proptest! {
        #[test]
        fn nothing_wraps(numbers in any::<[u64; 6]>(), span in any::<u64>()) {
            let [a, b, c, d, e, f] = numbers;
            let (cpu, _) = between(&times(a, b, &[(1, e)]), &times(c, d, &[(1, f)]), Micros::new(span));
            prop_assert!(cpu.pod.get() <= c && cpu.helpers.get() <= f && cpu.reaped.get() <= f);
            prop_assert!(cpu.millicores().is_finite() && cpu.millicores() >= 0.0);
        }
    }
}
