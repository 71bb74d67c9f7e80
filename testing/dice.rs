//! Dice for tests that let things happen at random. In: a seed. Out: the same rolls each time.

/// Small, seeded, good enough to choose faults (xorshift64*). The seed is not 0.
pub struct Dice(pub u64);

impl Dice {
    /// From 0 on, less than `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides
    }
}
