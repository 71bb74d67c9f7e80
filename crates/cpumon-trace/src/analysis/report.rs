//! The report of a trace or of a range of it: all analyses in one pass.

use cpumon_events::{CpuSpan, InterruptSpan, Slots, SpanSink, ThreadSpan, ThreadState};
use cpumon_model::{Leaves, TraceTask, Waits};

use super::behind::Culprits;
use super::cpu::{CpuAccount, Cpus};
use super::interrupts::InterruptTimes;
use super::memory::Memory;
use super::pass::{TraceRange, Tracked, track};
use super::ready::ReadyTimes;
use super::run::RunTimes;
use super::slices::Slices;
use super::switches::SwitchCounts;
use crate::file::ReadError;
use crate::file::reader::Ending;
use crate::source::TraceSource;

/// What all CPUs together did in the range.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Length of the range, ns.
    pub length_ns: u64,
    /// CPUs with events.
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
    pub(super) run: RunTimes,
    pub(super) counts: SwitchCounts,
    pub(super) ready: ReadyTimes,
    /// Whom it waited behind.
    pub(super) culprits: Culprits,
    /// What it waited for that was neither running nor runnable.
    pub(super) blocked: Waits,
    /// Few recordings have any.
    pub(super) interrupts: Option<Box<InterruptTimes>>,
}

impl ThreadSums {
    /// On a CPU, ns, without interrupts where they are recorded.
    pub(super) fn run_ns(&self) -> u64 {
        self.run.run_ns.saturating_sub(self.interrupts.as_ref().map_or(0, |interrupts| interrupts.total_ns()))
    }
}

/// The sums of a trace.
#[derive(Debug)]
pub struct Report {
    /// Start and end of the range on the trace's clock.
    from_ns: u64,
    until_ns: u64,
    events: u64,
    pub(super) threads: Slots<ThreadSums>,
    slices: Slices,
    cpus: Cpus,
    has_interrupts: bool,
    memory: Memory,
}

/// Reads a trace and adds up what lies in the range. `ending` of the result says whether the trace is whole.
pub fn analyse(reader: &mut impl TraceSource, range: TraceRange) -> Result<(Report, Ending), ReadError> {
    let began_ns = reader.header().began.mono_ns;
    let tracked = track(reader, Report::new(began_ns, range))?;
    let Tracked { sink: mut report, mut ending, events } = tracked;
    ending.unfollowed += report.memory.left_out();
    report.events = events;
    report.until_ns = report.until_ns.min(ending.known_until_ns).max(report.from_ns);
    Ok((report, ending))
}

impl Report {
    /// An empty report of a trace that began at this time on its clock.
    #[must_use]
    pub fn new(began_ns: u64, range: TraceRange) -> Self {
        Self {
            from_ns: began_ns.saturating_add(range.from_ns),
            until_ns: began_ns.saturating_add(range.until_ns),
            events: 0,
            threads: Slots::default(),
            slices: Slices::default(),
            cpus: Cpus::default(),
            has_interrupts: false,
            memory: Memory::default(),
        }
    }

    /// Each CPU with events, ascending.
    pub fn cpus(&self) -> impl Iterator<Item = CpuAccount> {
        self.cpus.iter()
    }

    /// All CPUs together.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let length_ns = self.until_ns.saturating_sub(self.from_ns);
        let mut totals = Totals { length_ns, events: self.events, ..Totals::default() };
        for cpu in self.cpus.iter() {
            totals.cpus += 1;
            totals.ledger.merge(&cpu);
        }
        totals
    }

    /// Whether interrupts were recorded: any trace of some ms has some.
    #[must_use]
    pub fn has_interrupts(&self) -> bool {
        self.has_interrupts
    }

    fn has(&self, at_ns: u64) -> bool {
        (self.from_ns..=self.until_ns).contains(&at_ns)
    }
}

impl SpanSink for Report {
    fn thread(&mut self, whole: &ThreadSpan) {
        let (from_ns, until_ns) = (whole.from_ns.max(self.from_ns), whole.until_ns.min(self.until_ns));
        if from_ns > until_ns {
            return;
        }
        let span = ThreadSpan { from_ns, until_ns, ..*whole };
        let thread = self.threads.at(span.slot);
        thread.task = span.task;
        match span.state {
            ThreadState::Running | ThreadState::Unknown => thread.run.add(&span),
            ThreadState::ReadyWoken | ThreadState::ReadyPreempted => {
                thread.ready.add(&span, whole, &mut self.memory);
                self.slices.behind(&span, &mut thread.culprits, &mut self.memory);
            }
            ThreadState::Blocked(reason) => thread.blocked.add(reason, until_ns - from_ns),
            ThreadState::Dead => {}
        }
    }

    fn cpu(&mut self, whole: &CpuSpan) {
        let (from_ns, until_ns) = (whole.from_ns.max(self.from_ns), whole.until_ns.min(self.until_ns));
        if from_ns < until_ns {
            let span = CpuSpan { from_ns, until_ns, ..*whole };
            self.cpus.add(&span);
            self.slices.add(&span);
        }
        if whole.is_over && self.has(whole.until_ns) {
            self.cpus.of(whole.cpu).switches += 1;
        }
    }

    fn left(&mut self, slot: usize, leaves: Leaves, at_ns: u64) {
        if self.has(at_ns) {
            self.threads.at(slot).counts.left(leaves);
        }
    }

    fn moved(&mut self, slot: usize, at_ns: u64) {
        if self.has(at_ns) {
            self.threads.at(slot).counts.migrations += 1;
        }
    }

    fn hole(&mut self, cpu: u16, at_ns: u64) {
        if self.has(at_ns) {
            self.cpus.of(cpu).holes += 1;
        }
    }

    fn unknown_wakeup(&mut self, slot: usize, at_ns: u64) {
        if self.has(at_ns) {
            self.threads.at(slot).counts.unknown_wakeups += 1;
        }
    }

    fn interrupt(&mut self, span: &InterruptSpan) {
        self.has_interrupts = true;
        let (from_ns, until_ns) = (span.from_ns.max(self.from_ns), span.until_ns.min(self.until_ns));
        if from_ns > until_ns {
            return;
        }
        let ns = until_ns - from_ns;
        self.cpus.interrupt(span, ns);
        if let Some(slot) = span.slot {
            let counts = span.is_first && self.has(span.from_ns);
            let interrupts = &mut self.threads.at(slot).interrupts;
            if interrupts.is_none() && !self.memory.take(size_of::<InterruptTimes>()) {
                return;
            }
            let interrupts = interrupts.get_or_insert_default();
            interrupts.add(span.interrupt, ns);
            interrupts.count += u64::from(counts);
        }
    }

    fn lost(&mut self, cpu: u16, count: u64, at_ns: u64) {
        if self.has(at_ns) {
            let lost = &mut self.cpus.of(cpu).lost;
            *lost = lost.saturating_add(count);
        }
    }

    fn bytes(&self, threads: usize) -> usize {
        self.threads.bytes(threads) + self.memory.bytes()
    }
}
