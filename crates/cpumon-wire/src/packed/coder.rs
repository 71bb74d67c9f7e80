//! A binary range coder: bits by how likely they are. In: bits with a [`Chance`] that learns. Out: bytes, and the way back.
//! Why both ways behind one trait: what is coded stands once, so encoder and decoder cannot differ.
//!
//! As in LZMA: 32 bits of range, carries run into bytes that are held back. Chances are of 16 bits and learn quickly first.

use crate::v2::bits::{bit_len, unzigzag, zigzag};

/// Below this the range is widened by a byte.
const SMALL_RANGE: u32 = 1 << 24;
/// A chance follows what comes by one part in at most so many.
const MOST_SEEN: u16 = 80;
/// No bit is taken for certain: the least chance, of 65,536.
const LEAST: u32 = 32;

/// By which part a chance follows, of 65,536: a half first, then less and less.
const RATES: [u32; MOST_SEEN as usize + 1] = {
    let mut rates = [0; MOST_SEEN as usize + 1];
    let (mut seen, mut divisor) = (0, 2);
    while seen < rates.len() {
        rates[seen] = 65_536 / divisor;
        (seen, divisor) = (seen + 1, divisor + 1);
    }
    rates
};

/// So many parts of 65,536 of a number.
fn part(of: u16, rate: u32) -> u16 {
    let [_, _, low, high] = (u32::from(of) * rate).to_le_bytes();
    u16::from_le_bytes([low, high])
}

/// How likely a bit is 0, as learned from those before.
#[derive(Copy, Clone, Debug)]
pub(super) struct Chance {
    /// Of 65,536.
    zero: u16,
    /// Bits seen so far, up to [`MOST_SEEN`].
    seen: u16,
}

impl Default for Chance {
    fn default() -> Self {
        Self { zero: 1 << 15, seen: 0 }
    }
}

impl Chance {
    fn of_zero(self) -> u32 {
        u32::from(self.zero).clamp(LEAST, 65_536 - LEAST)
    }

    fn learn(&mut self, bit: bool) {
        let rate = RATES[usize::from(self.seen.min(MOST_SEEN))];
        if bit {
            self.zero -= part(self.zero, rate);
        } else {
            self.zero += part(u16::MAX - self.zero, rate);
        }
        self.seen = (self.seen + 1).min(MOST_SEEN);
    }
}

/// One direction. Each function gives back what was coded; a decoder does not look at what it is given.
pub(super) trait Coder {
    /// It reads.
    const READS: bool;
    /// A bit.
    fn bit(&mut self, chance: &mut Chance, bit: bool) -> bool;
    /// At most 64 bits, 0 and 1 equally likely.
    fn plain(&mut self, value: u64, width: u32) -> u64;
}

/// To bytes.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    low: u64,
    range: u32,
    /// The byte before `low`, and how many 0xff behind it: a carry may still change them. `None`: nothing yet.
    held: Option<u8>,
    held_ff: usize,
}

impl<'a> Writer<'a> {
    /// Appends to `out`.
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, low: 0, range: u32::MAX, held: None, held_ff: 0 }
    }

    fn shift(&mut self) {
        if self.low < 0xff00_0000 || self.low > 0xffff_ffff {
            let carry = u8::from(self.low > 0xffff_ffff);
            // Before the first byte there is nothing a carry could come to: the value stays below 1.
            self.out.extend(self.held.map(|held| held.wrapping_add(carry)));
            self.out.extend(std::iter::repeat_n(0xff_u8.wrapping_add(carry), self.held_ff));
            self.held_ff = 0;
            self.held = Some(self.low.to_le_bytes()[3]);
        } else {
            self.held_ff += 1;
        }
        self.low = (self.low & 0x00ff_ffff) << 8;
    }

    fn widen(&mut self) {
        while self.range < SMALL_RANGE {
            self.range <<= 8;
            self.shift();
        }
    }

    /// Writes what is left. Zeros at the end are not written: a reader takes what is behind the end for zeros.
    pub(super) fn finish(mut self) {
        let begin = self.out.len();
        // Of all values within the range the one with the most zeros at its end.
        let last = self.low + u64::from(self.range) - 1;
        let shift = (0..32).rev().find(|&shift| last >> shift << shift >= self.low).unwrap_or(0);
        self.low = last >> shift << shift;
        for _ in 0..5 {
            self.shift();
        }
        while self.out.len() > begin && self.out.last() == Some(&0) {
            self.out.pop();
        }
    }
}

impl Coder for Writer<'_> {
    const READS: bool = false;

    #[inline]
    fn bit(&mut self, chance: &mut Chance, bit: bool) -> bool {
        let bound = (self.range >> 16) * chance.of_zero();
        if bit {
            self.low += u64::from(bound);
            self.range -= bound;
        } else {
            self.range = bound;
        }
        chance.learn(bit);
        self.widen();
        bit
    }

    #[inline]
    fn plain(&mut self, value: u64, width: u32) -> u64 {
        let mut left = width;
        while left > 0 {
            let count = left.min(8);
            left -= count;
            self.range >>= count;
            self.low += u64::from(self.range) * (value >> left & ((1 << count) - 1));
            self.widen();
        }
        value
    }
}

/// From bytes. Behind their end it reads zeros, so it never fails: what it gives must be bounded and checked.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: std::slice::Iter<'a, u8>,
    code: u32,
    range: u32,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let mut reader = Self { rest: bytes.iter(), code: 0, range: u32::MAX };
        for _ in 0..4 {
            reader.next();
        }
        reader
    }

    fn next(&mut self) {
        self.code = self.code << 8 | u32::from(self.rest.next().copied().unwrap_or(0));
    }

    fn widen(&mut self) {
        while self.range < SMALL_RANGE {
            self.range <<= 8;
            self.next();
        }
    }
}

impl Coder for Reader<'_> {
    const READS: bool = true;

    #[inline]
    fn bit(&mut self, chance: &mut Chance, _: bool) -> bool {
        let bound = (self.range >> 16) * chance.of_zero();
        let bit = self.code >= bound;
        if bit {
            self.code -= bound;
            self.range -= bound;
        } else {
            self.range = bound;
        }
        chance.learn(bit);
        self.widen();
        bit
    }

    #[inline]
    fn plain(&mut self, _: u64, width: u32) -> u64 {
        let (mut value, mut left) = (0, width);
        while left > 0 {
            let count = left.min(8);
            left -= count;
            self.range >>= count;
            // Bytes that no writer made may lead beyond the last value.
            let part = (self.code / self.range).min((1 << count) - 1);
            self.code -= part * self.range;
            value = value << count | u64::from(part);
            self.widen();
        }
        value
    }
}

/// A number: how many bits it has as learned, its topmost bits as learned, the rest plain.
#[derive(Clone, Debug)]
pub(super) struct Number {
    is_any: Chance,
    length: [Chance; 64],
    top: [Chance; 64],
}

impl Default for Number {
    fn default() -> Self {
        Self { is_any: Chance::default(), length: [Chance::default(); 64], top: [Chance::default(); 64] }
    }
}

impl Number {
    pub(super) fn code(&mut self, coder: &mut impl Coder, value: u64) -> u64 {
        if !coder.bit(&mut self.is_any, value != 0) {
            return 0;
        }
        let below = bit_len(value).saturating_sub(1);
        let below = u32::try_from(tree(coder, &mut self.length, u64::from(below), 6)).unwrap_or(0);
        if below == 0 {
            return 1;
        }
        let rest = below - 1;
        let top = coder.bit(&mut self.top[below as usize], value >> rest & 1 == 1);
        1 << below | u64::from(top) << rest | coder.plain(value & ((1 << rest) - 1), rest)
    }

    pub(super) fn code_signed(&mut self, coder: &mut impl Coder, value: i64) -> i64 {
        unzigzag(self.code(coder, zigzag(value)))
    }
}

/// `width` bits, the highest first, each by those before it. `chances`: 2 to the power of `width`.
pub(super) fn tree(coder: &mut impl Coder, chances: &mut [Chance], value: u64, width: u32) -> u64 {
    let mut node = 1_usize;
    for bit in (0..width).rev() {
        // The node is below 2^width until the last bit was taken.
        let Some(chance) = chances.get_mut(node) else { break };
        node = node << 1 | usize::from(coder.bit(chance, value >> bit & 1 == 1));
    }
    node as u64 - (1 << width)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(code: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        code(&mut writer);
        writer.finish();
        out
    }

    proptest! {
        #[test]
        fn numbers_come_back(values in proptest::collection::vec((any::<u64>(), 0..64_u32), 0..400)) {
            let values: Vec<u64> = values.iter().map(|(value, shift)| value >> shift).collect();
            let mut model = Number::default();
            let bytes = written(|writer| {
                for &value in &values {
                    model.code(writer, value);
                    writer.plain(value, 64);
                }
            });
            let (mut reader, mut model) = (Reader::new(&bytes), Number::default());
            for &value in &values {
                prop_assert_eq!(model.code(&mut reader, 0), value);
                prop_assert_eq!(reader.plain(0, 64), value);
            }
        }

        #[test]
        fn any_bytes_are_read_without_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let (mut reader, mut model) = (Reader::new(&bytes), Number::default());
            for _ in 0..1_000 {
                model.code_signed(&mut reader, 0);
                prop_assert!(reader.plain(0, 13) < 1 << 13);
            }
        }
    }

    #[test]
    fn what_is_expected_takes_next_to_nothing() {
        let mut model = Number::default();
        let bytes = written(|writer| (0..10_000).for_each(|_| assert_eq!(model.code(writer, 0), 0)));
        assert!(bytes.len() < 20, "{}", bytes.len());
    }

    #[test]
    fn carries_run_through_bytes_that_are_held_back() {
        // Unlikely bits push `low` up as far as it goes.
        let mut chance = Chance::default();
        let bits: Vec<bool> = (0..5_000).map(|at| at % 97 == 0 || at > 4_000).collect();
        let bytes = written(|writer| {
            for &bit in &bits {
                writer.bit(&mut chance, bit);
                writer.plain(0xff, 8);
            }
        });
        let (mut reader, mut chance) = (Reader::new(&bytes), Chance::default());
        for &bit in &bits {
            assert_eq!((reader.bit(&mut chance, false), reader.plain(0, 8)), (bit, 0xff));
        }
    }
}
