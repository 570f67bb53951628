//! What the restorer sees by itself while the lower limit is in force: a usage that the brake does not hold. No I/O.
//!
//! In the watch the session takes back long before that. Where it does not come to it (no CPU for it, stopped, frozen),
//! a workload that grows would meet the limit before the session's silence tells.

use enforcer_gate::{Bytes, Limit};
use std::time::{Duration, Instant};

/// Between two looks. By the clock: what tells of a cgroup's events is a worker of the kernel's with ordinary priority
/// (`cgroup_file_notify`), which a node without CPU keeps waiting as well.
pub(super) const LOOK: Duration = Duration::from_millis(10);
/// How long usage has to stay there: a moment's overshoot is for the kernel, which reclaims above `memory.high`.
const STAYS: Duration = Duration::from_millis(25);

/// Since when usage has been too near to the limit.
#[derive(Debug, Default)]
pub(super) struct Eye(Option<Instant>);

impl Eye {
    /// Takes one look; `true` where the limit is about to kill: usage has stayed in the upper half of what lies between the
    /// brake and the limit. Without a brake below the limit there is nothing to go by.
    pub(super) fn sees(&mut self, now: Instant, brake: Limit, limit: Limit, usage: Bytes) -> bool {
        let (Limit::Bytes(brake), Limit::Bytes(limit)) = (brake, limit) else {
            self.0 = None;
            return false;
        };
        let line = brake.saturating_add(limit.saturating_sub(brake).scaled(1, 2));
        if brake >= limit || usage <= line {
            self.0 = None;
            return false;
        }
        let since = *self.0.get_or_insert(now);
        now.saturating_duration_since(since) >= STAYS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn mib(mib: u64) -> Limit {
        Limit::Bytes(Bytes::from_mib(mib))
    }

    /// Looks so many milliseconds after the first.
    fn seen(looks: &[(u64, Limit, Limit, u64)]) -> Vec<bool> {
        let (first, mut eye) = (Instant::now(), Eye::default());
        let look = |(ms, brake, limit, usage): &(u64, Limit, Limit, u64)| {
            eye.sees(first + Duration::from_millis(*ms), *brake, *limit, Bytes::from_mib(*usage))
        };
        looks.iter().map(look).collect()
    }

    #[test]
    fn what_stays_near_the_limit_is_seen_and_what_passes_is_not() {
        let (brake, limit) = (mib(90), mib(100));
        let look = |ms, usage| (ms, brake, limit, usage);
        assert_eq!(seen(&[look(0, 96), look(10, 97), look(25, 96)]), [false, false, true]);
        assert_eq!(
            seen(&[look(0, 96), look(10, 95), look(25, 96), look(49, 96), look(50, 96)]),
            [false, false, false, false, true]
        );
        assert_eq!(seen(&[look(0, 95), look(1000, 91)]), [false, false], "the brake holds it");
    }

    #[test]
    fn without_a_limit_or_a_brake_below_it_nothing_is_seen() {
        for (brake, limit) in
            [(mib(90), Limit::Max), (Limit::Max, mib(100)), (mib(100), mib(100)), (mib(110), mib(100))]
        {
            assert_eq!(
                seen(&[(0, brake, limit, 100), (1000, brake, limit, 100)]),
                [false, false],
                "{brake} {limit}"
            );
        }
    }
}
