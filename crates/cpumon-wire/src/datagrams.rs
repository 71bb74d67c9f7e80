//! [`Datagrams`]: reusable buffers for the datagrams of one snapshot, so that a steady state allocates
//! nothing.

/// Clearing keeps all buffers up to this total capacity, bytes. Above it, buffers are freed if only a few were used.
const SMALL_BYTES: usize = 256 << 10;
/// A snapshot needs few buffers if it uses less than one in this many.
const BUFFERS_FOR_ONE: usize = 8;

/// Datagrams of one snapshot or v1 set. Clearing keeps the buffers, except those that only a far larger snapshot needed.
#[derive(Clone, Debug, Default)]
pub struct Datagrams {
    buffers: Vec<Vec<u8>>,
    used: usize,
}

impl Datagrams {
    /// Without buffers; they are allocated as datagrams are added.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets the datagrams, keeps their buffers. The first snapshots hold every thread and take up to a hundred times as many as
    /// later ones: what they needed more than twice the last one is freed.
    pub fn clear(&mut self) {
        let used = std::mem::take(&mut self.used);
        if used < self.buffers.len() / BUFFERS_FOR_ONE && self.capacity_bytes() > SMALL_BYTES {
            self.buffers.truncate(used * 2);
            self.buffers.shrink_to_fit();
        }
    }

    fn capacity_bytes(&self) -> usize {
        self.buffers.iter().map(Vec::capacity).sum()
    }

    /// The datagrams, in the order in which to send them.
    pub fn as_slice(&self) -> &[Vec<u8>] {
        self.buffers.get(..self.used).unwrap_or_default()
    }

    /// Number of datagrams.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether there are no datagrams.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Sum of the lengths of all datagrams, bytes.
    pub fn byte_count(&self) -> usize {
        self.as_slice().iter().map(Vec::len).sum()
    }

    /// The datagrams in the order in which to send them.
    pub fn iter(&self) -> std::slice::Iter<'_, Vec<u8>> {
        self.as_slice().iter()
    }

    /// Adds an empty datagram at the end and returns it.
    pub(crate) fn push(&mut self) -> &mut Vec<u8> {
        if self.used == self.buffers.len() {
            self.buffers.push(Vec::new());
        }
        self.used += 1;
        let buffer = &mut self.buffers[self.used - 1];
        buffer.clear();
        buffer
    }

    /// The last datagram; a new one if there is none.
    pub(crate) fn last_mut(&mut self) -> &mut Vec<u8> {
        if self.used == 0 {
            return self.push();
        }
        &mut self.buffers[self.used - 1]
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [Vec<u8>] {
        self.buffers.get_mut(..self.used).unwrap_or_default()
    }
}

impl From<Vec<Vec<u8>>> for Datagrams {
    fn from(buffers: Vec<Vec<u8>>) -> Self {
        Self { used: buffers.len(), buffers }
    }
}

impl<'a> IntoIterator for &'a Datagrams {
    type Item = &'a Vec<u8>;
    type IntoIter = std::slice::Iter<'a, Vec<u8>>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clearing_keeps_the_buffers_but_not_the_bytes() {
        let mut datagrams = Datagrams::new();
        datagrams.push().extend_from_slice(b"one");
        datagrams.push().extend_from_slice(b"three");
        assert_eq!((datagrams.len(), datagrams.byte_count()), (2, 8));
        datagrams.clear();
        assert!(datagrams.is_empty() && datagrams.iter().next().is_none());
        assert_eq!(datagrams.push(), &Vec::<u8>::new());
        assert_eq!(datagrams.as_slice(), &[Vec::<u8>::new()]);
    }

    #[test]
    fn a_full_snapshot_leaves_no_buffers_behind() {
        let mut datagrams = Datagrams::new();
        let mut send = |count: usize| {
            datagrams.clear();
            for _ in 0..count {
                datagrams.push().extend_from_slice(&[0; 1_400]);
            }
            datagrams.buffers.len()
        };
        assert_eq!(send(500), 500);
        assert_eq!(send(10), 500, "the one before had so many");
        assert_eq!(send(12), 20);
        assert_eq!(send(20), 20);
        assert_eq!(send(1), 20, "few buffers stay");
        assert_eq!(send(1), 20);
    }
}
