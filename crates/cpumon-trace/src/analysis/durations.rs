//! How long threads were in a state at a time: a histogram for each.

use std::collections::HashMap;

use cpumon_events::{CpuSpan, Slots, SpanSink, ThreadSpan, ThreadState};
use cpumon_model::{DELAY_BUCKET_BYTES, DelayHistogram, Leaves, TraceTask, delay_bucket};
use foldhash::fast::FixedState;

use super::group::{GroupKey, ReportBy, group_of};
use super::memory::Memory;
use super::pass::{TraceRange, Tracked, track};
use super::ready::LongestDelay;
use crate::file::ReadError;
use crate::file::reader::Ending;
use crate::source::TraceSource;
use crate::tasks::Tasks;

/// Whose lengths are counted.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum DurationOf {
    /// Waits for a CPU.
    Ready,
    /// Waits for anything else, up to the wakeup.
    Blocked,
    /// From leaving a CPU to coming back to one.
    OffCpu,
    /// From coming to a CPU to leaving it.
    Run,
}

/// Lengths by bucket.
#[derive(Clone, Debug, Default)]
pub struct Durations {
    /// By bucket.
    pub histogram: DelayHistogram,
    /// All together, ns.
    pub total_ns: u64,
    /// The longest.
    pub longest: LongestDelay,
}

impl Durations {
    fn add(&mut self, one: LongestDelay, memory: &mut Memory) {
        let bucket = delay_bucket(one.ns);
        // A list that is full gets twice the space.
        if self.histogram.count(bucket) == 0 && !memory.take(2 * DELAY_BUCKET_BYTES) {
            return;
        }
        self.histogram.add(bucket, 1);
        self.total_ns = self.total_ns.saturating_add(one.ns);
        if one.ns > self.longest.ns {
            self.longest = one;
        }
    }

    fn merge(&mut self, other: &Self) {
        self.histogram += &other.histogram;
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        if other.longest.ns > self.longest.ns {
            self.longest = other.longest;
        }
    }

    /// So many percent were no longer, ns.
    #[must_use]
    pub fn percentile_ns(&self, percent: u32) -> Option<u64> {
        self.histogram.percentile_ns(percent, Some(self.longest.ns))
    }
}

/// Of a thread, a process, a program or a container.
#[derive(Clone, Debug)]
pub struct DurationRow {
    /// Whose.
    pub key: GroupKey,
    /// Its name. Hostile.
    pub name: Box<str>,
    /// How long.
    pub durations: Durations,
}

#[derive(Default)]
struct Thread {
    task: TraceTask,
    durations: Durations,
    left_ns: Option<u64>,
}

pub(super) struct AllDurations {
    of: DurationOf,
    range: TraceRange,
    threads: Slots<Thread>,
    memory: Memory,
}

/// Reads a trace and counts the lengths of what ends in the range: rows by their sum, the most first.
pub fn durations<R: TraceSource>(
    reader: &mut R,
    range: TraceRange,
    of: DurationOf,
    by: ReportBy,
) -> Result<(Vec<DurationRow>, Ending), ReadError> {
    let range = range.on_clock(reader.header().began.mono_ns);
    let Tracked { sink, mut ending, .. } = track(reader, AllDurations::new(range, of))?;
    ending.unfollowed += sink.memory.left_out();
    Ok((sink.rows(by, reader.tasks()), ending))
}

impl AllDurations {
    pub(super) fn new(range: TraceRange, of: DurationOf) -> Self {
        Self { of, range, threads: Slots::default(), memory: Memory::default() }
    }

    fn rows(&self, by: ReportBy, tasks: &Tasks) -> Vec<DurationRow> {
        let mut places: HashMap<GroupKey, usize, FixedState> = HashMap::default();
        let mut rows: Vec<DurationRow> = Vec::new();
        let threads = (0..self.threads.len()).filter_map(|slot| self.threads.get(slot));
        for thread in threads.filter(|thread| !thread.durations.histogram.is_empty()) {
            let (key, name) = group_of(thread.task, by, tasks);
            let place = *places.entry(key.clone()).or_insert_with(|| {
                rows.push(DurationRow { key, name, durations: Durations::default() });
                rows.len() - 1
            });
            rows[place].durations.merge(&thread.durations);
        }
        rows.sort_by(|a, b| b.durations.total_ns.cmp(&a.durations.total_ns).then_with(|| a.key.cmp(&b.key)));
        rows
    }

    fn add(&mut self, span: &ThreadSpan, from_ns: u64) {
        if self.range.has(span.until_ns) {
            let one = LongestDelay { ns: span.until_ns - from_ns, from_ns, cpu: span.cpu };
            self.threads.at(span.slot).durations.add(one, &mut self.memory);
        }
    }
}

impl SpanSink for AllDurations {
    fn thread(&mut self, span: &ThreadSpan) {
        self.threads.at(span.slot).task = span.task;
        if !span.is_over {
            return;
        }
        match (self.of, span.state) {
            // The first slice of a CPU began when the recording did, or before.
            (DurationOf::Ready, ThreadState::ReadyWoken | ThreadState::ReadyPreempted)
            | (DurationOf::Blocked, ThreadState::Blocked(_))
            | (DurationOf::Run, ThreadState::Running) => self.add(span, span.since_ns),
            _ => {}
        }
    }

    fn left(&mut self, slot: usize, leaves: Leaves, at_ns: u64) {
        self.threads.at(slot).left_ns = (leaves != Leaves::Dead).then_some(at_ns);
    }

    fn entered(&mut self, slot: usize, state: ThreadState, cpu: u16, at_ns: u64) {
        match state {
            // What it did meanwhile is not known.
            ThreadState::Unknown => self.threads.at(slot).left_ns = None,
            ThreadState::Running if self.of == DurationOf::OffCpu => {
                let thread = self.threads.at(slot);
                if let Some(from_ns) = thread.left_ns.take().filter(|_| self.range.has(at_ns)) {
                    let one = LongestDelay { ns: at_ns - from_ns, from_ns, cpu };
                    thread.durations.add(one, &mut self.memory);
                }
            }
            _ => {}
        }
    }

    fn bytes(&self, threads: usize) -> usize {
        self.threads.bytes(threads) + self.memory.bytes()
    }

    fn cpu(&mut self, _span: &CpuSpan) {}
    fn moved(&mut self, _slot: usize, _at_ns: u64) {}
    fn hole(&mut self, _cpu: u16, _at_ns: u64) {}
    fn unknown_wakeup(&mut self, _slot: usize, _at_ns: u64) {}
    fn lost(&mut self, _cpu: u16, _count: u64, _at_ns: u64) {}
}
