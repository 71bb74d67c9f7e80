//! Ticks of a session's clock as ns.

const NS_A_SECOND: u64 = 1_000_000_000;

/// Makes ns of ticks.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TickClock {
    ticks_a_second: u64,
    zero: u64,
}

impl TickClock {
    /// A faster clock is none that exists, and could not be converted in 64 bits.
    const MAX_TICKS_A_SECOND: u64 = 18_000_000_000;

    /// `zero`: ticks at 0 ns. `None`: no clock has such a frequency.
    #[must_use]
    pub fn new(ticks_a_second: u64, zero: u64) -> Option<Self> {
        let is_possible = (1..=Self::MAX_TICKS_A_SECOND).contains(&ticks_a_second);
        is_possible.then_some(Self { ticks_a_second, zero })
    }

    /// ns since the zero; 0 in front of it.
    #[must_use]
    pub fn ns(&self, ticks: u64) -> u64 {
        let since = ticks.saturating_sub(self.zero);
        let whole_ns = (since / self.ticks_a_second).saturating_mul(NS_A_SECOND);
        whole_ns.saturating_add(since % self.ticks_a_second * NS_A_SECOND / self.ticks_a_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(ticks_a_second: u64, zero: u64) -> TickClock {
        TickClock::new(ticks_a_second, zero).unwrap()
    }

    #[test]
    fn ticks_are_counted_to_the_ns_and_never_wrap() {
        let usual = clock(10_000_000, 0);
        assert_eq!([usual.ns(1), usual.ns(12_345_678), usual.ns(u64::MAX)], [100, 1_234_567_800, u64::MAX]);
        let odd = clock(1_656_445, 5);
        assert_eq!([odd.ns(4), odd.ns(6), odd.ns(5 + 1_656_445 * 7)], [0, 603, 7_000_000_000]);
        let fast = clock(TickClock::MAX_TICKS_A_SECOND, 0);
        assert_eq!(fast.ns(TickClock::MAX_TICKS_A_SECOND - 1), 999_999_999);
        assert_eq!([0, TickClock::MAX_TICKS_A_SECOND + 1].map(|ticks| TickClock::new(ticks, 0)), [None; 2]);
    }
}
