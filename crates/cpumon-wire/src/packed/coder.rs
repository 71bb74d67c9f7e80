//! [`Coder`]: numbers as symbols and plain bits. A symbol is the length of a number and its topmost bits: symbols repeat, so they go
//! through zstd ([`Compressor`], [`Decompressor`]): one context per channel, so that repetitions between records are found and tables of
//! probabilities are sent once. The bits below them are noise, which zstd can only copy, so they travel beside it as they are.

use cpumon_model::varint::{unzigzag, zigzag};
use zstd::zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd::zstd_safe::{CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer, compress_bound};

use crate::v2::HEADER_BYTES;
use crate::v2::bits::{BitReader, BitWriter, bit_len};

/// Numbers below this are symbols of their own.
const DIRECT: u64 = 8;
/// Significant bits of the smallest number that is not direct.
const FIRST_LEN: u32 = 4;
/// How many bits below the topmost one are part of the symbol.
const TOP_BITS: u32 = 2;

/// One end of a channel. The same code drives both ends, so they cannot come apart: a [`SymbolWriter`] stores the given values and
/// returns them, a [`SymbolReader`] ignores them and returns the values that it reads. `None`: the packed bytes are malformed.
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

    /// A signed number that is often close to 0.
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
pub(super) struct SymbolWriter {
    pub(super) symbols: Vec<u8>,
    pub(super) bits: Vec<u8>,
    pending: BitWriter,
}

impl SymbolWriter {
    pub(super) fn clear(&mut self) {
        self.symbols.clear();
        self.bits.clear();
        self.pending = BitWriter::default();
    }

    /// Pads the last byte of bits with zeros.
    pub(super) fn finish(&mut self) {
        self.pending.finish(&mut self.bits);
    }
}

impl Coder for SymbolWriter {
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
pub(super) struct SymbolReader<'a> {
    symbols: &'a [u8],
    bits: BitReader<'a>,
}

impl<'a> SymbolReader<'a> {
    pub(super) fn new(symbols: &'a [u8], bits: &'a [u8]) -> Self {
        Self { symbols, bits: BitReader::new(bits) }
    }

    /// Whether everything was read, up to the zeros that fill the last byte.
    pub(super) fn is_at_end(&self) -> bool {
        self.symbols.is_empty() && self.bits.bits_left() < 8
    }
}

impl Coder for SymbolReader<'_> {
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

/// Offset of the header's length.
const LENGTH_AT: usize = 5;
/// Where the numbers are that change; 8 bytes each.
const SEQUENCE: usize = 44;
const MONO: usize = 56;
const BOOT: usize = 64;
const WALL: usize = 72;
/// Ranges of the header between the numbers that change.
const FIXED: [std::ops::Range<usize>; 2] = [0..SEQUENCE, SEQUENCE + 8..MONO];

/// Header at the start of a frame; `None` if the frame is too short.
pub(super) fn header_of(frame: &[u8]) -> Option<&[u8]> {
    let length = usize::from(*frame.get(LENGTH_AT)?);
    frame.get(..length).filter(|header| header.len() >= HEADER_BYTES)
}

/// When the snapshot of this header ended, by the wall clock, ns since the UNIX epoch.
pub(super) fn wall_ns(header: &[u8]) -> i64 {
    get(header, WALL).cast_signed()
}

/// Codes a header; what was coded is in `header` and, for the next one, in `before`.
pub(super) fn code_header(coder: &mut impl Coder, header: &mut Vec<u8>, before: &mut Vec<u8>) -> Option<()> {
    let length = usize::from(coder.symbol(u8::try_from(header.len()).ok()?)?);
    // All offsets of numbers below lie within these bytes.
    if length < HEADER_BYTES {
        return None;
    }
    header.resize(length, 0);
    for at in FIXED.into_iter().flatten().chain(WALL + 8..length) {
        let byte = header.get_mut(at)?;
        *byte = coder.symbol(*byte)?;
    }
    // All clocks advance by about the same time, so the advance of the first one predicts the other two.
    let mut passed = 0_u64;
    for at in [SEQUENCE, MONO, BOOT, WALL] {
        let expected = get(before, at).wrapping_add(passed);
        let difference = coder.signed(get(header, at).wrapping_sub(expected).cast_signed())?;
        let value = expected.wrapping_add(difference.cast_unsigned());
        header.get_mut(at..at + 8)?.copy_from_slice(&value.to_le_bytes());
        if at == MONO {
            passed = value.wrapping_sub(get(before, MONO));
        }
    }
    before.clone_from(header);
    Some(())
}

fn get(header: &[u8], at: usize) -> u64 {
    header.get(at..at + 8).and_then(|field| field.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Level 3 costs 1 % fewer bytes than level 1 and about as much time, because most of the time goes into the tables.
const LEVEL: i32 = 3;
/// Size of zstd's window as a power of two, bytes: about 35 records of 2,000 threads. A receiver holds so much for each channel.
const WINDOW_LOG: u32 = 19;
/// Entries of zstd's two tables as a power of two. Symbols repeat closely: tables of 2^17 and 2^16 entries, as of this level, take 640 KiB more
/// of a device's memory and save 0.1 to 0.4 % of the bytes.
const TABLE_LOG: u32 = 14;
/// Space that is added for decompressed symbols at once.
const STEP_BYTES: usize = 64 << 10;
/// What flushing adds to a compressed block at most.
const FLUSH_BYTES: usize = 64;

/// The device's end: one zstd frame for all records of the channel.
pub(super) struct Compressor(CCtx<'static>);

impl Compressor {
    /// `None` if there is no memory for the compressor.
    pub(super) fn new() -> Option<Self> {
        let mut context = CCtx::try_create()?;
        context.set_parameter(CParameter::CompressionLevel(LEVEL)).ok()?;
        context.set_parameter(CParameter::WindowLog(WINDOW_LOG)).ok()?;
        context.set_parameter(CParameter::HashLog(TABLE_LOG)).ok()?;
        context.set_parameter(CParameter::ChainLog(TABLE_LOG)).ok()?;
        Some(Self(context))
    }

    /// Replaces `out` by the compressed symbols of a record. `None`: zstd failed, and the channel must not be used any more.
    pub(super) fn compress(&mut self, symbols: &[u8], out: &mut Vec<u8>) -> Option<()> {
        out.clear();
        // Space for the worst case, so that the loop normally runs once.
        out.reserve(compress_bound(symbols.len()) + FLUSH_BYTES);
        let mut input = InBuffer::around(symbols);
        loop {
            let at = out.len();
            out.reserve(FLUSH_BYTES);
            let mut output = OutBuffer::around_pos(out, at);
            // A flush ends the block and not the frame: this record can be read now, and later ones may refer
            // to it.
            let flush = ZSTD_EndDirective::ZSTD_e_flush;
            if self.0.compress_stream2(&mut output, &mut input, flush).ok()? == 0 {
                return Some(());
            }
        }
    }
}

/// The receiver's end of the zstd frame that [`Compressor`] writes.
pub(super) struct Decompressor(DCtx<'static>);

impl Decompressor {
    /// `None` if there is no memory for the decompressor.
    pub(super) fn new() -> Option<Self> {
        let mut context = DCtx::try_create()?;
        // zstd takes windows of up to 128 MiB by default; a device must not make a receiver hold that much.
        context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG)).ok()?;
        Some(Self(context))
    }

    /// Replaces `symbols` by those of a record, at most `limit`. `None`: the bytes are damaged, want a larger window, end the
    /// channel's frame, or become more than `limit`.
    pub(super) fn decompress(&mut self, bytes: &[u8], symbols: &mut Vec<u8>, limit: usize) -> Option<()> {
        symbols.clear();
        let mut input = InBuffer::around(bytes);
        loop {
            let at = symbols.len();
            // In steps: how long the device's bytes become is not known before, and must not be believed.
            symbols.reserve(STEP_BYTES);
            let hint = self.0.decompress_stream(&mut OutBuffer::around_pos(symbols, at), &mut input).ok()?;
            // 0 is the end of a frame, and a channel's frame has none.
            if hint == 0 || symbols.len() > limit {
                return None;
            }
            // With space left and no input left, zstd holds nothing back.
            if input.pos() == bytes.len() && symbols.len() < symbols.capacity() {
                return Some(());
            }
        }
    }
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Compressor")
    }
}

impl std::fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decompressor")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length_come_back() {
        let numbers = (0..64).flat_map(|len| [(1 << len) - 1, 1 << len, (1 << len) + 1]).chain([u64::MAX]);
        let numbers: Vec<u64> = numbers.chain(0..300).collect();
        let mut writer = SymbolWriter::default();
        assert!(numbers.iter().all(|&number| writer.number(number) == Some(number)));
        writer.finish();
        let mut reader = SymbolReader::new(&writer.symbols, &writer.bits);
        assert!(numbers.iter().all(|&number| reader.number(0) == Some(number)));
        assert!(reader.is_at_end());
        assert_eq!(reader.number(0), None);
    }

    #[test]
    fn a_symbol_of_more_than_64_bits_is_refused() {
        assert_eq!(symbol_of(u64::MAX), 251);
        for symbol in 252..=255 {
            assert_eq!(SymbolReader::new(&[symbol], &[0xff; 16]).number(0), None);
        }
    }

    #[test]
    fn a_bomb_ends_at_the_limit_and_takes_no_more_space() {
        let (mut bomb, mut symbols) = (Vec::new(), Vec::new());
        Compressor::new().unwrap().compress(&vec![0; 64 << 20], &mut bomb).unwrap();
        assert!(bomb.len() < 16 << 10);
        assert_eq!(Decompressor::new().unwrap().decompress(&bomb, &mut symbols, 1 << 20), None);
        assert!(symbols.capacity() <= 4 << 20);
    }

    #[test]
    fn a_larger_window_and_the_end_of_a_frame_are_refused() {
        let mut context = CCtx::create();
        context.set_parameter(CParameter::WindowLog(WINDOW_LOG + 1)).unwrap();
        for (mut context, end) in
            [(context, ZSTD_EndDirective::ZSTD_e_flush), (CCtx::create(), ZSTD_EndDirective::ZSTD_e_end)]
        {
            let mut out = Vec::with_capacity(1 << 10);
            let left = context.compress_stream2(
                &mut OutBuffer::around(&mut out),
                &mut InBuffer::around(b"symbols"),
                end,
            );
            assert_eq!(left, Ok(0));
            assert_eq!(Decompressor::new().unwrap().decompress(&out, &mut Vec::new(), 1 << 20), None);
        }
    }
}
