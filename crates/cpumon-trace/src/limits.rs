//! What reading a file may cost, by its length: limits that the readers of all formats share. A recording needs far less, however it was
//! packed; a small file that was made for it could take gigabytes and hours.

/// Bytes that any file may unpack to: pages that are mostly empty pack well.
const FREE_BYTES: u64 = 16 << 20;
/// Bytes that each packed byte adds to the limit. Recorded events shrink to a tenth at most.
const UNPACKED_TIMES: u64 = 64;

/// A limit that grows with the length of a file, in units of the limited quantity: events, threads or bytes.
#[derive(Copy, Clone, Debug)]
pub struct Bound {
    /// Limit of an empty file.
    pub free: usize,
    /// Increase of the limit for each byte read from the file.
    pub times: usize,
    /// Upper bound of the limit.
    pub most: usize,
}

impl Bound {
    /// The limit once `read_bytes` bytes of a file were read.
    pub fn of(self, read_bytes: u64) -> usize {
        let grown = usize::try_from(read_bytes).unwrap_or(usize::MAX).saturating_mul(self.times);
        grown.saturating_add(self.free).min(self.most)
    }
}

/// Number of events and names that a file may become, however it is packed. The densest recordings have one for each byte.
pub const EVENTS: Bound = Bound { free: 1 << 19, times: 4, most: usize::MAX };

/// Bytes that the packed parts of a file may still become together. It begins with 16 MiB; each packed byte adds 64.
#[derive(Copy, Clone, Debug)]
pub struct Credit(u64);

impl Default for Credit {
    fn default() -> Self {
        Self(FREE_BYTES)
    }
}

impl Credit {
    /// Adds the credit for `packed` bytes of packed parts that were read.
    pub fn add(&mut self, packed: usize) {
        self.0 = self.0.saturating_add((packed as u64).saturating_mul(UNPACKED_TIMES));
    }

    /// Number of bytes that may be unpacked now.
    pub fn left(self) -> u64 {
        self.0
    }

    /// Takes credit for `unpacked` bytes. False if less is left: the rest of the credit is then lost.
    pub fn take(&mut self, unpacked: usize) -> bool {
        let left = self.0.checked_sub(unpacked as u64);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_small_parts_become_no_more_than_one_large() {
        let mut credit = Credit::default();
        let taken = (0..1_000_000).take_while(|_| {
            credit.add(100);
            credit.take(1 << 20)
        });
        // The free bytes, and 6.4 kB for each part.
        assert_eq!(taken.count(), 16);
        credit.add(1 << 20);
        assert_eq!(credit.left(), 64 << 20);
        assert!(credit.take(64 << 20) && !credit.take(1));
    }

    #[test]
    fn a_bound_grows_with_the_file_up_to_the_most() {
        let bound = Bound { free: 10, times: 3, most: 100 };
        assert_eq!([0, 20, 40, u64::MAX].map(|bytes| bound.of(bytes)), [10, 70, 100, 100]);
    }
}
