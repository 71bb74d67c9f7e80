//! Wakers with the threads that they wake, and how long these wait for a CPU. A wakeup from an interrupt is known as such late: the trace
//! has an interrupt when it ends, so a wakeup waits for the next switch of its CPU.

use std::collections::{HashMap, VecDeque};

use cpumon_sched::{
    CpuSpan, Interrupt, InterruptSpan, Slots, SpanSink, ThreadSpan, ThreadState, TraceTask, Wakeup,
};
use foldhash::fast::RandomState;

use super::ready::LongestDelay;
use super::report::{GroupKey, ReportBy, group_of};
use super::{TraceRange, Tracked, table_bytes, track};
use crate::file::ReadError;
use crate::source::{Ending, TraceSource};
use crate::tasks::Tasks;

/// Pairs of a waker and a thread that are counted apart. Further ones are left out, and counted.
const MAX_PAIRS: usize = 1 << 18;

/// What wakeups of one by another add up to.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct WakeCounts {
    pub wakeups: u64,
    /// Those after which the thread came to a CPU, as far as the trace goes.
    pub runs: u64,
    /// Those after which it came to the CPU that it was woken from.
    pub runs_here: u64,
    /// Time from the wakeups until the threads got a CPU, ns.
    pub delay_ns: u64,
    pub longest: LongestDelay,
}

impl WakeCounts {
    fn merge(&mut self, other: &Self) {
        self.wakeups += other.wakeups;
        self.runs += other.runs;
        self.runs_here += other.runs_here;
        self.delay_ns = self.delay_ns.saturating_add(other.delay_ns);
        self.longest.raise(other.longest);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WakerKey {
    /// A thread, process or program.
    Group(GroupKey),
    /// What interrupted an idle CPU; the trace does not say more.
    Idle,
    /// A hard interrupt, by its line.
    Hard(u16),
    /// A soft interrupt, by its kind.
    Soft(u16),
}

/// Wakeups of one group by another group or by an interrupt.
#[derive(Clone, Debug)]
pub struct WakerRow {
    pub waker: WakerKey,
    /// Name of the waker; empty unless the waker is a group. Hostile.
    pub waker_name: Box<str>,
    pub woken: GroupKey,
    /// Name of the woken group. Hostile.
    pub woken_name: Box<str>,
    pub counts: WakeCounts,
}

/// A wakeup whose source or outcome is not known yet.
struct Open {
    woken: TraceTask,
    from_cpu: u16,
    run: Run,
    source: Option<Waker>,
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum Run {
    /// It waits for a CPU.
    Open,
    /// The thread got a CPU after this delay.
    After(LongestDelay),
    /// It came to none, or when it became ready is not known.
    Never,
}

#[derive(Default)]
pub struct Wakers {
    range: TraceRange,
    pairs: HashMap<(Waker, TraceTask), WakeCounts, RandomState>,
    sources: WakeSources,
    open: HashMap<u64, Open, RandomState>,
    last_id: u64,
    /// The wakeup of each thread that waits for a CPU; 0: none.
    waiting: Slots<u64>,
    /// Whether interrupts were recorded: if not, the interrupted task counts as waker.
    pub has_interrupts: bool,
    /// Wakeups that are in no row, because there are too many pairs.
    pub left_out: u64,
}

/// Reads a trace and counts the wakeups in the range.
pub fn wakers(reader: &mut impl TraceSource, range: TraceRange) -> Result<(Wakers, Ending), ReadError> {
    let Tracked { sink: mut wakers, ending, .. } = track(reader, range, Wakers::new)?;
    while let Some(settled) = wakers.sources.next() {
        wakers.settle(settled);
    }
    let mut open: Vec<u64> = wakers.open.keys().copied().collect();
    open.sort_unstable();
    for id in open {
        if let Some(open) = wakers.open.remove(&id) {
            wakers.count(&open);
        }
    }
    Ok((wakers, ending))
}

impl Wakers {
    pub(super) fn new(range: TraceRange) -> Self {
        Self { range, ..Self::default() }
    }

    /// Rows by number of wakeups, greatest first.
    pub fn rows(&self, by: ReportBy, tasks: &Tasks) -> Vec<WakerRow> {
        let mut places: HashMap<(WakerKey, GroupKey), usize, RandomState> = HashMap::default();
        let mut rows: Vec<WakerRow> = Vec::new();
        // Of equally long delays the first counts.
        let mut pairs: Vec<_> = self.pairs.iter().collect();
        pairs.sort_unstable_by_key(|(pair, _)| **pair);
        for (&(waker, woken), counts) in pairs {
            let (waker, waker_name) = waker_of(waker, by, tasks);
            let (woken, woken_name) = group_of(woken, by, tasks);
            let place = *places.entry((waker.clone(), woken.clone())).or_insert_with(|| {
                let counts = WakeCounts::default();
                rows.push(WakerRow { waker, waker_name, woken, woken_name, counts });
                rows.len() - 1
            });
            rows[place].counts.merge(counts);
        }
        rows.sort_by(|a, b| {
            let by_count = b.counts.wakeups.cmp(&a.counts.wakeups);
            by_count.then_with(|| (&a.waker, &a.woken).cmp(&(&b.waker, &b.woken)))
        });
        rows
    }

    fn settle(&mut self, settled: WakeSource) {
        let Some(open) = self.open.get_mut(&settled.id) else { return };
        open.source = Some(settled.waker);
        self.close(settled.id);
    }

    fn end(&mut self, slot: usize, run: Run) {
        let id = std::mem::take(self.waiting.at(slot));
        if let Some(open) = self.open.get_mut(&id) {
            open.run = run;
            self.close(id);
        }
    }

    fn close(&mut self, id: u64) {
        let is_known = |open: &Open| open.run != Run::Open && open.source.is_some();
        if self.open.get(&id).is_some_and(is_known)
            && let Some(open) = self.open.remove(&id)
        {
            self.count(&open);
        }
    }

    fn count(&mut self, open: &Open) {
        let Some(source) = open.source else { return };
        let key = (source, open.woken);
        if self.pairs.len() >= MAX_PAIRS && !self.pairs.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let mut counts = WakeCounts { wakeups: 1, ..WakeCounts::default() };
        if let Run::After(run) = open.run {
            counts.runs = 1;
            counts.runs_here = u64::from(run.cpu == open.from_cpu);
            (counts.delay_ns, counts.longest) = (run.ns, run);
        }
        self.pairs.entry(key).or_default().merge(&counts);
    }
}

fn waker_of(waker: Waker, by: ReportBy, tasks: &Tasks) -> (WakerKey, Box<str>) {
    match waker {
        Waker::Task(TraceTask::IDLE) => (WakerKey::Idle, Box::default()),
        Waker::Task(task) => {
            let (key, name) = group_of(task, by, tasks);
            (WakerKey::Group(key), name)
        }
        Waker::Hard(line) => (WakerKey::Hard(line), Box::default()),
        Waker::Soft(kind) => (WakerKey::Soft(kind), Box::default()),
    }
}

impl SpanSink for Wakers {
    fn woken(&mut self, wakeup: &Wakeup) {
        // One that came before it slept, and did not keep it awake.
        self.end(wakeup.slot, Run::Never);
        if !self.range.has(wakeup.at_ns) {
            return;
        }
        self.last_id += 1;
        let id = self.last_id;
        *self.waiting.at(wakeup.slot) = id;
        let Wakeup { task: woken, from_cpu, .. } = *wakeup;
        self.open.insert(id, Open { woken, from_cpu, run: Run::Open, source: None });
        if let Some(settled) = self.sources.add(wakeup, id) {
            self.settle(settled);
        }
    }

    fn thread(&mut self, span: &ThreadSpan) {
        if span.state == ThreadState::ReadyWoken && span.is_over {
            let ns = span.until_ns - span.since_ns;
            self.end(span.slot, Run::After(LongestDelay { ns, from_ns: span.since_ns, cpu: span.cpu }));
        }
    }

    fn entered(&mut self, slot: usize, state: ThreadState, _cpu: u16, _at_ns: u64) {
        // It came to a CPU, and when it became ready is not known.
        if state == ThreadState::Running && self.waiting.get(slot).is_some_and(|id| *id > 0) {
            self.end(slot, Run::Never);
        }
    }

    fn cpu(&mut self, span: &CpuSpan) {
        while let Some(settled) = self.sources.next_before(span.cpu, span.from_ns) {
            self.settle(settled);
        }
    }

    fn interrupt(&mut self, span: &InterruptSpan) {
        self.has_interrupts = true;
        self.sources.interrupt(span);
    }

    fn bytes(&self, threads: usize) -> usize {
        self.waiting.bytes(threads)
            + table_bytes(&self.open)
            + table_bytes(&self.pairs)
            + self.sources.bytes()
    }
}

/// Wakeups of a CPU that wait. The oldest of more is taken as the thread's own.
const MAX_WAITING: usize = 1 << 12;
/// Most waiting wakeups of all CPUs; each takes 24 bytes.
const MAX_OF_ALL: usize = 1 << 20;

#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Waker {
    /// Who was on the CPU of the wakeup; the idle task is there when an interrupt woke. Without recorded interrupts it may only have
    /// been interrupted by the waker.
    Task(TraceTask),
    /// Hard interrupt, by its line.
    Hard(u16),
    /// Soft interrupt, by its kind.
    Soft(u16),
}

impl From<Interrupt> for Waker {
    fn from(interrupt: Interrupt) -> Self {
        match interrupt {
            Interrupt::Hard(line) => Self::Hard(line),
            Interrupt::Soft(kind) => Self::Soft(kind),
        }
    }
}

/// A wakeup, and who was on its CPU, or the interrupt that it came from.
#[derive(Copy, Clone)]
pub(super) struct WakeSource {
    at_ns: u64,
    pub(super) id: u64,
    pub(super) waker: Waker,
}

#[derive(Default)]
pub(super) struct WakeSources {
    cpus: Vec<VecDeque<WakeSource>>,
    count: usize,
}

impl WakeSources {
    /// Returns the oldest as certain, if there are too many.
    pub(super) fn add(&mut self, wakeup: &Wakeup, id: u64) -> Option<WakeSource> {
        let at = usize::from(wakeup.from_cpu);
        if at >= self.cpus.len() {
            self.cpus.resize_with(at + 1, VecDeque::new);
        }
        let waiting = &mut self.cpus[at];
        waiting.push_back(WakeSource { at_ns: wakeup.at_ns, id, waker: Waker::Task(wakeup.waker) });
        self.count += 1;
        if waiting.len() <= MAX_WAITING && self.count <= MAX_OF_ALL {
            return None;
        }
        self.count -= 1;
        waiting.pop_front()
    }

    /// Memory in bytes, with space for the lists to grow.
    pub(super) fn bytes(&self) -> usize {
        self.count * 2 * size_of::<WakeSource>()
    }

    pub(super) fn interrupt(&mut self, span: &InterruptSpan) {
        let Some(waiting) = self.cpus.get_mut(usize::from(span.cpu)) else { return };
        let end = waiting.partition_point(|wakeup| wakeup.at_ns <= span.until_ns);
        // Spans come in the order of their time: in front of one that has its interrupt, all in the span have theirs.
        for wakeup in waiting.range_mut(..end).rev() {
            if wakeup.at_ns < span.from_ns || !matches!(wakeup.waker, Waker::Task(_)) {
                break;
            }
            wakeup.waker = span.interrupt.into();
        }
    }

    /// All interrupts of the CPU before this time are known. The next of its wakeups, if that is earlier.
    pub(super) fn next_before(&mut self, cpu: u16, before_ns: u64) -> Option<WakeSource> {
        let waiting = self.cpus.get_mut(usize::from(cpu))?;
        let next = waiting.pop_front_if(|first| first.at_ns < before_ns)?;
        self.count -= 1;
        Some(next)
    }

    /// Of any CPU, when the trace is over.
    pub(super) fn next(&mut self) -> Option<WakeSource> {
        while let Some(last) = self.cpus.last_mut() {
            if let Some(first) = last.pop_front() {
                return Some(first);
            }
            self.cpus.pop();
        }
        None
    }
}
