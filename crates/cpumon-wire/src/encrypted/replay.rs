//! [`Window`]: which datagram numbers of one agent start were taken. A bounded bitmap as in RFC 4303: a
//! number further back than it reaches counts as taken.

/// Numbers behind the greatest one that are distinguished: more than a snapshot of 20,000 threads has datagrams.
const BITS: u64 = 2_048;
const WORDS: usize = 32;

/// Which numbers of one agent start were taken. Its size does not depend on what was sent.
#[derive(Copy, Clone, Debug)]
pub(super) struct Window {
    /// The greatest number taken; `None`: none yet.
    top: Option<u64>,
    /// A ring: number *n* is bit *n* modulo [`BITS`]. A bit is cleared when the greatest number passes it, because it belongs to a
    /// newer number then.
    bits: [u64; WORDS],
}

impl Window {
    pub(super) fn new() -> Self {
        Self { top: None, bits: [0; WORDS] }
    }

    /// Everything up to `top` was taken.
    pub(super) fn up_to(top: u64) -> Self {
        Self { top: Some(top), bits: [u64::MAX; WORDS] }
    }

    /// The greatest number taken; 0 if none was.
    pub(super) fn top(&self) -> u64 {
        self.top.unwrap_or(0)
    }

    /// Accepts a number. False: it was accepted before, or is too far behind the greatest one to be known; such a datagram is refused,
    /// because accepting a replay would count CPU time twice and losing one late datagram costs only resolution.
    pub(super) fn take(&mut self, number: u64) -> bool {
        match self.top {
            Some(top) if number <= top => {
                let is_new = top - number < BITS && !self.has(number);
                if is_new {
                    self.set(number);
                }
                is_new
            }
            before => {
                // At most one turn of the ring is cleared, so a jump of any length costs no more than that.
                let first = before.map_or(0, |top| top + 1).max(number.saturating_sub(BITS - 1));
                (first..number).for_each(|skipped| self.clear(skipped));
                self.set(number);
                self.top = Some(number);
                true
            }
        }
    }

    fn place(number: u64) -> (usize, u64) {
        let bit = number % BITS;
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    fn has(&self, number: u64) -> bool {
        let (word, bit) = Self::place(number);
        self.bits[word] & bit != 0
    }

    fn set(&mut self, number: u64) {
        let (word, bit) = Self::place(number);
        self.bits[word] |= bit;
    }

    fn clear(&mut self, number: u64) {
        let (word, bit) = Self::place(number);
        self.bits[word] &= !bit;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_number_is_new_once_in_any_order() {
        let mut window = Window::new();
        for number in [0, 3, 1, 2, 9_000, 8_999, 9_000 - BITS + 1] {
            assert!(window.take(number), "{number}");
            assert!(!window.take(number), "{number} again");
        }
        assert!(!window.take(9_000 - BITS), "further back than the window");
        assert!(!window.take(0) && window.take(u64::MAX) && !window.take(u64::MAX));
        let mut loaded = Window::up_to(77);
        assert!(!loaded.take(77) && !loaded.take(5) && loaded.take(78) && loaded.take(90) && loaded.take(80));
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_set(steps in prop::collection::vec((0_u64..3_000, any::<bool>()), 1..400)) {
            let (mut window, mut taken, mut top) = (Window::new(), HashSet::new(), 0_u64);
            for (step, is_forward) in steps {
                let number = if is_forward { top + step } else { top.saturating_sub(step) };
                let is_in_reach = number >= top || top - number < BITS;
                let expected = is_in_reach && taken.insert(number);
                prop_assert_eq!(window.take(number), expected, "{} with {} on top", number, top);
                top = top.max(number);
            }
        }
    }
}
