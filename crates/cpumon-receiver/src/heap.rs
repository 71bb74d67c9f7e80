//! [`HeapWatch`]: gives memory back to the system after a crowd. The C library keeps what was freed between pieces that are in use.

use cpumon_agent::give_memory_back;

/// Less than this is not worth a walk over the heap, bytes.
const MUCH_BYTES: usize = 8 << 20;

/// Notes how much is in use, to see when that falls by much.
#[derive(Debug, Default)]
pub(crate) struct HeapWatch {
    peak: usize,
}

impl HeapWatch {
    /// So much is in use now, bytes. When that is half of what it was at most, or less, memory is given back.
    pub(crate) fn note(&mut self, bytes: usize) {
        if self.has_fallen(bytes) {
            give_memory_back();
        }
    }

    fn has_fallen(&mut self, bytes: usize) -> bool {
        self.peak = self.peak.max(bytes);
        let has_fallen = self.peak - bytes >= MUCH_BYTES.max(self.peak / 2);
        if has_fallen {
            self.peak = bytes;
        }
        has_fallen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_once_after_each_crowd() {
        let mut watch = HeapWatch::default();
        let mut fallen = |mib: usize| watch.has_fallen(mib << 20);
        assert!(![1, 40, 30, 40, 21].into_iter().any(&mut fallen), "steady hosts come and go");
        assert!(fallen(20) && !fallen(20) && !fallen(13), "less than 8 MiB");
        assert!(fallen(5) && !fallen(0));
        assert!(!fallen(100) && fallen(3));
    }
}
