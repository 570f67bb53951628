//! What a pod costs as a function of its virtual machine's memory: a + b x memory, by least squares. No I/O.
//!
//! Page tables for the guest's memory, and the hypervisor's own books of it, grow with it; the rest does not.

use super::{
    fit::bytes,
    model::{PodSample, Run},
};
use enforcer_gate::Bytes;
use serde::Serialize;

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Point {
    /// The memory of each of its machines.
    pub machine: Bytes,
    /// What 95 of 100 of its pods get by with.
    pub total: Bytes,
}

/// Why there is no model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoModel {
    /// A measurement has no result.
    #[error("a measurement has too few readings")]
    NoResult,
    /// Its pods have no machine whose memory is known, or not all the same.
    #[error(
        "a measurement does not know one size of its virtual machines' memory: its pods have none, or several"
    )]
    NoMachine,
    /// One size only.
    #[error("the measurements are of one size of virtual machines; a line takes two")]
    OneSize,
}

/// The line, and how far measurements lie from it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Model {
    /// Bytes of a machine without memory: a.
    pub base: f64,
    /// Bytes for each byte of memory: b.
    pub each: f64,
    /// What was measured less what the line says, in the order of the measurements.
    pub residuals: Vec<f64>,
    /// The residuals' standard deviation; `None` of two measurements, which a line always goes through.
    pub deviation: Option<f64>,
}

impl Point {
    /// What a measurement says.
    pub fn of(run: &Run) -> Result<Self, NoModel> {
        let total = run.result.as_ref().ok_or(NoModel::NoResult)?.total.p95;
        let mut sizes = run.pods.iter().map(PodSample::machine);
        let machine = sizes.next().flatten().ok_or(NoModel::NoMachine)?;
        if sizes.any(|size| size != Some(machine)) {
            return Err(NoModel::NoMachine);
        }
        Ok(Self { machine, total })
    }
}

impl Model {
    /// Fits the line.
    pub fn fit(points: &[Point]) -> Result<Self, NoModel> {
        let count = small(points.len());
        let x = |point: &Point| float(point.machine);
        let y = |point: &Point| float(point.total);
        let sum = |of: &dyn Fn(&Point) -> f64| points.iter().map(of).sum::<f64>();
        let (mean_x, mean_y) = (sum(&|point| x(point) / count), sum(&|point| y(point) / count));
        let square = sum(&|point| (x(point) - mean_x).powi(2));
        let is_one_size = points.iter().all(|point| point.machine == points[0].machine);
        // Also where the only sizes are too near each other to be told apart as floats.
        if is_one_size || square <= 0.0 {
            return Err(NoModel::OneSize);
        }
        let each = sum(&|point| (x(point) - mean_x) * (y(point) - mean_y)) / square;
        let base = mean_y - each * mean_x;
        let residuals: Vec<f64> = points.iter().map(|point| y(point) - base - each * x(point)).collect();
        let freedom = points.len().checked_sub(2).filter(|freedom| *freedom > 0);
        let deviation = freedom.map(|freedom| {
            (residuals.iter().map(|residual| residual * residual).sum::<f64>() / small(freedom)).sqrt()
        });
        Ok(Self { base, each, residuals, deviation })
    }

    /// What the line says for a machine of this memory; at least zero.
    pub fn at(&self, machine: Bytes) -> Bytes {
        bytes(self.base + self.each * float(machine))
    }
}

/// Exact up to 2^53 bytes, more than any machine has.
#[expect(clippy::cast_precision_loss, reason = "no machine has 2^53 bytes")]
fn float(bytes: Bytes) -> f64 {
    bytes.get() as f64
}

#[expect(clippy::cast_precision_loss, reason = "a count of measurements")]
fn small(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overhead::{measured::measured, model::Vm};
    use proptest::prelude::*;

    fn point(machine: u64, total: u64) -> Point {
        Point { machine: Bytes::from_mib(machine), total: Bytes::from_mib(total) }
    }

    fn vm(mib: u64) -> Vm {
        Vm { memory: Bytes::from_mib(mib), in_pod: false }
    }

    #[test]
    fn a_line_through_two_and_near_three() {
        let two = Model::fit(&[point(1024, 60), point(2048, 64)]).expect("two sizes");
        assert_eq!((two.at(Bytes::from_mib(4096)), two.deviation), (Bytes::from_mib(72), None));
        assert!((two.base / 1_048_576.0 - 56.0).abs() < 1e-6 && (two.each - 4.0 / 1024.0).abs() < 1e-12);
        // By hand: y = 10, 13, 10 over x = 0, 1, 2 has slope 0, base 11, residuals -1, 2, -1.
        let three = Model::fit(&[point(0, 10), point(1, 13), point(2, 10)]).expect("three sizes");
        let mib = |value: f64| (value / 1_048_576.0 * 1e6).round() / 1e6;
        assert_eq!(three.residuals.iter().copied().map(mib).collect::<Vec<_>>(), [-1.0, 2.0, -1.0]);
        assert_eq!(
            (mib(three.base), three.deviation.map(mib)),
            (11.0, Some(mib(6_f64.sqrt() * 1_048_576.0)))
        );
    }

    #[test]
    fn what_makes_no_line() {
        assert_eq!(Model::fit(&[]), Err(NoModel::OneSize));
        assert_eq!(Model::fit(&[point(1, 2)]), Err(NoModel::OneSize));
        assert_eq!(Model::fit(&[point(1, 2), point(1, 3)]), Err(NoModel::OneSize));
        let mut run = measured(8, "");
        assert_eq!(Point::of(&run), Err(NoModel::NoMachine));
        run.pods.iter_mut().for_each(|pod| pod.vm = Some(vm(512)));
        let total = run.result.as_ref().expect("enough").total.p95;
        assert_eq!(Point::of(&run), Ok(Point { machine: Bytes::from_mib(512), total }));
        run.pods[0].vm = Some(vm(256));
        assert_eq!(Point::of(&run), Err(NoModel::NoMachine));
        run.result = None;
        assert_eq!(Point::of(&run), Err(NoModel::NoResult));
    }

    proptest! {
        #[test]
        fn a_line_is_found_again(
            base in 0..1_u64 << 12, each in 0..64_u64, sizes in proptest::collection::btree_set(1..1_u64 << 14, 2..8),
        ) {
            let points: Vec<_> = sizes.iter().map(|size| point(*size * 64, base + each * *size)).collect();
            let model = Model::fit(&points).expect("more than one size");
            for residual in &model.residuals {
                prop_assert!(residual.abs() < 4096.0, "{:?}", model);
            }
        }

        #[test]
        fn nothing_wraps(numbers in proptest::collection::vec(any::<(u64, u64)>(), 0..6), at in any::<u64>()) {
            let points: Vec<_> = numbers
                .iter()
                .map(|(machine, total)| Point { machine: Bytes::new(*machine), total: Bytes::new(*total) })
                .collect();
            if let Ok(model) = Model::fit(&points) {
                prop_assert!(model.base.is_finite() && model.each.is_finite());
                let _ = model.at(Bytes::new(at));
            }
        }
    }
}
