//! [`Compressor`] and [`Decompressor`]: zstd over all symbols of a channel. There is one context per channel,
//! so repetitions between records are found and tables of probabilities are sent once.

use zstd::zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd::zstd_safe::{CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer, compress_bound};

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
    /// `None`: there is no memory for it.
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

/// The receiver's end of that frame.
pub(super) struct Decompressor(DCtx<'static>);

impl Decompressor {
    /// `None`: there is no memory for it.
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
