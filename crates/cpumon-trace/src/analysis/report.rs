//! The report of a trace or of a range of it: the sums of all CPUs, which are the ledger of the trace, and of all threads, in one pass.

use cpumon_events::{CpuSpan, InterruptSpan, Slots, SpanSink, ThreadSpan, ThreadState};
use cpumon_model::{Interrupt, Leaves, TraceTask, Waits};

use super::ready::{Culprits, ReadyTimes, Slices};
use super::{Memory, TraceRange, Tracked, track};
use crate::file::ReadError;
use crate::source::{Ending, TraceSource};
use crate::sums::{CpuAccount, ThreadTotals};

/// What all CPUs together did in the range.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub length_ns: u64,
    /// Number of CPUs with events.
    pub cpus: u64,
    /// Events of the whole trace.
    pub events: u64,
    /// The ledger: capacity = idle + run + irq + softirq + unknown.
    pub ledger: CpuAccount,
}

/// The sums of a thread. They are in one place, because of thousands of threads no cache has more.
#[derive(Debug, Default)]
pub(super) struct ThreadSums {
    /// As long as no span of it was in the range, no thread.
    pub(super) task: TraceTask,
    /// Time on a CPU, ns, with interrupts.
    on_cpu_ns: u64,
    irq_ns: u64,
    softirq_ns: u64,
    /// In a state that no event says, ns.
    unknown_ns: u64,
    voluntary: u64,
    involuntary: u64,
    migrations: u64,
    /// Times it came to a CPU, and it is not known when it was woken.
    pub(super) unknown_wakeups: u64,
    pub(super) ready: ReadyTimes,
    pub(super) culprits: Culprits,
    /// What it waited for that was neither running nor runnable.
    pub(super) blocked: Waits,
}

impl ThreadSums {
    /// On a CPU, ns, without interrupts where they are recorded.
    pub(super) fn run_ns(&self) -> u64 {
        self.on_cpu_ns.saturating_sub(self.irq_ns.saturating_add(self.softirq_ns))
    }

    pub(super) fn totals(&self) -> ThreadTotals {
        ThreadTotals {
            run_ns: self.run_ns(),
            irq_ns: self.irq_ns,
            softirq_ns: self.softirq_ns,
            ready_woken_ns: self.ready.woken_ns,
            ready_preempted_ns: self.ready.preempted_ns,
            blocked_ns: self.blocked.total_ns(),
            unknown_ns: self.unknown_ns,
            voluntary_switches: self.voluntary,
            involuntary_switches: self.involuntary,
            migrations: self.migrations,
            longest_delay_ns: self.ready.longest.ns,
            longest_delay_at_ns: self.ready.longest.from_ns,
            ..ThreadTotals::default()
        }
    }
}

#[derive(Debug, Default)]
pub struct Report {
    /// Range on the trace's clock.
    range: TraceRange,
    events: u64,
    pub(super) threads: Slots<ThreadSums>,
    slices: Slices,
    /// Those with any event.
    cpus: Slots<Option<CpuAccount>>,
    /// Whether interrupts were recorded: any trace of some ms has some.
    pub has_interrupts: bool,
    memory: Memory,
}

/// Reads a trace and adds up what lies in the range. `ending` of the result says whether the trace is whole.
pub fn analyse(reader: &mut impl TraceSource, range: TraceRange) -> Result<(Report, Ending), ReadError> {
    let report = Report::new(reader.header().began.mono_ns, range);
    let Tracked { sink: mut report, mut ending, events } = track(reader, report)?;
    ending.unfollowed += report.memory.left_out;
    report.events = events;
    report.range.until_ns = report.range.until_ns.min(ending.known_until_ns).max(report.range.from_ns);
    Ok((report, ending))
}

impl Report {
    /// An empty report of a trace that began at this time on its clock.
    pub fn new(began_ns: u64, range: TraceRange) -> Self {
        Self { range: range.on_clock(began_ns), ..Self::default() }
    }

    /// Each CPU with events, ascending.
    pub fn cpus(&self) -> impl Iterator<Item = CpuAccount> {
        self.cpus.iter().flatten().copied()
    }

    fn account(&mut self, cpu: u16) -> &mut CpuAccount {
        self.cpus.at(cpu.into()).get_or_insert(CpuAccount { cpu, ..CpuAccount::default() })
    }

    pub fn totals(&self) -> Totals {
        let length_ns = self.range.until_ns.saturating_sub(self.range.from_ns);
        let all: Vec<_> = self.cpus().collect();
        Totals { length_ns, cpus: all.len() as u64, events: self.events, ledger: CpuAccount::sum(&all) }
    }
}

impl SpanSink for Report {
    fn thread(&mut self, whole: &ThreadSpan) {
        let (from_ns, until_ns) = self.range.cut(whole.from_ns, whole.until_ns);
        if from_ns > until_ns {
            return;
        }
        let span = ThreadSpan { from_ns, until_ns, ..*whole };
        let thread = self.threads.at(span.slot);
        thread.task = span.task;
        match span.state {
            ThreadState::Running => thread.on_cpu_ns += until_ns - from_ns,
            ThreadState::Unknown => thread.unknown_ns += until_ns - from_ns,
            ThreadState::ReadyWoken | ThreadState::ReadyPreempted => {
                thread.ready.add(&span, whole, &mut self.memory);
                self.slices.behind(&span, &mut thread.culprits, &mut self.memory);
            }
            ThreadState::Blocked(reason) => thread.blocked.add(reason, until_ns - from_ns),
            ThreadState::Dead => {}
        }
    }

    fn cpu(&mut self, whole: &CpuSpan) {
        let (from_ns, until_ns) = self.range.cut(whole.from_ns, whole.until_ns);
        if from_ns < until_ns {
            let span = CpuSpan { from_ns, until_ns, ..*whole };
            *self.account(span.cpu).time_in(span.state) += until_ns - from_ns;
            self.slices.add(&span);
        }
        if whole.is_over && self.range.has(whole.until_ns) {
            self.account(whole.cpu).switches += 1;
        }
    }

    fn left(&mut self, slot: usize, leaves: Leaves, at_ns: u64) {
        if self.range.has(at_ns) {
            let thread = self.threads.at(slot);
            let is_pushed_off = leaves == Leaves::Ready;
            *(if is_pushed_off { &mut thread.involuntary } else { &mut thread.voluntary }) += 1;
        }
    }

    fn moved(&mut self, slot: usize, at_ns: u64) {
        if self.range.has(at_ns) {
            self.threads.at(slot).migrations += 1;
        }
    }

    fn hole(&mut self, cpu: u16, at_ns: u64) {
        if self.range.has(at_ns) {
            self.account(cpu).holes += 1;
        }
    }

    fn unknown_wakeup(&mut self, slot: usize, at_ns: u64) {
        if self.range.has(at_ns) {
            self.threads.at(slot).unknown_wakeups += 1;
        }
    }

    fn interrupt(&mut self, span: &InterruptSpan) {
        self.has_interrupts = true;
        let (from_ns, until_ns) = self.range.cut(span.from_ns, span.until_ns);
        if from_ns > until_ns {
            return;
        }
        let ns = until_ns - from_ns;
        self.account(span.cpu).interrupt(span.state, span.interrupt, ns);
        if let Some(slot) = span.slot {
            let thread = self.threads.at(slot);
            match span.interrupt {
                Interrupt::Hard(_) => thread.irq_ns += ns,
                Interrupt::Soft(_) => thread.softirq_ns += ns,
            }
        }
    }

    fn lost(&mut self, cpu: u16, count: u64, at_ns: u64) {
        if self.range.has(at_ns) {
            let lost = &mut self.account(cpu).lost;
            *lost = lost.saturating_add(count);
        }
    }

    fn bytes(&self, threads: usize) -> usize {
        self.threads.bytes(threads) + self.memory.bytes
    }
}
