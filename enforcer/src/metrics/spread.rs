//! How often what span of time was seen. No I/O.

use super::definitions::SHRINK_SECONDS;
use enforcer_gate::Micros;

/// A histogram of seconds, by [`SHRINK_SECONDS`].
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Spread {
    /// How many were up to this bound and above the one before; the last has none.
    pub(super) buckets: Vec<(f64, u64)>,
    pub(super) count: u64,
    pub(super) sum: Micros,
}

impl Default for Spread {
    fn default() -> Self {
        let bounds = SHRINK_SECONDS.into_iter().chain([f64::INFINITY]);
        Self { buckets: bounds.map(|bound| (bound, 0)).collect(), count: 0, sum: Micros::ZERO }
    }
}

impl Spread {
    /// One more.
    pub(super) fn observe(&mut self, span: Micros) {
        if let Some((_, count)) = self.buckets.iter_mut().find(|(bound, _)| seconds(span) <= *bound) {
            *count = count.saturating_add(1);
        }
        self.count = self.count.saturating_add(1);
        self.sum = self.sum.saturating_add(span);
    }
}

/// As Prometheus counts time; exact to a microsecond for 285 years.
#[expect(clippy::cast_precision_loss, reason = "a float is what Prometheus keeps")]
pub(super) fn seconds(span: Micros) -> f64 {
    span.get() as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let mut spread = Spread::default();
        for millis in [0, 1_000, 1_001, 300_000, 300_001] {
            spread.observe(Micros::from_millis(millis));
        }
        let counts: Vec<u64> = spread.buckets.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!((spread.count, spread.sum), (5, Micros::from_millis(602_002)));
    }
}
