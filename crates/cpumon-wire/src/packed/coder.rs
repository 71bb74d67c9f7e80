//! [`Coder`]: numbers as symbols and plain bits. A symbol is the length of a number and its topmost bits: symbols repeat, so they go
//! through zstd. The bits below them are noise, which zstd can only copy, so they travel beside it as they are.

use crate::v2::bits::{BitReader, BitWriter, bit_len, unzigzag, zigzag};

/// Numbers below this are symbols of their own.
const DIRECT: u64 = 8;
/// Significant bits of the smallest other number.
const FIRST_LEN: u32 = 4;
/// How many bits below the topmost one are part of the symbol.
const TOP_BITS: u32 = 2;

/// One end of a channel. The same code drives both ends, so they cannot come apart: a [`Writer`] stores the values that it is
/// given and returns them, a [`Reader`] ignores them and returns what it read. `None`: the packed bytes are malformed.
pub(super) trait Coder {
    /// Whether values come from packed bytes.
    const READS: bool;

    /// One byte that goes through zstd.
    fn symbol(&mut self, symbol: u8) -> Option<u8>;

    /// The low `width` bits of a number, not compressed.
    fn bits(&mut self, value: u64, width: u32) -> Option<u64>;

    /// A number that often is one of few, or has about the same length as others.
    fn number(&mut self, value: u64) -> Option<u64> {
        let symbol = self.symbol(symbol_of(value))?;
        let Some(class) = u64::from(symbol).checked_sub(DIRECT) else { return Some(u64::from(symbol)) };
        let len = FIRST_LEN + u32::try_from(class >> TOP_BITS).ok()?;
        // Symbols above 251 would be numbers of more than 64 bits; only damaged bytes have them.
        let width = len.checked_sub(1 + TOP_BITS).filter(|_| len <= u64::BITS)?;
        // The topmost bit is always 1, so neither the symbol nor the bits carry it.
        let top = 1 << TOP_BITS | class & ((1 << TOP_BITS) - 1);
        Some(top << width | self.bits(value & ((1 << width) - 1), width)?)
    }

    /// A number that often is close to 0.
    fn signed(&mut self, value: i64) -> Option<i64> {
        self.number(zigzag(value)).map(unzigzag)
    }
}

fn symbol_of(value: u64) -> u8 {
    let symbol = if value < DIRECT {
        value
    } else {
        let len = bit_len(value);
        let top = value >> (len - 1 - TOP_BITS) & ((1 << TOP_BITS) - 1);
        DIRECT + (u64::from(len - FIRST_LEN) << TOP_BITS) + top
    };
    symbol.to_le_bytes()[0]
}

/// The device's end: collects the symbols and bits of one record.
#[derive(Debug, Default)]
pub(super) struct Writer {
    pub(super) symbols: Vec<u8>,
    pub(super) bits: Vec<u8>,
    pending: BitWriter,
}

impl Writer {
    pub(super) fn clear(&mut self) {
        self.symbols.clear();
        self.bits.clear();
        self.pending = BitWriter::default();
    }

    /// Fills the last byte of bits with zeros.
    pub(super) fn finish(&mut self) {
        self.pending.finish(&mut self.bits);
    }
}

impl Coder for Writer {
    const READS: bool = false;

    fn symbol(&mut self, symbol: u8) -> Option<u8> {
        self.symbols.push(symbol);
        Some(symbol)
    }

    fn bits(&mut self, value: u64, width: u32) -> Option<u64> {
        self.pending.put(&mut self.bits, value, width);
        Some(value)
    }
}

/// The receiver's end: takes the symbols and bits of one record in the same order.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    symbols: &'a [u8],
    bits: BitReader<'a>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(symbols: &'a [u8], bits: &'a [u8]) -> Self {
        Self { symbols, bits: BitReader::new(bits) }
    }

    /// Whether everything was read, up to the zeros that fill the last byte.
    pub(super) fn is_at_end(&self) -> bool {
        self.symbols.is_empty() && self.bits.bits_left() < 8
    }
}

impl Coder for Reader<'_> {
    const READS: bool = true;

    fn symbol(&mut self, _: u8) -> Option<u8> {
        let (&symbol, rest) = self.symbols.split_first()?;
        self.symbols = rest;
        Some(symbol)
    }

    fn bits(&mut self, _: u64, width: u32) -> Option<u64> {
        self.bits.take(width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length_come_back() {
        let numbers = (0..64).flat_map(|len| [(1 << len) - 1, 1 << len, (1 << len) + 1]).chain([u64::MAX]);
        let numbers: Vec<u64> = numbers.chain(0..300).collect();
        let mut writer = Writer::default();
        assert!(numbers.iter().all(|&number| writer.number(number) == Some(number)));
        writer.finish();
        let mut reader = Reader::new(&writer.symbols, &writer.bits);
        assert!(numbers.iter().all(|&number| reader.number(0) == Some(number)));
        assert!(reader.is_at_end());
        assert_eq!(reader.number(0), None);
    }

    #[test]
    fn a_symbol_of_more_than_64_bits_is_refused() {
        assert_eq!(symbol_of(u64::MAX), 251);
        for symbol in 252..=255 {
            assert_eq!(Reader::new(&[symbol], &[0xff; 16]).number(0), None);
        }
    }
}
