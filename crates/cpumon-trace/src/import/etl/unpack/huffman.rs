//! XPRESS with Huffman codes: a table for each 65,536 bytes, then codes of bytes and matches, among which the lengths of long matches lie.

use super::super::super::bytes::Bytes;
use super::output::{Output, byte, input, long_length};

const BLOCK_BYTES: usize = 1 << 16;
const TABLE_BYTES: usize = 256;
const LONGEST_CODE: u32 = 15;
const BYTES: u16 = 256;

pub(super) fn unpack(from: &[u8], out: &mut Output<'_>) -> Option<()> {
    let mut input = input(from);
    let mut codes = Codes { by_bits: Vec::new() };
    while !out.is_full() {
        codes.read(input.take(TABLE_BYTES)?)?;
        let mut bits = Bits { input, ahead: 0, extra: -16, missing: 0 };
        bits.fill();
        bits.fill();
        let end = out.bytes.len() + BLOCK_BYTES;
        while out.bytes.len() < end && !out.is_full() {
            let symbol = bits.symbol(&codes)?;
            if let Some(code) = symbol.checked_sub(BYTES) {
                bits.repeat(code, out)?;
            } else {
                out.push(u8::try_from(symbol).unwrap_or(0));
            }
        }
        input = bits.input;
    }
    Some(())
}

/// Symbols by the next 15 bits, each with the length of its code in the lowest four bits.
struct Codes {
    by_bits: Vec<u16>,
}

impl Codes {
    /// Of the lengths of all codes, two a byte.
    fn read(&mut self, lengths: &[u8]) -> Option<()> {
        self.by_bits.clear();
        for length in 1..=LONGEST_CODE {
            for (symbol, pair) in (0..).step_by(2).zip(lengths) {
                for (symbol, its) in [(symbol, pair & 0x0f), (symbol + 1, pair >> 4)] {
                    if u32::from(its) == length {
                        let entry: u16 = symbol << 4 | u16::from(its);
                        let count = 1 << (LONGEST_CODE - length);
                        self.by_bits.resize(self.by_bits.len() + count, entry);
                    }
                }
            }
        }
        // Else codes are missing, or there are too many.
        (self.by_bits.len() == 1 << LONGEST_CODE).then_some(())
    }
}

/// Bits of the input, words of 16 in advance: whole bytes follow the last word that was taken.
struct Bits<'b> {
    input: Bytes<'b>,
    /// The next ones are the highest.
    ahead: u32,
    /// Bits beyond 16.
    extra: i32,
    /// Bits that were taken behind the end of the input.
    missing: i32,
}

impl Bits<'_> {
    /// The last code may need fewer bits than are taken in advance.
    fn fill(&mut self) {
        match self.input.u16() {
            Some(word) => self.ahead |= u32::from(word) << self.extra.unsigned_abs(),
            None => self.missing += 16,
        }
        self.extra += 16;
    }

    fn skip(&mut self, count: u32) -> Option<()> {
        self.ahead = self.ahead.checked_shl(count).unwrap_or(0);
        self.extra -= count.cast_signed();
        if self.extra < 0 {
            self.fill();
        }
        (self.extra + 16 >= self.missing).then_some(())
    }

    fn symbol(&mut self, codes: &Codes) -> Option<u16> {
        let place = usize::try_from(self.ahead >> (32 - LONGEST_CODE)).ok()?;
        let entry = *codes.by_bits.get(place)?;
        self.skip(u32::from(entry & 0x0f))?;
        Some(entry >> 4)
    }

    fn repeat(&mut self, code: u16, out: &mut Output<'_>) -> Option<()> {
        let distance_bits = u32::from(code >> 4);
        let mut length = usize::from(code & 0x0f);
        if length == 15 {
            length += match byte(&mut self.input)? {
                u8::MAX => long_length(&mut self.input, 15)?,
                more => usize::from(more),
            };
        }
        let low = self.ahead.checked_shr(32 - distance_bits).unwrap_or(0);
        let distance = (1 << distance_bits) + usize::try_from(low).ok()?;
        self.skip(distance_bits)?;
        out.repeat(distance, length.saturating_add(3))
    }
}
