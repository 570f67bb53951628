//! Student's t distribution for whole degrees of freedom, by its closed forms (Abramowitz and Stegun, 26.7.3 and
//! 26.7.4).

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

/// More degrees of freedom than this differ from it by less than a thousandth.
const FREEDOM_MAX: usize = 1000;
/// Halvings of a quarter turn: as far as a number goes.
const HALVINGS: u32 = 60;

/// The t between whose negative and itself a value lies with this probability. `None` without any degree of freedom.
pub(super) fn two_sided(probability: f64, freedom: usize) -> Option<f64> {
    if freedom == 0 {
        return None;
    }
    let freedom = freedom.min(FREEDOM_MAX);
    let (mut low, mut high) = (0.0, FRAC_PI_2);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if inside(middle, freedom) < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(low.tan() * count(freedom).sqrt())
}

#[expect(clippy::cast_precision_loss, reason = "at most a thousand")]
fn count(freedom: usize) -> f64 {
    freedom as f64
}

/// How probable it is to lie between -t and t, where `angle` is the arc tangent of t over the root of the freedom.
fn inside(angle: f64, freedom: usize) -> f64 {
    let (sin, cos) = angle.sin_cos();
    if freedom == 1 {
        return FRAC_2_PI * angle;
    }
    let odd = freedom % 2 == 1;
    // Each term is the last one times (k - 1) / k times the cosine's square.
    let first: f64 = if odd { cos } else { 1.0 };
    let mut term = first;
    let mut sum = first;
    let mut k = if odd { 3 } else { 2 };
    while k + 2 <= freedom {
        term *= count(k - 1) / count(k) * cos * cos;
        sum += term;
        k += 2;
    }
    if odd { FRAC_2_PI * (angle + sin * sum) } else { sin * sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the tables that every book on statistics has (two-sided, 95 % and 99 %).
    #[test]
    fn published_values() {
        for (freedom, t95, t99) in [
            (1, 12.706, 63.657),
            (2, 4.303, 9.925),
            (3, 3.182, 5.841),
            (4, 2.776, 4.604),
            (5, 2.571, 4.032),
            (8, 2.306, 3.355),
            (9, 2.262, 3.250),
            (10, 2.228, 3.169),
            (20, 2.086, 2.845),
            (29, 2.045, 2.756),
            (30, 2.042, 2.750),
            (120, 1.980, 2.617),
        ] {
            for (probability, expected) in [(0.95, t95), (0.99, t99)] {
                let found = two_sided(probability, freedom).expect("there is one");
                assert!((found - expected).abs() < 0.000_6, "{freedom}: {found} is not {expected}");
            }
        }
        assert_eq!(two_sided(0.95, 0), None);
        // In the end it is the normal distribution's 1.960.
        let many = two_sided(0.95, usize::MAX).expect("there is one");
        assert!((many - 1.962).abs() < 0.001, "{many}");
    }
}
