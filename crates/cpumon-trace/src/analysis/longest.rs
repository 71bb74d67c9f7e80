//! The longest single waits for a CPU: when, of whom, and behind whom.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use cpumon_events::{CpuSpan, Slots, SpanSink, ThreadSpan, ThreadState, Wakeup};
use cpumon_model::{Leaves, TraceTask};

use super::behind::Culprits;
use super::memory::Memory;
use super::pass::{TraceRange, Tracked, track};
use super::slices::Slices;
use crate::file::ReadError;
use crate::file::reader::Ending;
use crate::source::TraceSource;

/// A wait for a CPU.
#[derive(Clone, Debug)]
pub struct LongWait {
    /// Who waited.
    pub task: TraceTask,
    /// Since when, ns.
    pub from_ns: u64,
    /// How long, ns.
    pub ns: u64,
    /// The CPU in whose queue it was last.
    pub cpu: u16,
    /// Who was on the CPU of the wakeup with which it began; `None`: the thread was preempted or yielded, or this is not known.
    pub waker: Option<TraceTask>,
    /// It was preempted, or yielded.
    pub is_preempted: bool,
    /// It got a CPU in the end.
    pub is_over: bool,
    /// Who ran meanwhile on the CPU in whose queue it was, ns each, the longest first.
    pub behind: Vec<(TraceTask, u64)>,
}

/// A wait that goes on in another queue, or behind the end.
#[derive(Debug)]
struct Part {
    span: ThreadSpan,
    culprits: Culprits,
}

/// The longest waits of a trace.
pub(super) struct LongestWaits {
    range: TraceRange,
    wanted: usize,
    slices: Slices,
    parts: Slots<Option<Box<Part>>>,
    memory: Memory,
    wakers: Slots<Option<TraceTask>>,
    /// By length, and the later before the earlier.
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
    let sink = LongestWaits::new(range.on_clock(reader.header().began.mono_ns), wanted);
    let Tracked { sink: mut waits, mut ending, .. } = track(reader, sink)?;
    ending.unfollowed += waits.memory.left_out();
    for slot in 0..waits.parts.len() {
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
        Self {
            range,
            wanted,
            slices: Slices::default(),
            parts: Slots::default(),
            memory: Memory::default(),
            wakers: Slots::default(),
            found: BTreeMap::new(),
            count: 0,
        }
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
        // In front of the range: only what it begins with may still be in it.
        if whole.is_over && whole.until_ns < self.range.from_ns {
            if let Some(part) = self.parts.at(whole.slot).take() {
                self.memory.give_back(size_of::<Part>() + part.culprits.bytes());
            }
            return;
        }
        let until_ns = whole.until_ns.min(self.range.until_ns);
        let span = ThreadSpan { until_ns, is_over: whole.is_over && until_ns == whole.until_ns, ..*whole };
        let ends = whole.is_over || until_ns < whole.until_ns;
        let before = self.parts.at(span.slot).take();
        if let Some(part) = &before {
            self.memory.give_back(size_of::<Part>() + part.culprits.bytes());
        }
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
        } else if self.memory.take(size_of::<Part>() + culprits.bytes()) {
            *self.parts.at(span.slot) = Some(Box::new(Part { span, culprits }));
        }
    }

    fn cpu(&mut self, span: &CpuSpan) {
        self.slices.add(span);
    }

    fn woken(&mut self, wakeup: &Wakeup) {
        *self.wakers.at(wakeup.slot) = Some(wakeup.waker);
    }

    fn bytes(&self, threads: usize) -> usize {
        self.parts.bytes(threads) + self.wakers.bytes(threads) + self.memory.bytes()
    }

    fn left(&mut self, _slot: usize, _leaves: Leaves, _at_ns: u64) {}
    fn moved(&mut self, _slot: usize, _at_ns: u64) {}
    fn hole(&mut self, _cpu: u16, _at_ns: u64) {}
    fn unknown_wakeup(&mut self, _slot: usize, _at_ns: u64) {}
    fn lost(&mut self, _cpu: u16, _count: u64, _at_ns: u64) {}
}
