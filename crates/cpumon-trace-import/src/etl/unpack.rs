//! Unpacks a buffer: the three algorithms of [MS-XCA], each up to a limit.
//!
//! They are our own because the crates that exist have no limit: `lznt1` 0.1.3 makes up to 8 MB of 4 kB and `xpress-huffman` 0.1.3
//! up to 4 GB of one match, `rust-lzxpress` 0.7.1 can panic and is not maintained, `ms-compress` 0.2.1 is LGPL.

use cpumon_sched::{Bytes, Order};

const LZNT1: u16 = 2;
const XPRESS: u16 = 3;
const XPRESS_HUFFMAN: u16 = 4;

/// Unpacks the first `limit` bytes. False if there are fewer, if the bytes are damaged, or if the algorithm is unknown; `out` then has the
/// bytes unpacked so far.
pub(super) fn unpack(packing: u16, from: &[u8], limit: usize, out: &mut Vec<u8>) -> bool {
    let mut output = BoundedOutput { bytes: out, limit };
    output.bytes.clear();
    let is_sound = match packing {
        LZNT1 => lznt1(from, &mut output),
        XPRESS => xpress(from, &mut output),
        XPRESS_HUFFMAN => huffman(from, &mut output),
        _ => None,
    };
    is_sound.is_some() && output.is_full()
}

#[cfg(test)]
mod tests;

struct BoundedOutput<'o> {
    bytes: &'o mut Vec<u8>,
    limit: usize,
}

impl BoundedOutput<'_> {
    fn is_full(&self) -> bool {
        self.bytes.len() >= self.limit
    }

    fn push(&mut self, byte: u8) {
        if !self.is_full() {
            self.bytes.push(byte);
        }
    }

    /// Appends `length` bytes again from `distance` bytes before the end.
    fn repeat(&mut self, distance: usize, length: usize) -> Option<()> {
        let from = self.bytes.len().checked_sub(distance).filter(|_| distance > 0)?;
        for at in from..from.saturating_add(length.min(self.limit.saturating_sub(self.bytes.len()))) {
            let byte = self.bytes[at];
            self.bytes.push(byte);
        }
        Some(())
    }
}

/// The rest of a length: XPRESS, with and without Huffman, stores what does not fit in a byte in two, and that in four.
fn long_length(input: &mut Bytes<'_>, least: usize) -> Option<usize> {
    let length = match input.u16()? {
        0 => usize::try_from(input.u32()?).ok()?,
        short => usize::from(short),
    };
    length.checked_sub(least)
}

fn byte(input: &mut Bytes<'_>) -> Option<u8> {
    input.take(1)?.first().copied()
}

fn input(from: &[u8]) -> Bytes<'_> {
    Bytes::new(from, Order::Little)
}

const CHUNK_BYTES: usize = 4096;
const IS_PACKED: u16 = 0x8000;
const LENGTH: u16 = 0x0fff;

fn lznt1(from: &[u8], out: &mut BoundedOutput<'_>) -> Option<()> {
    let mut input = input(from);
    while !out.is_full() {
        let header = input.u16()?;
        if header == 0 {
            return None;
        }
        // A chunk that ended early is filled with zeros.
        while !out.bytes.len().is_multiple_of(CHUNK_BYTES) && !out.is_full() {
            out.push(0);
        }
        // No more is there where only the begin is wanted.
        let chunk = input.take(input.rest.len().min(usize::from(header & LENGTH) + 1))?;
        if header & IS_PACKED == 0 {
            for byte in chunk {
                out.push(*byte);
            }
        } else {
            unpack_chunk(chunk, out)?;
        }
    }
    Some(())
}

fn unpack_chunk(chunk: &[u8], out: &mut BoundedOutput<'_>) -> Option<()> {
    let (mut input, begin) = (input(chunk), out.bytes.len());
    while !input.rest.is_empty() && !out.is_full() {
        let flags = byte(&mut input)?;
        for bit in 0..8 {
            let done = out.bytes.len() - begin;
            if input.rest.is_empty() || out.is_full() {
                break;
            }
            if flags >> bit & 1 == 0 {
                out.push(byte(&mut input)?);
                continue;
            }
            let token = usize::from(input.u16()?);
            let length_bits = 16 - distance_bits(done);
            let (distance, length) = ((token >> length_bits) + 1, (token & ((1 << length_bits) - 1)) + 3);
            if distance > done || done + length > CHUNK_BYTES {
                return None;
            }
            out.repeat(distance, length)?;
        }
        if out.bytes.len() - begin > CHUNK_BYTES {
            return None;
        }
    }
    Some(())
}

/// Bits for the largest distance behind `done` bytes, at least 4 and at most 12.
fn distance_bits(done: usize) -> usize {
    let mut bits = 4;
    while bits < 12 && 1 << bits < done {
        bits += 1;
    }
    bits
}

const SHORT: usize = 7;
const HALF: usize = 15;

fn xpress(from: &[u8], out: &mut BoundedOutput<'_>) -> Option<()> {
    let mut input = input(from);
    // The upper half of a byte whose lower half was a length.
    let mut half: Option<u8> = None;
    while !out.is_full() {
        let flags = input.u32()?;
        for bit in (0..32).rev() {
            if out.is_full() {
                break;
            }
            if flags >> bit & 1 == 0 {
                out.push(byte(&mut input)?);
                continue;
            }
            let token = usize::from(input.u16()?);
            let mut length = token % 8;
            if length == SHORT {
                let next = if let Some(upper) = half.take() {
                    upper
                } else {
                    let both = byte(&mut input)?;
                    half = Some(both >> 4);
                    both & 0x0f
                };
                length += usize::from(next);
                if usize::from(next) == HALF {
                    length = match byte(&mut input)? {
                        u8::MAX => long_length(&mut input, SHORT + HALF)? + SHORT + HALF,
                        more => SHORT + HALF + usize::from(more),
                    };
                }
            }
            out.repeat(token / 8 + 1, length.saturating_add(3))?;
        }
    }
    Some(())
}

const BLOCK_BYTES: usize = 1 << 16;
const TABLE_BYTES: usize = 256;
const LONGEST_CODE: u32 = 15;
const BYTES: u16 = 256;

fn huffman(from: &[u8], out: &mut BoundedOutput<'_>) -> Option<()> {
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
    /// Of the lengths of all codes, two a byte. `None`: codes are missing, or there are too many.
    fn read(&mut self, lengths: &[u8]) -> Option<()> {
        self.by_bits.clear();
        for length in 1..=LONGEST_CODE {
            for (symbol, pair) in (0..).step_by(2).zip(lengths) {
                for (symbol, its) in [(symbol, pair & 0x0f), (symbol + 1, pair >> 4)] {
                    if u32::from(its) == length {
                        let entry: u16 = symbol << 4 | u16::from(its);
                        let behind = self.by_bits.len() + (1 << (LONGEST_CODE - length));
                        if behind > 1 << LONGEST_CODE {
                            return None;
                        }
                        self.by_bits.resize(behind, entry);
                    }
                }
            }
        }
        (self.by_bits.len() == 1 << LONGEST_CODE).then_some(())
    }
}

/// Bits of the input, words of 16 in advance: whole bytes follow the last word that was taken.
struct Bits<'b> {
    input: Bytes<'b>,
    /// Bits read in advance; the next one is the highest.
    ahead: u32,
    /// Number of bits in `ahead` beyond 16.
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

    fn repeat(&mut self, code: u16, out: &mut BoundedOutput<'_>) -> Option<()> {
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
