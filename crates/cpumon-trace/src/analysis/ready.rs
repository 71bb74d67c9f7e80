//! Run delays: how long threads waited for a CPU, in total, by length, and the longest with its moment.

use cpumon_model::{DelayHistogram, delay_bucket};

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
    pub(crate) longest: LongestDelay,
}

impl ReadyTimes {
    pub(super) fn merge(&mut self, other: &Self) {
        self.woken_ns = self.woken_ns.saturating_add(other.woken_ns);
        self.preempted_ns = self.preempted_ns.saturating_add(other.preempted_ns);
        for (bucket, count) in other.histogram.iter() {
            self.histogram.add(bucket, count);
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
            times.histogram.add(delay_bucket(ns), 1);
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
