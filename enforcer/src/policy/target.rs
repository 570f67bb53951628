//! To what a limit is lowered.

use super::{Rules, Why, defaults::MIB};
use enforcer_gate::{Bytes, Limit};

/// The target: the safe minimum and its margin, within floor and ceiling, in whole mebibytes; not under `least`, which
/// was learned. Never under the safe minimum.
pub(super) fn target(
    rules: &Rules,
    limit: Limit,
    safe_minimum: Bytes,
    least: Option<Bytes>,
) -> Result<Bytes, Why> {
    let margin = rules.margin.of(safe_minimum);
    let wanted = up(safe_minimum.saturating_add(margin)).map_or(Limit::Max, Limit::Bytes);
    let floor = up(rules.floor).ok_or(Why::SmallGain)?;
    let ceiling = match rules.ceiling {
        Limit::Bytes(ceiling) => Limit::Bytes(down(ceiling).max(floor)),
        Limit::Max if limit == Limit::Max => return Err(Why::NoLimit),
        Limit::Max => Limit::Max,
    };
    let Limit::Bytes(wanted) = wanted.min(ceiling).max(Limit::Bytes(floor)) else {
        return Err(Why::SmallGain);
    };
    if wanted < safe_minimum {
        return Err(Why::CeilingTooLow);
    }
    let (target, too_little) = match least {
        Some(least) if least > wanted => (up(least).ok_or(Why::Learned)?, Why::Learned),
        Some(_) | None => (wanted, Why::SmallGain),
    };
    let saves = match limit {
        Limit::Bytes(limit) => limit.saturating_sub(target) >= rules.gain_min.max(MIB),
        Limit::Max => true,
    };
    if saves && Limit::Bytes(target) <= ceiling { Ok(target) } else { Err(too_little) }
}

fn up(bytes: Bytes) -> Option<Bytes> {
    bytes.get().checked_next_multiple_of(MIB.get()).map(Bytes::new)
}

fn down(bytes: Bytes) -> Bytes {
    Bytes::new(bytes.get() / MIB.get() * MIB.get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Defaults, Margin};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn rules() -> Rules {
        Rules::resolve(&Defaults::default(), "shop", &BTreeMap::new(), &BTreeMap::new(), "app")
    }

    const fn mib(n: u64) -> Bytes {
        Bytes::from_mib(n)
    }

    const fn limit(n: u64) -> Limit {
        Limit::Bytes(Bytes::from_mib(n))
    }

    #[test]
    fn targets() {
        let check = |rules: &Rules, of: Limit, safe: Bytes, least, expect| {
            assert_eq!(target(rules, of, safe, least), expect, "{of} {safe}");
        };
        let plain = rules();
        check(&plain, limit(512), mib(100), None, Ok(mib(116)));
        check(&plain, limit(512), mib(200), None, Ok(mib(220)));
        check(&plain, limit(512), Bytes::new(mib(100).get() + 1), None, Ok(mib(117)));
        check(&plain, limit(512), Bytes::ZERO, None, Ok(mib(32)));
        check(&plain, limit(132), mib(100), None, Ok(mib(116)));
        check(&plain, Limit::Bytes(Bytes::new(mib(132).get() - 1)), mib(100), None, Err(Why::SmallGain));
        check(&plain, limit(100), mib(100), None, Err(Why::SmallGain));
        check(&plain, Limit::Max, mib(100), None, Err(Why::NoLimit));
        let eager = Rules { gain_min: Bytes::ZERO, ..plain.clone() };
        check(&eager, limit(116), mib(100), None, Err(Why::SmallGain));
        check(&eager, limit(117), mib(100), None, Ok(mib(116)));
        let capped = Rules { ceiling: limit(110), ..plain.clone() };
        check(&capped, limit(512), mib(100), None, Ok(mib(110)));
        check(&capped, Limit::Max, mib(100), None, Ok(mib(110)));
        check(&capped, Limit::Max, mib(110), None, Ok(mib(110)));
        check(&capped, limit(512), mib(111), None, Err(Why::CeilingTooLow));
        let odd = Rules { ceiling: Limit::Bytes(Bytes::new(mib(111).get() - 1)), ..plain.clone() };
        check(&odd, limit(512), mib(100), None, Ok(mib(110)));
        let floored = Rules { floor: mib(300), ceiling: limit(110), ..plain.clone() };
        check(&floored, limit(512), mib(100), None, Ok(mib(300)));
    }

    #[test]
    fn what_was_learned_raises_the_target_and_goes_through_no_ceiling() {
        let plain = rules();
        assert_eq!(target(&plain, limit(512), mib(100), Some(mib(116))), Ok(mib(116)));
        assert_eq!(target(&plain, limit(512), mib(100), Some(Bytes::new(mib(200).get() + 1))), Ok(mib(201)));
        assert_eq!(target(&plain, limit(210), mib(100), Some(mib(200))), Err(Why::Learned));
        assert_eq!(target(&plain, limit(210), mib(200), Some(mib(100))), Err(Why::SmallGain));
        assert_eq!(target(&plain, limit(512), mib(100), Some(Bytes::new(u64::MAX))), Err(Why::Learned));
        let capped = Rules { ceiling: limit(150), ..plain };
        assert_eq!(target(&capped, limit(512), mib(100), Some(mib(200))), Err(Why::Learned));
    }

    proptest! {
        #[test]
        fn never_below_what_it_must_be(
            (floor, safe, gain_min, margin) in (amount(), amount(), amount(), amount()),
            (ceiling, of) in (prop::option::of(amount()), prop::option::of(amount())),
            percent in prop_oneof![0_u32..200, any::<u32>()],
            least in prop::option::of(amount()),
        ) {
            let bound = |amount: Option<Bytes>| amount.map_or(Limit::Max, Limit::Bytes);
            let margin = Margin { percent, bytes: margin };
            let rules = Rules { floor, ceiling: bound(ceiling), gain_min, margin, ..rules() };
            if let Ok(target) = target(&rules, bound(of), safe, least) {
                prop_assert!(target >= floor && target >= safe);
                prop_assert!(least.is_none_or(|least| target >= least));
                prop_assert_eq!(target.get() % MIB.get(), 0);
                let wanted = safe.saturating_add(margin.of(safe));
                prop_assert!(target >= wanted || Limit::Bytes(target.saturating_add(MIB)) > rules.ceiling);
                prop_assert!(Limit::Bytes(target) <= rules.ceiling || target < floor.saturating_add(MIB));
                prop_assert!(of.is_none_or(|of| of.saturating_sub(target) >= gain_min && of > target));
                prop_assert!(of.is_some() || ceiling.is_some());
            }
        }
    }

    fn amount() -> impl Strategy<Value = Bytes> {
        let raw = prop_oneof![6 => 0_u64..2 << 30, 1 => any::<u64>(), 1 => (u64::MAX - (2 << 20))..=u64::MAX];
        raw.prop_map(Bytes::new)
    }
}
