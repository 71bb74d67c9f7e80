//! Where the time went in each interval of a trace: of threads and their groups, and of CPUs with the length of their run queues.

use std::cmp::Reverse;
use std::collections::HashMap;

use cpumon_sched::{CpuSpan, CpuState, InterruptSpan, Slots, SpanSink, ThreadSpan, ThreadState, TraceTask};
use foldhash::fast::RandomState;

use super::report::{GroupKey, ReportBy, group_of};
use super::{TraceRange, Tracked, track};
use crate::file::ReadError;
use crate::source::{Ending, TraceSource};
use crate::tasks::Tasks;

/// Intervals with any time, of all threads and CPUs together: 16 to 48 bytes each.
const MAX_CELLS: usize = 1 << 22;

#[derive(Debug, thiserror::Error)]
pub enum SeriesError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("more than {MAX_CELLS} intervals of threads and CPUs; choose longer ones or a part of the trace")]
    TooMany,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SeriesCell {
    /// Which interval, from 0 at the begin of the range.
    pub interval: u32,
    /// On a CPU, ns; without interrupts where they are recorded.
    pub run_ns: u64,
    pub ready_ns: u64,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuCell {
    pub run_ns: u64,
    /// Time in interrupts, ns; 0 where they are not recorded.
    pub irq_ns: u64,
    pub idle_ns: u64,
    /// Time that no event accounts for, ns.
    pub unknown_ns: u64,
    /// Time that threads waited for it, ns: divided by the length, the mean length of its queue without who runs.
    pub queue_ns: u64,
    /// Most threads that waited for it at the same time.
    pub queue_max: u32,
}

impl CpuCell {
    fn time_in(&mut self, state: CpuState) -> &mut u64 {
        state.pick(&mut self.unknown_ns, &mut self.idle_ns, &mut self.run_ns)
    }
}

#[derive(Clone, Debug)]
pub struct SeriesRow {
    pub key: GroupKey,
    /// Name of the group. Hostile.
    pub name: Box<str>,
    /// Intervals with any time, ascending.
    pub cells: Vec<SeriesCell>,
}

#[derive(Default)]
pub struct Series {
    range: TraceRange,
    every_ns: u64,
    threads: Slots<ThreadSeries>,
    cpus: Slots<Option<CpuSeries>>,
    /// CPU in whose run queue each thread is.
    queued: Slots<Option<u16>>,
    cells: usize,
    /// Intervals, beyond the first of each, of waits that are known at their end only: each adds to all of its CPU's.
    late_steps: usize,
    /// Memory of all lists, spare capacity included.
    cell_bytes: usize,
    has_threads: bool,
}

#[derive(Clone, Debug, Default)]
struct ThreadSeries {
    task: TraceTask,
    cells: Vec<SeriesCell>,
    /// What interrupts took in each interval, ns. They come before the slice that they are in.
    taken: Vec<(u32, u64)>,
}

#[derive(Clone, Debug, Default)]
struct CpuSeries {
    cells: Vec<CpuCell>,
    queue: u32,
    queue_since_ns: u64,
}

/// Memory by which a list grew since it had this capacity, bytes.
fn grown<T>(list: &Vec<T>, capacity: usize) -> usize {
    list.capacity().saturating_sub(capacity) * size_of::<T>()
}

impl ThreadSeries {
    /// Adds the cells without the time of interrupts. Interrupts come before the slice that they are in, and again where the slice
    /// continues.
    fn add_to(&self, cells: &mut Vec<SeriesCell>) {
        let mut taken = self.taken.iter().peekable();
        if cells.is_empty() {
            cells.reserve_exact(self.cells.len());
        }
        cells.extend(self.cells.iter().map(|cell| {
            let mut cell = *cell;
            while let Some((interval, ns)) = taken.next_if(|(interval, _)| *interval <= cell.interval) {
                if *interval == cell.interval {
                    cell.run_ns = cell.run_ns.saturating_sub(*ns);
                }
            }
            cell
        }));
    }
}

/// Reads a trace and adds up each interval of the range. `has_threads`: not only the CPUs.
pub fn series(
    reader: &mut impl TraceSource,
    range: TraceRange,
    every_ns: u64,
    has_threads: bool,
) -> Result<(Series, Ending), SeriesError> {
    let begin = |range| Series::new(range, every_ns, has_threads);
    let Tracked { sink: mut series, ending, .. } = track(reader, range, begin)?;
    series.range.until_ns = series.range.until_ns.min(ending.known_until_ns).max(series.range.from_ns);
    for cpu in (0..=u16::MAX).take(series.cpus.count()) {
        series.close_queue(cpu, ending.known_until_ns);
    }
    if series.cells.max(series.late_steps) > MAX_CELLS {
        return Err(SeriesError::TooMany);
    }
    Ok((series, ending))
}

impl Series {
    pub(super) fn new(range: TraceRange, every_ns: u64, has_threads: bool) -> Self {
        Self { range, every_ns: every_ns.max(1), has_threads, ..Self::default() }
    }

    pub fn intervals(&self) -> u32 {
        let length_ns = self.range.until_ns - self.range.from_ns;
        u32::try_from(length_ns.div_ceil(self.every_ns)).unwrap_or(u32::MAX)
    }

    /// Begin of an interval on the trace's clock, and its length: the last may be shorter.
    pub fn interval(&self, number: u32) -> (u64, u64) {
        let from_ns = self.range.from_ns + u64::from(number) * self.every_ns;
        (from_ns, self.every_ns.min(self.range.until_ns.saturating_sub(from_ns)))
    }

    /// Each CPU with events, ascending, and its intervals from the first on.
    pub fn cpus(&self) -> impl Iterator<Item = (u16, &[CpuCell])> {
        (0..).zip(self.cpus.iter()).filter_map(|(cpu, its)| Some((cpu, its.as_ref()?.cells.as_slice())))
    }

    /// Rows by run time, longest first.
    pub fn rows(&self, by: ReportBy, tasks: &Tasks) -> Vec<SeriesRow> {
        let mut places: HashMap<GroupKey, usize, RandomState> = HashMap::default();
        let mut rows: Vec<SeriesRow> = Vec::new();
        for thread in self.threads.iter().filter(|thread| !thread.cells.is_empty()) {
            let (key, name) = group_of(thread.task, by, tasks);
            let place = *places.entry(key.clone()).or_insert_with(|| {
                rows.push(SeriesRow { key, name, cells: Vec::new() });
                rows.len() - 1
            });
            thread.add_to(&mut rows[place].cells);
        }
        drop(places);
        for row in &mut rows {
            row.cells.sort_unstable_by_key(|cell| cell.interval);
            row.cells.dedup_by(|next, sum| {
                let is_same = next.interval == sum.interval;
                if is_same {
                    sum.run_ns = sum.run_ns.saturating_add(next.run_ns);
                    sum.ready_ns = sum.ready_ns.saturating_add(next.ready_ns);
                }
                is_same
            });
        }
        let run_ns =
            |row: &SeriesRow| row.cells.iter().fold(0_u64, |sum, cell| sum.saturating_add(cell.run_ns));
        rows.sort_by_cached_key(|row| (Reverse(run_ns(row)), row.key.clone()));
        rows
    }

    /// The part of a time that is in the range, interval by interval.
    fn parts(&self, from_ns: u64, until_ns: u64) -> impl Iterator<Item = (u32, u64)> + use<> {
        let (begin_ns, every_ns) = (self.range.from_ns, self.every_ns);
        let (mut at_ns, until_ns) = self.range.cut(from_ns, until_ns);
        std::iter::from_fn(move || {
            if at_ns >= until_ns {
                return None;
            }
            let number = (at_ns - begin_ns) / every_ns;
            let end_ns = begin_ns.saturating_add((number + 1).saturating_mul(every_ns)).min(until_ns);
            let ns = end_ns - at_ns;
            at_ns = end_ns;
            Some((u32::try_from(number).unwrap_or(u32::MAX), ns))
        })
        // With more than that the answer is an error.
        .take(MAX_CELLS + 1)
    }

    fn add_thread(&mut self, span: &ThreadSpan) {
        if !self.has_threads {
            return;
        }
        let is_running = span.state == ThreadState::Running;
        for (interval, ns) in self.parts(span.from_ns, span.until_ns) {
            if self.cells > MAX_CELLS {
                return;
            }
            let ThreadSeries { task, cells, .. } = self.threads.at(span.slot);
            *task = span.task;
            if cells.last().is_none_or(|last| last.interval != interval) {
                let capacity = cells.capacity();
                if cells.is_empty() {
                    // Most of many threads live in one.
                    cells.reserve_exact(1);
                }
                cells.push(SeriesCell { interval, ..SeriesCell::default() });
                self.cells += 1;
                self.cell_bytes += grown(cells, capacity);
            }
            if let Some(cell) = cells.last_mut() {
                *(if is_running { &mut cell.run_ns } else { &mut cell.ready_ns }) += ns;
            }
        }
    }

    fn add_cpu(&mut self, cpu: u16, from_ns: u64, until_ns: u64, add: impl Fn(&mut CpuCell, u64)) {
        for (interval, ns) in self.parts(from_ns, until_ns) {
            let cells = &mut self.cpus.at(cpu.into()).get_or_insert_default().cells;
            let more = (interval as usize + 1).saturating_sub(cells.len());
            self.cells = self.cells.saturating_add(more);
            if self.cells > MAX_CELLS {
                return;
            }
            let capacity = cells.capacity();
            cells.resize(cells.len() + more, CpuCell::default());
            self.cell_bytes += grown(cells, capacity);
            add(&mut cells[interval as usize], ns);
        }
    }

    /// Counts the queue as long as it was up to now.
    fn close_queue(&mut self, cpu: u16, at_ns: u64) {
        let Some(series) = self.cpus.at(cpu.into()) else { return };
        let (queue, since_ns) = (series.queue, series.queue_since_ns);
        series.queue_since_ns = at_ns.max(since_ns);
        if queue > 0 {
            self.add_cpu(cpu, since_ns, at_ns, |cell, ns| {
                cell.queue_ns += u64::from(queue) * ns;
                cell.queue_max = cell.queue_max.max(queue);
            });
        }
    }

    fn change_queue(&mut self, cpu: u16, at_ns: u64, change: impl Fn(u32) -> u32) {
        self.cpus.at(cpu.into()).get_or_insert_default();
        self.close_queue(cpu, at_ns);
        if let Some(series) = self.cpus.at(cpu.into()) {
            series.queue = change(series.queue);
        }
    }
}

impl SpanSink for Series {
    fn thread(&mut self, span: &ThreadSpan) {
        if span.state == ThreadState::Running || span.state.is_ready() {
            self.add_thread(span);
        }
        // Woken on its way to sleep: only when it comes to a CPU is it known that it never slept.
        if span.state.is_ready() && self.queued.at(span.slot).is_none() && self.late_steps <= MAX_CELLS {
            let (from_ns, until_ns) = self.range.cut(span.from_ns, span.until_ns);
            let steps = until_ns.saturating_sub(from_ns) / self.every_ns;
            self.late_steps = self.late_steps.saturating_add(usize::try_from(steps).unwrap_or(usize::MAX));
            self.add_cpu(span.cpu, span.from_ns, span.until_ns, |cell, ns| cell.queue_ns += ns);
        }
    }

    fn entered(&mut self, slot: usize, state: ThreadState, cpu: u16, at_ns: u64) {
        let queue = state.is_ready().then_some(cpu);
        let before = std::mem::replace(self.queued.at(slot), queue);
        if before != queue {
            if let Some(before) = before {
                self.change_queue(before, at_ns, |length| length.saturating_sub(1));
            }
            if let Some(queue) = queue {
                self.change_queue(queue, at_ns, |length| length.saturating_add(1));
            }
        }
    }

    fn cpu(&mut self, span: &CpuSpan) {
        let state = span.state;
        self.add_cpu(span.cpu, span.from_ns, span.until_ns, |cell, ns| *cell.time_in(state) += ns);
    }

    fn interrupt(&mut self, span: &InterruptSpan) {
        let state = span.state;
        self.add_cpu(span.cpu, span.from_ns, span.until_ns, |cell, ns| {
            let from = cell.time_in(state);
            let ns = ns.min(*from);
            *from -= ns;
            cell.irq_ns += ns;
        });
        let Some(slot) = span.slot.filter(|_| self.has_threads) else { return };
        for (interval, ns) in self.parts(span.from_ns, span.until_ns) {
            if self.cells > MAX_CELLS {
                return;
            }
            let taken = &mut self.threads.at(slot).taken;
            if let Some(last) = taken.last_mut().filter(|last| last.0 == interval) {
                last.1 += ns;
            } else {
                let capacity = taken.capacity();
                taken.push((interval, ns));
                self.cells += 1;
                self.cell_bytes += grown(taken, capacity);
            }
        }
    }

    fn bytes(&self, threads: usize) -> usize {
        self.threads.bytes(threads) + self.queued.bytes(threads) + self.cell_bytes
    }
}
