//! The plan of a measurement: how many pods run in which step, in a drawn order; and when readings stay. No I/O.

use enforcer_gate::Bytes;

/// `SplitMix64` (Steele, Lea and Flood 2014): good enough to draw an order, and the same for the same seed everywhere.
#[derive(Debug, Clone)]
pub struct Draw(u64);

impl Draw {
    /// From this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `bound`, which is not zero.
    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % bound).unwrap_or(0)
    }
}

/// The default sizes of steps up to this many pods: none, all, and a few between.
pub fn sizes(pods: u32) -> Vec<u32> {
    let mut sizes = vec![0, pods / 4, pods / 2, pods - pods / 4, pods];
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// All sizes `repetitions` times, each round in an order of its own, and never the same size twice running where it
/// can be helped: a step that makes and removes nothing says nothing new.
pub fn order(sizes: &[u32], repetitions: u32, seed: u64) -> Vec<u32> {
    let mut draw = Draw::new(seed);
    let mut steps: Vec<u32> = Vec::new();
    for _ in 0..repetitions {
        let mut round = sizes.to_vec();
        for last in (1..round.len()).rev() {
            round.swap(last, draw.below(last + 1));
        }
        if round.len() > 1 && steps.last() == round.first() {
            round.swap(0, 1);
        }
        steps.extend(round);
    }
    steps
}

/// Whether readings stay: the last few lie within `band` of each other.
#[derive(Debug, Clone)]
pub struct Settling {
    band: Bytes,
    last: Vec<Bytes>,
}

impl Settling {
    /// Readings that are looked at.
    pub const READINGS: usize = 4;

    /// Readings within `band` of each other are the same.
    pub const fn new(band: Bytes) -> Self {
        Self { band, last: Vec::new() }
    }

    /// Takes one more; `true` where they stay.
    pub fn add(&mut self, reading: Bytes) -> bool {
        if self.last.len() == Self::READINGS {
            self.last.remove(0);
        }
        self.last.push(reading);
        self.stays()
    }

    /// Whether they stay.
    pub fn stays(&self) -> bool {
        let (low, high) = (self.last.iter().min(), self.last.iter().max());
        let span = high.copied().unwrap_or_default().saturating_sub(low.copied().unwrap_or_default());
        self.last.len() == Self::READINGS && span <= self.band
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The first numbers of the published generator for the seed 1234567.
    #[test]
    fn the_generator_is_the_published_one() {
        let mut draw = Draw::new(1_234_567);
        let first = [(); 3].map(|()| draw.next());
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn sizes_go_from_none_to_all() {
        assert_eq!(sizes(10), [0, 2, 5, 8, 10]);
        assert_eq!(sizes(1), [0, 1]);
        assert_eq!(sizes(2), [0, 1, 2]);
    }

    #[test]
    fn readings_settle_when_they_stay() {
        let mut settling = Settling::new(Bytes::new(10));
        let added = [100, 50, 60, 55, 58, 70, 61].map(|reading| settling.add(Bytes::new(reading)));
        assert_eq!(added, [false, false, false, false, true, false, false]);
    }

    proptest! {
        #[test]
        fn each_round_has_each_size_once(pods in 1..200_u32, repetitions in 1..6_u32, seed in any::<u64>()) {
            let sizes = sizes(pods);
            let steps = order(&sizes, repetitions, seed);
            for round in steps.chunks(sizes.len()) {
                let mut round = round.to_vec();
                round.sort_unstable();
                prop_assert_eq!(&round, &sizes);
            }
            if sizes.len() > 2 {
                prop_assert!(steps.windows(2).all(|pair| pair[0] != pair[1]));
            }
            prop_assert_eq!(steps, order(&sizes, repetitions, seed));
        }
    }
}
