//! Order statistics of a handful of measurements.

use serde::Serialize;

/// Median and spread of one figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    /// How many measurements.
    pub(crate) n: usize,
    /// Least.
    pub(crate) min: f64,
    /// Half are at most this.
    pub(crate) median: f64,
    /// Nineteen of twenty are at most this.
    pub(crate) p95: f64,
    /// Greatest.
    pub(crate) max: f64,
}

impl Spread {
    /// `None` for no measurement at all.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        Some(Self { n: sorted.len(), min, median: rank(&sorted, 50), p95: rank(&sorted, 95), max })
    }
}

/// Nearest-rank percentile of sorted values.
fn rank(sorted: &[f64], percent: usize) -> f64 {
    let index = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted[index]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_rank() {
        let values: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        let spread = Spread::of(&values).unwrap();
        assert_eq!((spread.min, spread.median, spread.p95, spread.max), (1.0, 10.0, 19.0, 20.0));
        let one = Spread::of(&[7.0]).unwrap();
        assert_eq!((one.n, one.p95), (1, 7.0));
        assert_eq!(Spread::of(&[]), None);
    }
}
