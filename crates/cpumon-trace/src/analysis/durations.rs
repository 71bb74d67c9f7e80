//! How long threads stay in a state: a histogram for each ([`Durations`]), and the longest single waits for a CPU ([`LongWait`]) with the
//! thread and those that it waited behind.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use cpumon_model::{DELAY_BUCKET_BYTES, DelayHistogram, delay_bucket};
use cpumon_sched::{CpuSpan, Leaves, Slots, SpanSink, ThreadSpan, ThreadState, TraceTask, Wakeup};
use foldhash::fast::RandomState;

use super::ready::{Culprits, LongestDelay, Slices};
use super::report::{GroupKey, ReportBy, group_of};
use super::{Memory, TraceRange, Tracked, track};
use crate::file::ReadError;
use crate::source::{Ending, TraceSource};
use crate::tasks::Tasks;

/// Which times of a thread are counted.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum DurationOf {
    /// Waits for a CPU.
    Ready,
    /// Waits for anything else, up to the wakeup.
    Blocked,
    /// From leaving a CPU to coming back to one.
    OffCpu,
    Run,
}

#[derive(Clone, Debug, Default)]
pub struct Durations {
    pub histogram: DelayHistogram,
    pub total_ns: u64,
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
        self.longest.raise(one);
    }

    fn merge(&mut self, other: &Self) {
        self.histogram += &other.histogram;
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.longest.raise(other.longest);
    }

    pub fn percentile_ns(&self, percent: u32) -> Option<u64> {
        self.histogram.percentile_ns(percent, Some(self.longest.ns))
    }
}

/// Of a thread, a process, a program or a container.
#[derive(Clone, Debug)]
pub struct DurationRow {
    pub key: GroupKey,
    /// Name of the group. Hostile.
    pub name: Box<str>,
    pub durations: Durations,
}

#[derive(Default)]
struct ThreadDurations {
    task: TraceTask,
    durations: Durations,
    left_ns: Option<u64>,
}

pub(super) struct AllDurations {
    of: DurationOf,
    range: TraceRange,
    threads: Slots<ThreadDurations>,
    memory: Memory,
}

/// Reads a trace and counts the lengths of what ends in the range: rows by their sum, the most first.
pub fn durations<R: TraceSource>(
    reader: &mut R,
    range: TraceRange,
    of: DurationOf,
    by: ReportBy,
) -> Result<(Vec<DurationRow>, Ending), ReadError> {
    let Tracked { sink, mut ending, .. } = track(reader, range, |range| AllDurations::new(range, of))?;
    ending.unfollowed += sink.memory.left_out;
    Ok((sink.rows(by, reader.tasks()), ending))
}

impl AllDurations {
    pub(super) fn new(range: TraceRange, of: DurationOf) -> Self {
        Self { of, range, threads: Slots::default(), memory: Memory::default() }
    }

    fn rows(&self, by: ReportBy, tasks: &Tasks) -> Vec<DurationRow> {
        let mut places: HashMap<GroupKey, usize, RandomState> = HashMap::default();
        let mut rows: Vec<DurationRow> = Vec::new();
        for thread in self.threads.iter().filter(|thread| !thread.durations.histogram.is_empty()) {
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
            // The thread may have come to a CPU unseen.
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
        self.threads.bytes(threads) + self.memory.bytes
    }
}

/// A wait for a CPU.
#[derive(Clone, Debug)]
pub struct LongWait {
    pub task: TraceTask,
    pub from_ns: u64,
    pub ns: u64,
    /// The CPU in whose queue the thread was last.
    pub cpu: u16,
    /// Who was on the CPU of the wakeup with which it began; `None`: the thread was preempted or yielded, or this is not known.
    pub waker: Option<TraceTask>,
    /// The thread was preempted or yielded; it was not woken.
    pub is_preempted: bool,
    /// The thread got a CPU in the end.
    pub is_over: bool,
    /// Who ran meanwhile on the CPU in whose queue it was, ns each, the longest first.
    pub behind: Vec<(TraceTask, u64)>,
}

/// A wait that continues in another queue, or is open at the end of the trace.
#[derive(Debug)]
struct UnfinishedWait {
    span: ThreadSpan,
    culprits: Culprits,
}

#[derive(Default)]
pub(super) struct LongestWaits {
    range: TraceRange,
    wanted: usize,
    slices: Slices,
    parts: Slots<Option<Box<UnfinishedWait>>>,
    memory: Memory,
    wakers: Slots<Option<TraceTask>>,
    /// Waits by length; of equally long ones the later comes first.
    found: BTreeMap<(u64, Reverse<u64>), LongWait>,
    count: u64,
}

/// Reads a trace and finds the longest waits that are in the range with their end, or with all from their begin to its end: the
/// longest first.
pub fn longest_waits(
    reader: &mut impl TraceSource,
    range: TraceRange,
    wanted: usize,
) -> Result<(Vec<LongWait>, Ending), ReadError> {
    let begin = |range| LongestWaits::new(range, wanted);
    let Tracked { sink: mut waits, mut ending, .. } = track(reader, range, begin)?;
    ending.unfollowed += waits.memory.left_out;
    for slot in 0..waits.parts.count() {
        // The end of the trace may be in front of the range.
        let part = waits.parts.at(slot).take().filter(|part| part.span.until_ns >= waits.range.from_ns);
        if let Some(part) = part {
            waits.note(&part.span, &part.culprits);
        }
    }
    Ok((waits.found.into_values().rev().collect(), ending))
}

impl LongestWaits {
    pub(super) fn new(range: TraceRange, wanted: usize) -> Self {
        Self { range, wanted, ..Self::default() }
    }

    fn is_wanted(&self, ns: u64) -> bool {
        self.found.len() < self.wanted || self.found.first_key_value().is_some_and(|(least, _)| ns > least.0)
    }

    fn note(&mut self, span: &ThreadSpan, culprits: &Culprits) {
        let ns = span.until_ns - span.since_ns;
        if ns == 0 || !self.is_wanted(ns) {
            return;
        }
        let is_preempted = span.state == ThreadState::ReadyPreempted;
        let waker = self.wakers.get(span.slot).copied().flatten().filter(|_| !is_preempted);
        let wait = LongWait {
            task: span.task,
            from_ns: span.since_ns,
            ns,
            cpu: span.cpu,
            waker,
            is_preempted,
            is_over: span.is_over,
            behind: culprits.sorted(),
        };
        self.count += 1;
        self.found.insert((ns, Reverse(self.count)), wait);
        if self.found.len() > self.wanted {
            self.found.pop_first();
        }
    }
}

impl SpanSink for LongestWaits {
    fn thread(&mut self, whole: &ThreadSpan) {
        if !whole.state.is_ready() || whole.from_ns > self.range.until_ns {
            return;
        }
        let before = self.parts.at(whole.slot).take();
        if let Some(part) = &before {
            self.memory.give_back(size_of::<UnfinishedWait>() + part.culprits.bytes());
        }
        // Before the range: only an unfinished part can belong to a wait that reaches into the range.
        if whole.is_over && whole.until_ns < self.range.from_ns {
            return;
        }
        let until_ns = whole.until_ns.min(self.range.until_ns);
        let span = ThreadSpan { until_ns, is_over: whole.is_over && until_ns == whole.until_ns, ..*whole };
        let ends = whole.is_over || until_ns < whole.until_ns;
        let before = before.filter(|part| part.span.since_ns == span.since_ns);
        if ends && !self.is_wanted(span.until_ns - span.since_ns) {
            return;
        }
        let mut culprits = before.map_or_else(Culprits::default, |part| part.culprits);
        // It may have become longer, which is counted once.
        let known = culprits.bytes();
        self.slices.behind(&span, &mut culprits, &mut self.memory);
        self.memory.give_back(culprits.bytes() - known);
        if ends {
            self.note(&span, &culprits);
        } else if self.memory.take(size_of::<UnfinishedWait>() + culprits.bytes()) {
            *self.parts.at(span.slot) = Some(Box::new(UnfinishedWait { span, culprits }));
        }
    }

    fn cpu(&mut self, span: &CpuSpan) {
        self.slices.add(span);
    }

    fn woken(&mut self, wakeup: &Wakeup) {
        *self.wakers.at(wakeup.slot) = Some(wakeup.waker);
    }

    fn bytes(&self, threads: usize) -> usize {
        self.parts.bytes(threads) + self.wakers.bytes(threads) + self.memory.bytes
    }
}
