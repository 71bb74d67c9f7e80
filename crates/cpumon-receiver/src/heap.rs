//! [`HeapWatch`]: gives memory back to the system, after a crowd and once a minute. The C library keeps what was freed between pieces
//! that are in use.

use std::time::{Duration, Instant};

use cpumon_agent::give_memory_back;

/// Intervals end in another order than they begin, so the heap of a steady receiver has holes: with 20 hosts they were 66 of 172 MB.
const EVERY: Duration = Duration::from_mins(1);

/// Less than this is not worth a walk over the heap, bytes.
const MUCH_BYTES: usize = 8 << 20;

/// Notes how much is in use, to see when that falls by much.
#[derive(Debug)]
pub(crate) struct HeapWatch {
    peak: usize,
    /// When memory was last given back.
    last: Instant,
}

impl HeapWatch {
    /// Begins to watch.
    pub(crate) fn new(now: Instant) -> Self {
        Self { peak: 0, last: now }
    }

    /// So much is in use now, bytes. When that is half of what it was at most, or less, memory is given back, and else once a minute.
    pub(crate) fn note(&mut self, bytes: usize) {
        let is_due = self.is_due(Instant::now());
        if self.has_fallen(bytes) || is_due {
            give_memory_back();
        }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now.duration_since(self.last) >= EVERY;
        if is_due {
            self.last = now;
        }
        is_due
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
        let mut watch = HeapWatch::new(Instant::now());
        let mut fallen = |mib: usize| watch.has_fallen(mib << 20);
        assert!(![1, 40, 30, 40, 21].into_iter().any(&mut fallen), "steady hosts come and go");
        assert!(fallen(20) && !fallen(20) && !fallen(13), "less than 8 MiB");
        assert!(fallen(5) && !fallen(0));
        assert!(!fallen(100) && fallen(3));
    }
    #[test]
    fn memory_is_given_back_once_a_minute() {
        let begin = Instant::now();
        let mut watch = HeapWatch::new(begin);
        let due: Vec<u64> =
            (0..200).filter(|second| watch.is_due(begin + Duration::from_secs(*second))).collect();
        assert_eq!(due, [60, 120, 180]);
    }
}
