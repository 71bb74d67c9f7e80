//! [`Credit`]: what the compressed parts of a file may become together.

/// Bytes that any file may unpack to.
const FREE_BYTES: u64 = 16 << 20;
/// And so many for each packed byte. Recorded events shrink far less; a file that was made for it could become thousands
/// of times its size, and take minutes.
const UNPACKED_TIMES: u64 = 256;

/// Bytes that are left.
#[derive(Copy, Clone, Debug)]
pub(super) struct Credit(u64);

impl Default for Credit {
    fn default() -> Self {
        Self(FREE_BYTES)
    }
}

impl Credit {
    /// So many packed bytes were read.
    pub(super) fn add(&mut self, packed: usize) {
        self.0 = self.0.saturating_add((packed as u64).saturating_mul(UNPACKED_TIMES));
    }

    /// What may still be unpacked.
    pub(super) fn left(self) -> u64 {
        self.0
    }

    /// So many bytes were unpacked. False: they are more than there may be.
    pub(super) fn take(&mut self, unpacked: usize) -> bool {
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
        // The free bytes, and 25.6 kB for each part.
        assert_eq!(taken.count(), 16);
        credit.add(1 << 20);
        assert_eq!(credit.left(), 256 << 20);
        assert!(credit.take(256 << 20) && !credit.take(1));
    }
}
