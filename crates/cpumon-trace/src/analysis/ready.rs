//! Waits for a CPU: how long threads waited, in total, by length, and the longest with its moment; and the culprits, the threads that the
//! CPU ran in that time.

use std::cmp::Reverse;
use std::collections::VecDeque;

use cpumon_model::{DELAY_BUCKETS, DelayHistogram, delay_bucket};
use cpumon_sched::{CpuSpan, CpuState, Slots, ThreadSpan, ThreadState, TraceTask};

use super::Memory;

/// The longest single wait for a CPU.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct LongestDelay {
    pub ns: u64,
    pub from_ns: u64,
    /// The CPU in whose queue it ended.
    pub cpu: u16,
}

impl LongestDelay {
    /// Takes the values of `other` if that delay is longer.
    pub(super) fn raise(&mut self, other: Self) {
        if other.ns > self.ns {
            *self = other;
        }
    }
}

/// Number of lengths that are buffered before they are counted.
const RECENT: usize = 23;

/// Of one thread. What changes with every wait is on one cache line, and memory for counts is taken by few threads of those
/// that live for some ms.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadyTimes {
    pub(super) woken_ns: u64,
    pub(super) preempted_ns: u64,
    pub(super) longest: LongestDelay,
    /// Buckets of the last waits, which are not in `counts` yet.
    recent: [u8; RECENT],
    recents: u8,
    counts: Option<Box<DelayCounts>>,
}

#[derive(Clone, Debug)]
struct DelayCounts {
    /// Counts that are not yet added to `histogram`.
    small: [u8; DELAY_BUCKETS],
    histogram: DelayHistogram,
}

impl Default for DelayCounts {
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
        // A wait that is open at the end counts with its length so far.
        self.longest.raise(LongestDelay { ns, from_ns: whole.since_ns, cpu: whole.cpu });
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
        if self.counts.is_none() && !memory.take(size_of::<DelayCounts>()) {
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

    pub(super) fn add_counts_to(&self, histogram: &mut DelayHistogram) {
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

/// Culprits in one cache line.
const A_LINE: usize = 5;
/// Cache lines of culprits that a thread has.
const LINES: usize = 8;
/// Lines of a thread that mostly waits in long queues. With as many for every thread, no cache would hold them.
const MANY_LINES: usize = 32;
/// A wait with more slices was in a long queue.
const LONG_QUEUE: usize = 16;
/// Long waits in excess of short ones that give a thread [`MANY_LINES`].
const MOSTLY: u8 = 8;

/// A cache line of culprits. A place that is not taken has the task that no CPU runs.
#[derive(Copy, Clone, Debug)]
#[repr(align(64))]
struct CulpritLine {
    tasks: [TraceTask; A_LINE],
    ns: [u64; A_LINE],
}

impl CulpritLine {
    const EMPTY: Self = Self { tasks: [TraceTask::UNKNOWN; A_LINE], ns: [0; A_LINE] };

    /// Where the task is, if it is anywhere. Any place may be the right one, so a branch for each would be mispredicted.
    #[inline]
    fn place_of(&self, task: TraceTask) -> usize {
        (1..A_LINE).fold(0, |found, place| found | if self.tasks[place] == task { place } else { 0 })
    }
}

/// The threads that a thread waited behind, ns each. Each task belongs to one line: when a sixth task comes to a line, the task with the
/// least time is forgotten.
#[derive(Clone, Debug, Default)]
pub(super) struct Culprits {
    /// Number of lines: 0, or a power of two.
    lines: Box<[CulpritLine]>,
    /// Waits in long queues less those in short ones.
    long_waits: u8,
}

impl Culprits {
    #[inline]
    pub(super) fn add(&mut self, task: TraceTask, ns: u64, memory: &mut Memory) {
        let at = self.line_of(task);
        if let Some(line) = self.lines.get_mut(at) {
            let place = line.place_of(task);
            if line.tasks[place] == task {
                line.ns[place] = line.ns[place].saturating_add(ns);
                return;
            }
        }
        self.begin(task, ns, memory);
    }

    /// Counts a wait with `slices` slices as one in a long or in a short queue.
    #[inline]
    fn wait_behind(&mut self, slices: usize) {
        self.long_waits = if slices > LONG_QUEUE {
            self.long_waits.saturating_add(1)
        } else {
            self.long_waits.saturating_sub(1)
        };
    }

    /// Recorders number tasks from 1 up, so those that run beside each other are spread evenly.
    #[inline]
    fn line_of(&self, task: TraceTask) -> usize {
        task.0 as usize & self.lines.len().wrapping_sub(1)
    }

    #[inline(never)]
    fn begin(&mut self, task: TraceTask, ns: u64, memory: &mut Memory) {
        let most = if self.long_waits >= MOSTLY { MANY_LINES } else { LINES };
        while !self.has_place(task) && self.lines.len() < most {
            // Lines double, or the first one is added; only the added ones take memory. Without memory the task with the least time makes
            // way, as in a full list.
            if !memory.take(self.lines.len().max(1) * size_of::<CulpritLine>()) {
                break;
            }
            let wider = vec![CulpritLine::EMPTY; (2 * self.lines.len()).max(1)].into_boxed_slice();
            let before = Self { lines: std::mem::replace(&mut self.lines, wider), long_waits: 0 };
            before.iter().for_each(|(task, ns)| self.put(task, ns));
        }
        self.put(task, ns);
    }

    fn has_place(&self, task: TraceTask) -> bool {
        let line = self.lines.get(self.line_of(task));
        line.is_some_and(|line| line.tasks.contains(&TraceTask::UNKNOWN))
    }

    /// Adds a task that is not there yet.
    fn put(&mut self, task: TraceTask, ns: u64) {
        let at = self.line_of(task);
        let Some(line) = self.lines.get_mut(at) else { return };
        // A free one has no time.
        let least =
            (1..A_LINE).fold(0, |least, place| if line.ns[place] < line.ns[least] { place } else { least });
        if task != TraceTask::UNKNOWN {
            (line.tasks[least], line.ns[least]) = (task, ns);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// Culprits with their times, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (TraceTask, u64)> + '_ {
        let all = self.lines.iter().flat_map(|line| line.tasks.into_iter().zip(line.ns));
        all.filter(|(task, _)| *task != TraceTask::UNKNOWN)
    }

    /// Culprits with their times, longest first.
    pub(super) fn sorted(&self) -> Vec<(TraceTask, u64)> {
        let mut all: Vec<_> = self.iter().collect();
        all.sort_unstable_by_key(|(task, ns)| (Reverse(*ns), *task));
        all
    }
}

/// Slices of each CPU that are remembered. A wait with more slices in it has no culprit for its oldest part.
const REMEMBERED: usize = 512;
/// Slices that all waits together may be compared with: an initial number, and more for each slice of a CPU. A wait is compared with fewer
/// when they are used up: in a queue of 500 threads, each wait takes 500 comparisons and 5 us.
const FREE_COMPARED: usize = 1 << 24;
const COMPARED_A_SLICE: usize = 32;
/// Slices of all CPUs together, 24 bytes each. With more than 4,096 CPUs, or what a damaged file takes for them, each has fewer.
const MAX_SLICES: usize = 4_096 * REMEMBERED;

#[derive(Copy, Clone, Debug)]
struct Slice {
    task: TraceTask,
    from_ns: u64,
    until_ns: u64,
}

#[derive(Debug)]
pub(super) struct Slices {
    cpus: Slots<VecDeque<Slice>>,
    count: usize,
    /// Number of comparisons that are still allowed.
    left: usize,
}

impl Default for Slices {
    fn default() -> Self {
        Self { cpus: Slots::default(), count: 0, left: FREE_COMPARED }
    }
}

impl Slices {
    #[inline]
    pub(super) fn add(&mut self, span: &CpuSpan) {
        let CpuState::Run(task) = span.state else { return };
        self.left = self.left.saturating_add(COMPARED_A_SLICE);
        let slices = self.cpus.at(span.cpu.into());
        if slices.len() == REMEMBERED || self.count >= MAX_SLICES {
            self.count -= usize::from(slices.pop_front().is_some());
        }
        self.count += 1;
        slices.push_back(Slice { task, from_ns: span.from_ns, until_ns: span.until_ns });
    }

    /// Adds the other threads that ran on a thread's CPU while it was ready.
    #[inline(never)]
    pub(super) fn behind(&mut self, span: &ThreadSpan, culprits: &mut Culprits, memory: &mut Memory) {
        let Some(slices) = self.cpus.get(usize::from(span.cpu)) else { return };
        let mut count = 0;
        let (older, newer) = slices.as_slices();
        for slice in newer.iter().rev().chain(older.iter().rev()).take(self.left) {
            if slice.until_ns <= span.from_ns {
                break;
            }
            count += 1;
            let ns = slice.until_ns.min(span.until_ns).saturating_sub(slice.from_ns.max(span.from_ns));
            // Its own slice, where it yielded, or was woken on its way to sleep.
            if ns > 0 && slice.task != span.task {
                culprits.add(slice.task, ns, memory);
            }
        }
        self.left -= count;
        culprits.wait_behind(count);
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
                let mut histogram = DelayHistogram::default();
                times.add_counts_to(&mut histogram);
                assert_eq!(histogram, expected, "{number}");
            }
        }
        let mut histogram = DelayHistogram::default();
        times.add_counts_to(&mut histogram);
        assert_eq!(histogram, expected);
        assert_eq!(histogram.total(), 20_000);
    }

    #[test]
    fn the_largest_are_kept_and_found() {
        let (mut culprits, mut memory) = (Culprits::default(), Memory::default());
        for _ in 0..3 {
            for number in 1..=400 {
                culprits.add(TraceTask(number), u64::from(number % 10 * 1_000 + 1), &mut memory);
                // These two are in the same line.
                culprits.add(TraceTask(7), 50_000, &mut memory);
                culprits.add(TraceTask(391), 40_000, &mut memory);
            }
        }
        let all = culprits.sorted();
        assert_eq!(all.len(), LINES * A_LINE);
        assert_eq!(all[0], (TraceTask(7), 3 * (400 * 50_000 + 7_001)));
        assert_eq!(all[1], (TraceTask(391), 3 * (400 * 40_000 + 1_001)));
    }

    #[test]
    fn all_of_a_long_queue_are_counted() {
        let (mut culprits, mut memory) = (Culprits::default(), Memory::default());
        for round in 1..=3 {
            for _ in 0..MOSTLY {
                culprits.wait_behind(LONG_QUEUE + 1);
            }
            for number in 1..=150 {
                culprits.add(TraceTask(number), round * u64::from(number), &mut memory);
            }
        }
        let expected: Vec<_> =
            (1..=150).rev().map(|number| (TraceTask(number), 6 * u64::from(number))).collect();
        assert_eq!(culprits.sorted(), expected);
        assert_eq!(Culprits::default().sorted(), []);
    }

    #[test]
    fn waits_in_long_queues_are_compared_with_fewer_slices_in_the_end() {
        let (mut slices, mut memory) = (Slices::default(), Memory::default());
        let slice = |nth: u64| {
            let state = CpuState::Run(TraceTask(u32::try_from(nth % 512).unwrap() + 1));
            CpuSpan { cpu: 0, state, from_ns: nth, until_ns: nth + 1, is_over: true }
        };
        let behind = |slices: &mut Slices, memory: &mut Memory, until_ns| {
            let (state, from_ns) = (ThreadState::ReadyWoken, 0);
            let (task, is_over) = (TraceTask(999), true);
            let span = ThreadSpan { task, slot: 0, state, from_ns, until_ns, since_ns: 0, cpu: 0, is_over };
            let mut culprits = Culprits::default();
            slices.behind(&span, &mut culprits, memory);
            culprits.iter().map(|(_, ns)| ns).sum::<u64>()
        };
        (0..512).for_each(|nth| slices.add(&slice(nth)));
        slices.left = 1_000;
        let first = behind(&mut slices, &mut memory, 512);
        assert!(first > 30 && slices.left == 1_000 - 512, "{first}");
        behind(&mut slices, &mut memory, 512);
        assert_eq!(slices.left, 0);
        slices.add(&slice(512));
        assert_eq!(behind(&mut slices, &mut memory, 513), COMPARED_A_SLICE as u64);
    }

    #[test]
    fn more_cpus_than_any_machine_has_share_what_is_remembered() {
        let mut slices = Slices::default();
        for nth in 0..40 {
            for cpu in 0..u16::MAX {
                let state = CpuState::Run(TraceTask(1));
                slices.add(&CpuSpan { cpu, state, from_ns: nth, until_ns: nth + 1, is_over: true });
            }
        }
        let held: usize = slices.cpus.iter().map(VecDeque::len).sum();
        assert!(held == MAX_SLICES && slices.cpus.iter().all(|slices| slices.len() > 30), "{held}");
    }
}
