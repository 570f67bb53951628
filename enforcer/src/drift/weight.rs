//! From CPU shares (cgroup v1, what a container asks for) to `cpu.weight` (cgroup v2): two ways are in use.

use std::ops::RangeInclusive;

/// The least and the greatest number of shares.
pub(super) const SHARES: RangeInclusive<u64> = 2..=262_144;

/// How a runtime makes a weight of shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conversion {
    /// In proportion: runc before 1.3, crun before 1.23. The default of 1024 shares becomes 39, not 100.
    Linear,
    /// Through least, default and greatest of both: runc 1.3, crun 1.23 and later. 1024 becomes 100.
    Quadratic,
}

impl Conversion {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Linear, Self::Quadratic];

    /// The name that output uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Quadratic => "quadratic",
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::Linear => Self::Quadratic,
            Self::Quadratic => Self::Linear,
        }
    }

    /// The weight of so many shares; a number out of range counts as the nearest in it. Never falls as shares rise.
    pub fn weight(self, shares: u64) -> u64 {
        let shares = shares.clamp(*SHARES.start(), *SHARES.end());
        match self {
            Self::Linear => 1 + (shares - 2) * 9999 / 262_142,
            Self::Quadratic => quadratic(shares),
        }
    }

    /// The shares that become this weight, if any do.
    pub fn shares(self, weight: u64) -> Option<RangeInclusive<u64>> {
        let first = self.first_above(weight.checked_sub(1)?);
        let after = self.first_above(weight);
        (first < after).then(|| first..=after - 1)
    }

    /// The fewest shares with a greater weight than this; one more than there can be where none has.
    fn first_above(self, weight: u64) -> u64 {
        let (mut low, mut high) = (*SHARES.start(), *SHARES.end() + 1);
        while low < high {
            let middle = u64::midpoint(low, high);
            if self.weight(middle) > weight { high = middle } else { low = middle + 1 }
        }
        low
    }
}

/// The exponent is exact where it counts: at 2, 1024 and 262,144 shares the weights are 1, 100 and 10,000 by
/// definition, and nowhere else does the power come near a whole number.
fn quadratic(shares: u64) -> u64 {
    match shares {
        ..=2 => 1,
        1024 => 100,
        262_144.. => 10_000,
        _ => {
            #[expect(clippy::cast_precision_loss, reason = "18 bits")]
            let log = (shares as f64).log2();
            let exponent = (log * log + 125.0 * log) / 612.0 - 7.0 / 34.0;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 10,000")]
            let weight = 10f64.powf(exponent).ceil() as u64;
            weight
        }
    }
}

/// The conversion by which `shares` become `weight`.
pub(super) fn of_shares(shares: u64, weight: u64) -> Option<Conversion> {
    Conversion::ALL.into_iter().find(|conversion| conversion.weight(shares) == weight)
}

/// The conversion that gave `weight`, where the other one gives `expected` for the same shares.
pub(super) fn of_weight(expected: u64, weight: u64) -> Option<Conversion> {
    Conversion::ALL.into_iter().find(|conversion| {
        let shares = conversion.other().shares(expected);
        shares.is_some_and(|shares| {
            (conversion.weight(*shares.start())..=conversion.weight(*shares.end())).contains(&weight)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_conversions_give_what_runtimes_write() {
        for (shares, linear, quadratic) in [
            (0, 1, 1),
            (2, 1, 1),
            (102, 4, 17),
            (512, 20, 59),
            (1024, 39, 100),
            (4096, 157, 303),
            (262_144, 10_000, 10_000),
            (u64::MAX, 10_000, 10_000),
        ] {
            assert_eq!(Conversion::Linear.weight(shares), linear, "{shares} shares");
            assert_eq!(Conversion::Quadratic.weight(shares), quadratic, "{shares} shares");
            assert!(of_shares(shares, linear).is_some() && of_shares(shares, quadratic).is_some());
        }
        assert_eq!(of_shares(512, 21), None);
    }

    #[test]
    fn a_weight_is_known_by_the_other_conversions() {
        for (old, new) in [(4, 17), (20, 59), (39, 100), (157, 303)] {
            assert_eq!(of_weight(old, new), Some(Conversion::Quadratic), "{old} expected");
            assert_eq!(of_weight(new, old), Some(Conversion::Linear), "{new} expected");
        }
        for (expected, weight) in [(20, 100), (100, 59), (100, 10_000), (0, 1), (20_000, 1)] {
            assert_eq!(of_weight(expected, weight), None, "{expected} expected, {weight} found");
        }
    }

    proptest! {
        #[test]
        fn more_shares_never_weigh_less(shares in SHARES) {
            for conversion in Conversion::ALL {
                let weight = conversion.weight(shares);
                prop_assert!((1..=10_000).contains(&weight));
                prop_assert!(weight <= conversion.weight(shares + 1));
                prop_assert!(conversion.shares(weight).is_some_and(|found| found.contains(&shares)));
            }
        }

        #[test]
        fn what_both_make_of_the_same_shares_is_known(shares in SHARES) {
            let [linear, quadratic] = Conversion::ALL.map(|conversion| conversion.weight(shares));
            prop_assert!(of_weight(linear, quadratic).is_some());
            prop_assert!(of_weight(quadratic, linear).is_some());
        }
    }
}
