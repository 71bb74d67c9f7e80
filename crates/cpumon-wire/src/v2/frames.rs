//! [`Frames`]: the datagrams of one snapshot while tables fill them.

use super::header::{HEADER_BYTES, Header, MAX_FRAGMENTS};
use crate::Datagrams;

/// A row that does not fit is written and taken back, and encryption adds some bytes. With space for both a buffer is
/// not doubled.
const SPARE_BYTES: usize = 256;

/// The datagrams of one snapshot; the last one is being filled.
#[derive(Debug)]
pub(crate) struct Frames<'a> {
    out: &'a mut Datagrams,
    header: [u8; HEADER_BYTES],
    max_bytes: usize,
}

impl<'a> Frames<'a> {
    pub(crate) fn new(header: Header, max_bytes: usize, out: &'a mut Datagrams) -> Self {
        out.clear();
        let mut frames = Self { out, header: header.to_bytes(), max_bytes };
        frames.push();
        frames
    }

    fn push(&mut self) {
        let buffer = self.out.push();
        buffer.reserve_exact(self.max_bytes + SPARE_BYTES);
        buffer.extend_from_slice(&self.header);
    }

    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        self.out.last_mut()
    }

    /// Its greatest length, bytes.
    pub(crate) fn limit(&self) -> usize {
        self.max_bytes
    }

    /// Begins a new datagram; false if the current one is empty already, so that a new one would not help, or if the
    /// snapshot has as many as a header can number.
    pub(crate) fn next_datagram(&mut self) -> bool {
        if self.buffer().len() <= HEADER_BYTES || self.out.len() >= usize::from(MAX_FRAGMENTS) {
            return false;
        }
        self.push();
        true
    }

    /// Writes the number of each datagram and their count into the headers; the count is known only now.
    pub(crate) fn finish(self) {
        Header::number_fragments(self.out.as_mut_slice());
    }
}
