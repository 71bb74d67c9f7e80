//! Random numbers for tests that choose faults. The same seed gives the same sequence.

/// A small generator (xorshift64*), good enough to choose faults. The seed must not be 0.
pub struct SeededRng(pub u64);

impl SeededRng {
    /// A number from 0 to `limit - 1`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }
}
