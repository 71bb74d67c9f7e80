//! Run delays: how long threads waited for a CPU, in total, by length, and the longest with its moment.

use cpumon_events::{ThreadSpan, ThreadState};
use cpumon_model::{DELAY_BUCKETS, DelayHistogram, delay_bucket};

use super::memory::Memory;

/// The longest single wait for a CPU.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct LongestDelay {
    /// Its length, ns.
    pub ns: u64,
    /// When it began, ns.
    pub from_ns: u64,
    /// The CPU in whose queue it ended.
    pub cpu: u16,
}

/// Lengths that are remembered before they are counted.
const RECENT: usize = 23;

/// Of one thread. What changes with every wait is on one cache line, and memory for counts is taken by few threads of those
/// that live for some ms.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadyTimes {
    pub(crate) woken_ns: u64,
    pub(crate) preempted_ns: u64,
    pub(crate) longest: LongestDelay,
    /// Buckets of the last waits, which are not in `counts` yet.
    recent: [u8; RECENT],
    recents: u8,
    counts: Option<Box<Counts>>,
}

/// Waits by bucket.
#[derive(Clone, Debug)]
struct Counts {
    /// What is not in `histogram` yet.
    small: [u8; DELAY_BUCKETS],
    histogram: DelayHistogram,
}

impl Default for Counts {
    fn default() -> Self {
        Self { small: [0; DELAY_BUCKETS], histogram: DelayHistogram::default() }
    }
}

impl ReadyTimes {
    /// `span` is what of `whole` lies in the range of the report.
    #[inline]
    pub(super) fn add(&mut self, span: &ThreadSpan, whole: &ThreadSpan, memory: &mut Memory) {
        let ns = span.until_ns - span.from_ns;
        match span.state {
            ThreadState::ReadyWoken => self.woken_ns += ns,
            ThreadState::ReadyPreempted => self.preempted_ns += ns,
            _ => return,
        }
        // What began before the range counts in its whole length: half a wait would be a wait that never was.
        let ns = span.until_ns - whole.since_ns;
        if whole.is_over && whole.until_ns == span.until_ns {
            self.count(delay_bucket(ns), memory);
        }
        // One that goes on at the end is as long as it is by then.
        if ns > self.longest.ns {
            self.longest = LongestDelay { ns, from_ns: whole.since_ns, cpu: whole.cpu };
        }
    }

    #[inline]
    fn count(&mut self, bucket: u8, memory: &mut Memory) {
        if usize::from(self.recents) == RECENT {
            self.count_recent(memory);
        }
        self.recent[usize::from(self.recents)] = bucket;
        self.recents += 1;
    }

    #[inline(never)]
    fn count_recent(&mut self, memory: &mut Memory) {
        self.recents = 0;
        if self.counts.is_none() && !memory.take(size_of::<Counts>()) {
            return;
        }
        let counts = self.counts.get_or_insert_default();
        for bucket in self.recent {
            let count = &mut counts.small[usize::from(bucket)];
            if *count == u8::MAX {
                counts.histogram.add(bucket, std::mem::take(count).into());
            }
            *count += 1;
        }
    }

    fn add_counts_to(&self, histogram: &mut DelayHistogram) {
        for bucket in &self.recent[..self.recents.into()] {
            histogram.add(*bucket, 1);
        }
        let Some(counts) = &self.counts else { return };
        for (bucket, count) in (0..=u8::MAX).zip(counts.small) {
            histogram.add(bucket, count.into());
        }
        *histogram += &counts.histogram;
    }
}

/// Of a row.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadySums {
    pub(super) woken_ns: u64,
    pub(super) preempted_ns: u64,
    pub(super) histogram: DelayHistogram,
    pub(super) longest: LongestDelay,
}

impl ReadySums {
    pub(super) fn add(&mut self, thread: &ReadyTimes) {
        self.woken_ns = self.woken_ns.saturating_add(thread.woken_ns);
        self.preempted_ns = self.preempted_ns.saturating_add(thread.preempted_ns);
        thread.add_counts_to(&mut self.histogram);
        if thread.longest.ns > self.longest.ns {
            self.longest = thread.longest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_and_counted_is_one_histogram() {
        let (mut times, mut expected) = (ReadyTimes::default(), DelayHistogram::default());
        let mut memory = Memory::default();
        for number in 0..20_000_u32 {
            // Some buckets have more than a small count holds.
            let bucket = u8::try_from(number % 3 * (number * number % 97)).unwrap();
            times.count(bucket, &mut memory);
            expected.add(bucket, 1);
            if [0, 22, 23, 24, 5_000].contains(&number) {
                let mut sums = ReadySums::default();
                sums.add(&times);
                assert_eq!(sums.histogram, expected, "{number}");
            }
        }
        let mut sums = ReadySums::default();
        sums.add(&times);
        assert_eq!(sums.histogram, expected);
        assert_eq!(sums.histogram.total(), 20_000);
    }
}
