//! Ordinary least squares for a handful of columns.

/// A fit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fit {
    /// One for each column.
    pub(super) coefficients: Vec<f64>,
    /// Their standard errors.
    pub(super) errors: Vec<f64>,
    /// Readings less columns.
    pub(super) freedom: usize,
}

/// Fits `values` by the columns of `rows`. `None` where readings are too few or columns depend on each other.
pub(super) fn least_squares(rows: &[Vec<f64>], values: &[f64]) -> Option<Fit> {
    let columns = rows.first()?.len();
    let freedom = rows.len().checked_sub(columns).filter(|freedom| *freedom > 0)?;
    // Values of the same size lose no digits to a large common part.
    let base = values.first().copied()?;
    let mut normal = vec![vec![0.0; columns]; columns];
    let mut right = vec![0.0; columns];
    for (row, value) in rows.iter().zip(values) {
        for (i, a) in row.iter().enumerate() {
            right[i] += a * (value - base);
            for (j, b) in row.iter().enumerate() {
                normal[i][j] += a * b;
            }
        }
    }
    let inverse = inverse(normal)?;
    let mut coefficients: Vec<f64> = inverse.iter().map(|row| dot(row, &right)).collect();
    let residuals = rows.iter().zip(values).map(|(row, value)| value - base - dot(row, &coefficients));
    let variance = residuals.map(|residual| residual * residual).sum::<f64>() / small(freedom);
    let errors = (0..columns).map(|i| (variance * inverse[i][i]).max(0.0).sqrt()).collect();
    // The first column is the constant one.
    coefficients[0] += base;
    Some(Fit { coefficients, errors, freedom })
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[expect(clippy::cast_precision_loss, reason = "a count of readings")]
fn small(count: usize) -> f64 {
    count as f64
}

/// By Gauss and Jordan, with the largest pivot of each column. `None` where it has none.
fn inverse(mut matrix: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    let size = matrix.len();
    let unit = |i: usize, j: usize| if i == j { 1.0 } else { 0.0 };
    let mut inverse: Vec<Vec<f64>> = (0..size).map(|i| (0..size).map(|j| unit(i, j)).collect()).collect();
    let scale = matrix.iter().flatten().fold(0.0_f64, |scale, x| scale.max(x.abs()));
    for column in 0..size {
        let larger = |a: &usize, b: &usize| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs());
        let pivot = (column..size).max_by(larger)?;
        if matrix[pivot][column].abs() <= scale * 1e-12 {
            return None;
        }
        matrix.swap(column, pivot);
        inverse.swap(column, pivot);
        let by = matrix[column][column];
        for x in matrix[column].iter_mut().chain(&mut inverse[column]) {
            *x /= by;
        }
        let (pivot_row, pivot_inverse) = (matrix[column].clone(), inverse[column].clone());
        for i in (0..size).filter(|i| *i != column) {
            let by = matrix[i][column];
            for (x, p) in matrix[i].iter_mut().zip(&pivot_row) {
                *x -= by * p;
            }
            for (x, p) in inverse[i].iter_mut().zip(&pivot_inverse) {
                *x -= by * p;
            }
        }
    }
    Some(inverse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{found} is not {expected}");
    }

    /// Longley-like hand computation: y = 1, 3, 2, 5 over x = 0, 1, 2, 3 has slope 1.1, residual sum of squares 2.7 and
    /// Sxx 5, so the slope's error is sqrt(2.7 / 2 / 5).
    #[test]
    fn a_line_worked_out_by_hand() {
        let rows: Vec<_> = (0..4).map(|x| vec![1.0, f64::from(x)]).collect();
        let fit = least_squares(&rows, &[1.0, 3.0, 2.0, 5.0]).expect("enough");
        near(fit.coefficients[0], 1.1);
        near(fit.coefficients[1], 1.1);
        near(fit.errors[1], (2.7_f64 / 2.0 / 5.0).sqrt());
        assert_eq!(fit.freedom, 2);
    }

    /// NIST's data set Norris: certified slope 1.00211681802045, its error 0.429796848199937E-03, intercept
    /// -0.262323073774029, its error 0.232818234301152.
    #[test]
    fn a_published_data_set() {
        const NORRIS: [(f64, f64); 36] = [
            (0.1, 0.2),
            (338.8, 337.4),
            (118.1, 118.2),
            (888.0, 884.6),
            (9.2, 10.1),
            (228.1, 226.5),
            (668.5, 666.3),
            (998.5, 996.3),
            (449.1, 448.6),
            (778.9, 777.0),
            (559.2, 558.2),
            (0.3, 0.4),
            (0.1, 0.6),
            (778.1, 775.5),
            (668.8, 666.9),
            (339.3, 338.0),
            (448.9, 447.5),
            (10.8, 11.6),
            (557.7, 556.0),
            (228.3, 228.1),
            (998.0, 995.8),
            (888.8, 887.6),
            (119.6, 120.2),
            (0.3, 0.3),
            (0.6, 0.3),
            (557.6, 556.8),
            (339.3, 339.1),
            (888.0, 887.2),
            (998.5, 999.0),
            (778.9, 779.0),
            (10.2, 11.1),
            (117.6, 118.3),
            (228.9, 229.2),
            (668.4, 669.1),
            (449.2, 448.9),
            (0.2, 0.5),
        ];
        let rows: Vec<_> = NORRIS.iter().map(|(_, x)| vec![1.0, *x]).collect();
        let values: Vec<_> = NORRIS.iter().map(|(y, _)| *y).collect();
        let fit = least_squares(&rows, &values).expect("enough");
        near(fit.coefficients[1], 1.002_116_818_020_45);
        near(fit.errors[1], 0.000_429_796_848_199_937);
        near(fit.coefficients[0], -0.262_323_073_774_029);
        near(fit.errors[0], 0.232_818_234_301_152);
    }

    #[test]
    fn too_little_gives_nothing() {
        let line = |xs: &[f64]| xs.iter().map(|x| vec![1.0, *x]).collect::<Vec<_>>();
        assert_eq!(least_squares(&line(&[1.0, 2.0]), &[1.0, 2.0]), None, "no freedom");
        assert_eq!(least_squares(&line(&[2.0, 2.0, 2.0]), &[1.0, 2.0, 3.0]), None, "one size of step");
        assert_eq!(least_squares(&[], &[]), None);
    }

    proptest! {
        #[test]
        fn an_exact_plane_is_found(
            a in -1e9..1e9_f64, b in -1e7..1e7_f64, c in -1e5..1e5_f64,
            xs in proptest::collection::btree_set(0..100_u32, 5..12),
        ) {
            let rows: Vec<_> =
                xs.iter().zip(0_u32..).map(|(x, n)| vec![1.0, f64::from(*x), f64::from(n * n)]).collect();
            let values: Vec<_> = rows.iter().map(|row| a + b * row[1] + c * row[2]).collect();
            if let Some(fit) = least_squares(&rows, &values) {
                prop_assert!((fit.coefficients[1] - b).abs() < 1.0, "{fit:?}");
                prop_assert!(fit.errors[1] < 1.0);
            }
        }
    }
}
