//! Run delays: how long threads waited for a CPU, in total, by length, and the longest with its moment.

use cpumon_model::{DELAY_BUCKETS, DelayHistogram, delay_bucket};

use super::slots::Slots;
use crate::state::{ThreadSpan, ThreadState};

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

/// Of one thread or group.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadyTimes {
    pub(crate) woken_ns: u64,
    pub(crate) preempted_ns: u64,
    pub(crate) histogram: DelayHistogram,
    /// What is not in `histogram` yet, where that has many buckets: found without a search.
    many: Option<Box<[u32; DELAY_BUCKETS]>>,
    buckets: u8,
    pub(crate) longest: LongestDelay,
}

/// A histogram with more buckets is counted in a list.
const FEW_BUCKETS: u8 = 12;

impl ReadyTimes {
    #[inline]
    fn count(&mut self, bucket: u8) {
        if let Some(many) = &mut self.many {
            let count = &mut many[usize::from(bucket)];
            if *count == u32::MAX {
                self.histogram.add(bucket, u64::from(std::mem::take(count)));
            }
            *count += 1;
            return;
        }
        self.buckets += u8::from(self.histogram.count(bucket) == 0);
        self.histogram.add(bucket, 1);
        if self.buckets > FEW_BUCKETS {
            self.many = Some(Box::new([0; DELAY_BUCKETS]));
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.woken_ns = self.woken_ns.saturating_add(other.woken_ns);
        self.preempted_ns = self.preempted_ns.saturating_add(other.preempted_ns);
        for (bucket, count) in other.histogram.iter() {
            self.histogram.add(bucket, count);
        }
        for (bucket, count) in (0..=u8::MAX).zip(other.many.iter().flat_map(|many| many.iter())) {
            self.histogram.add(bucket, u64::from(*count));
        }
        if other.longest.ns > self.longest.ns {
            self.longest = other.longest;
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Delays(Slots<ReadyTimes>);

impl Delays {
    /// `span` is what of `whole` lies in the range of the report.
    pub(super) fn add(&mut self, span: &ThreadSpan, whole: &ThreadSpan) {
        let times = self.0.at(span.slot);
        let ns = span.until_ns - span.from_ns;
        match span.state {
            ThreadState::ReadyWoken => times.woken_ns += ns,
            ThreadState::ReadyPreempted => times.preempted_ns += ns,
            _ => return,
        }
        // What began before the range counts in its whole length: half a wait would be a wait that never was.
        let ns = span.until_ns - whole.since_ns;
        if whole.is_over && whole.until_ns == span.until_ns {
            times.count(delay_bucket(ns));
        }
        // One that goes on at the end is as long as it is by then.
        if ns > times.longest.ns {
            times.longest = LongestDelay { ns, from_ns: whole.since_ns, cpu: whole.cpu };
        }
    }

    pub(super) fn get(&self, slot: usize) -> Option<&ReadyTimes> {
        self.0.get(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_in_a_list_and_in_buckets_are_one_histogram() {
        let (mut times, mut expected) = (ReadyTimes::default(), DelayHistogram::default());
        for number in 0..2_000_u32 {
            let bucket = u8::try_from(number * number % 97 + number % 2 * 100).unwrap();
            times.count(bucket);
            expected.add(bucket, 1);
        }
        assert!(times.many.is_some());
        let mut sum = ReadyTimes::default();
        sum.merge(&times);
        assert_eq!(sum.histogram, expected);
        assert_eq!(sum.histogram.total(), 2_000);
    }
}
