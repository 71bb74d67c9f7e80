//! Records that perf compressed (`-z`): one zstd stream, cut into pieces.

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use crate::cost::Credit;

/// Unpacked bytes that are taken at a time.
const PART_BYTES: usize = 128 << 10;

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

    /// Begins a piece of so many bytes.
    pub(super) fn begin(&mut self, bytes: usize) {
        self.credit.add(bytes);
    }

    /// Unpacks the next part of what is left of a piece. `None`: it is damaged.
    pub(super) fn next(&mut self, piece: &[u8]) -> Option<Part<'_>> {
        let mut input = InBuffer::around(piece);
        let mut output = OutBuffer::around(self.part.as_mut_slice());
        self.decoder.run(&mut input, &mut output).ok()?;
        let (unpacked, taken) = (output.pos(), input.pos());
        // A part that is not full means that the stream has no more for this piece.
        let is_last = unpacked < PART_BYTES && taken == piece.len();
        let goes_on = is_last || unpacked > 0;
        (goes_on && self.credit.take(unpacked)).then(|| Part {
            bytes: &self.part[..unpacked],
            taken,
            is_last,
        })
    }
}

/// A part of a piece.
pub(super) struct Part<'p> {
    pub(super) bytes: &'p [u8],
    /// Bytes of the piece that it took.
    pub(super) taken: usize,
    pub(super) is_last: bool,
}
