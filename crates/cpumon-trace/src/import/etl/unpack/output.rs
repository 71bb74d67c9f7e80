//! What the algorithms share: bounded output, and input by its parts.

use super::super::super::bytes::{Bytes, Order};

/// Unpacked bytes.
pub(super) struct Output<'o> {
    pub(super) bytes: &'o mut Vec<u8>,
    pub(super) limit: usize,
}

impl Output<'_> {
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= self.limit
    }

    pub(super) fn push(&mut self, byte: u8) {
        if !self.is_full() {
            self.bytes.push(byte);
        }
    }

    /// Repeats what was unpacked `distance` bytes ago.
    pub(super) fn repeat(&mut self, distance: usize, length: usize) -> Option<()> {
        let from = self.bytes.len().checked_sub(distance).filter(|_| distance > 0)?;
        for at in from..from.saturating_add(length.min(self.limit.saturating_sub(self.bytes.len()))) {
            let byte = self.bytes[at];
            self.bytes.push(byte);
        }
        Some(())
    }
}

/// The rest of a length: XPRESS, with and without Huffman, stores what does not fit in a byte in two, and that in four.
pub(super) fn long_length(input: &mut Bytes<'_>, least: usize) -> Option<usize> {
    let length = match input.u16()? {
        0 => usize::try_from(input.u32()?).ok()?,
        short => usize::from(short),
    };
    length.checked_sub(least)
}

pub(super) fn byte(input: &mut Bytes<'_>) -> Option<u8> {
    input.take(1)?.first().copied()
}

pub(super) fn input(from: &[u8]) -> Bytes<'_> {
    Bytes::new(from, Order::Little)
}
