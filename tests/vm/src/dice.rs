//! Numbers that are the same each time.

/// xorshift64, from a seed other than zero.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    /// Begins with this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `bound`, which is more than zero.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).expect("below a usize")
    }
}
