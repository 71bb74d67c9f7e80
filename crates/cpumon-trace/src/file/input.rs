//! The bytes of a file that is read once from its start: some of them can be seen before they are passed, so that a search for
//! whole chunks can begin again inside a damaged one.

use std::io::Read;

/// Where the reading is.
pub(super) struct Input<R> {
    from: R,
    bytes: Vec<u8>,
    start: usize,
    at: u64,
}

impl<R: Read> Input<R> {
    /// `at`: bytes of the file that were read before.
    pub(super) fn new(from: R, at: u64) -> Self {
        Self { from, bytes: Vec::new(), start: 0, at }
    }

    /// The next `length` bytes; fewer where the file ends.
    pub(super) fn peek(&mut self, length: usize) -> std::io::Result<&[u8]> {
        if self.bytes.len() - self.start < length {
            self.bytes.drain(..self.start);
            self.start = 0;
            let missing = length - self.bytes.len();
            self.from.by_ref().take(missing as u64).read_to_end(&mut self.bytes)?;
        }
        let rest = &self.bytes[self.start..];
        Ok(&rest[..length.min(rest.len())])
    }

    /// Goes on behind bytes that were seen.
    pub(super) fn pass(&mut self, length: usize) {
        let length = length.min(self.bytes.len() - self.start);
        self.start += length;
        self.at += length as u64;
    }

    /// Bytes that are in memory.
    pub(super) fn seen_bytes(&self) -> u64 {
        (self.bytes.len() - self.start) as u64
    }

    /// Bytes of the file in front of the next one.
    pub(super) fn at(&self) -> u64 {
        self.at
    }
}
