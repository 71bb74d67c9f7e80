//! Records that perf compressed (`-z`): one zstd stream, cut into pieces.

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use super::super::credit::Credit;

/// Unpacked bytes that are taken at a time.
const PART_BYTES: usize = 128 << 10;
/// A piece has up to 64 kB, of what a CPU's buffer had; perf's largest buffers unpack to less.
const MAX_UNPACKED_BYTES: usize = 64 << 20;

/// The stream.
pub(super) struct Unpacker {
    decoder: Decoder<'static>,
    part: Vec<u8>,
    credit: Credit,
}

impl Unpacker {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self { decoder: Decoder::new()?, part: vec![0; PART_BYTES], credit: Credit::default() })
    }

    /// Unpacks a piece, part by part. False if it is damaged, or `take` wants no more.
    pub(super) fn unpack(&mut self, piece: &[u8], take: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let mut input = InBuffer::around(piece);
        let mut left_bytes = MAX_UNPACKED_BYTES;
        self.credit.add(piece.len());
        loop {
            let mut output = OutBuffer::around(self.part.as_mut_slice());
            if self.decoder.run(&mut input, &mut output).is_err() {
                return false;
            }
            let unpacked = output.pos();
            if unpacked > left_bytes || !self.credit.take(unpacked) || !take(&self.part[..unpacked]) {
                return false;
            }
            left_bytes -= unpacked;
            // A part that is not full means that the stream has no more for this piece.
            if unpacked < PART_BYTES && input.pos() == piece.len() {
                return true;
            }
            if unpacked == 0 && input.pos() < piece.len() {
                return false;
            }
        }
    }
}
