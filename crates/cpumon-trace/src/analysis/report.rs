//! The report of a trace or of a range of it: the sums of all CPUs, which are the ledger of the trace, and of all threads, in one pass.

use cpumon_events::{CpuSpan, CpuState, InterruptSpan, Slots, SpanSink, ThreadSpan, ThreadState};
use cpumon_model::{Interrupt, Leaves, TraceTask, Waits};

use super::ready::{Culprits, ReadyTimes, Slices};
use super::{Memory, TraceRange, Tracked, track};
use crate::file::ReadError;
use crate::file::ending::Ending;
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
    /// On a CPU, ns, interrupts among it.
    on_cpu_ns: u64,
    /// In a state that no event says, ns.
    pub(super) unknown_ns: u64,
    pub(super) counts: SwitchCounts,
    pub(super) ready: ReadyTimes,
    pub(super) culprits: Culprits,
    /// What it waited for that was neither running nor runnable.
    pub(super) blocked: Waits,
    /// Few recordings have any.
    pub(super) interrupts: Option<Box<InterruptTimes>>,
}

impl ThreadSums {
    /// On a CPU, ns, without interrupts where they are recorded.
    pub(super) fn run_ns(&self) -> u64 {
        self.on_cpu_ns.saturating_sub(self.interrupts.as_ref().map_or(0, |interrupts| interrupts.total_ns()))
    }
}

/// The sums of a trace.
#[derive(Debug, Default)]
pub struct Report {
    /// On the trace's clock.
    range: TraceRange,
    events: u64,
    pub(super) threads: Slots<ThreadSums>,
    slices: Slices,
    cpus: Cpus,
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
    #[must_use]
    pub fn new(began_ns: u64, range: TraceRange) -> Self {
        Self { range: range.on_clock(began_ns), ..Self::default() }
    }

    /// Each CPU with events, ascending.
    pub fn cpus(&self) -> impl Iterator<Item = CpuAccount> {
        self.cpus.iter()
    }

    /// All CPUs together.
    #[must_use]
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
            *self.cpus.of(span.cpu).time_in(span.state) += until_ns - from_ns;
            self.slices.add(&span);
        }
        if whole.is_over && self.range.has(whole.until_ns) {
            self.cpus.of(whole.cpu).switches += 1;
        }
    }

    fn left(&mut self, slot: usize, leaves: Leaves, at_ns: u64) {
        if self.range.has(at_ns) {
            self.threads.at(slot).counts.left(leaves);
        }
    }

    fn moved(&mut self, slot: usize, at_ns: u64) {
        if self.range.has(at_ns) {
            self.threads.at(slot).counts.migrations += 1;
        }
    }

    fn hole(&mut self, cpu: u16, at_ns: u64) {
        if self.range.has(at_ns) {
            self.cpus.of(cpu).holes += 1;
        }
    }

    fn unknown_wakeup(&mut self, slot: usize, at_ns: u64) {
        if self.range.has(at_ns) {
            self.threads.at(slot).counts.unknown_wakeups += 1;
        }
    }

    fn interrupt(&mut self, span: &InterruptSpan) {
        self.has_interrupts = true;
        let (from_ns, until_ns) = self.range.cut(span.from_ns, span.until_ns);
        if from_ns > until_ns {
            return;
        }
        let ns = until_ns - from_ns;
        self.cpus.of(span.cpu).interrupt(span.state, span.interrupt, ns);
        if let Some(slot) = span.slot {
            let counts = span.is_first && self.range.has(span.from_ns);
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
        if self.range.has(at_ns) {
            let lost = &mut self.cpus.of(cpu).lost;
            *lost = lost.saturating_add(count);
        }
    }

    fn bytes(&self, threads: usize) -> usize {
        self.threads.bytes(threads) + self.memory.bytes
    }
}

/// The times of a CPU, which add up to the length of the range: idle + run + irq + softirq + unknown.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuAccount {
    /// Which.
    pub cpu: u16,
    /// Without a thread, ns.
    pub idle_ns: u64,
    /// With a thread, ns. Interrupts are part of it where they are not recorded.
    pub run_ns: u64,
    /// In hard interrupts, ns.
    pub irq_ns: u64,
    /// In soft interrupts, ns.
    pub softirq_ns: u64,
    /// No event says what it did, ns.
    pub unknown_ns: u64,
    /// Switches from a thread or from idle.
    pub switches: u64,
    /// Switches from another task than was switched to: events are missing.
    pub holes: u64,
    /// Events that the recorder lost.
    pub lost: u64,
}

impl CpuAccount {
    /// All times, ns.
    #[must_use]
    pub fn capacity_ns(&self) -> u64 {
        let known_ns = self.idle_ns.saturating_add(self.run_ns).saturating_add(self.unknown_ns);
        known_ns.saturating_add(self.irq_ns).saturating_add(self.softirq_ns)
    }

    /// The time of a state.
    fn time_in(&mut self, state: CpuState) -> &mut u64 {
        match state {
            CpuState::Idle => &mut self.idle_ns,
            CpuState::Run(_) => &mut self.run_ns,
            CpuState::Unknown => &mut self.unknown_ns,
        }
    }

    /// Takes `ns` of what the CPU did, and gives it to the interrupt.
    pub(crate) fn interrupt(&mut self, state: CpuState, interrupt: Interrupt, ns: u64) {
        let from = self.time_in(state);
        let ns = ns.min(*from);
        *from -= ns;
        match interrupt {
            Interrupt::Hard(_) => self.irq_ns += ns,
            Interrupt::Soft(_) => self.softirq_ns += ns,
        }
    }

    /// Of several CPUs together.
    #[must_use]
    pub fn sum(all: &[Self]) -> Self {
        all.iter().fold(Self::default(), |mut sum, cpu| {
            sum.merge(cpu);
            sum
        })
    }

    fn merge(&mut self, other: &Self) {
        // A damaged trace may claim any times.
        for (sum, part) in [
            (&mut self.idle_ns, other.idle_ns),
            (&mut self.run_ns, other.run_ns),
            (&mut self.irq_ns, other.irq_ns),
            (&mut self.softirq_ns, other.softirq_ns),
            (&mut self.unknown_ns, other.unknown_ns),
            (&mut self.switches, other.switches),
            (&mut self.holes, other.holes),
            (&mut self.lost, other.lost),
        ] {
            *sum = sum.saturating_add(part);
        }
    }
}

/// Each CPU that has any event; one without has none of the times.
#[derive(Debug, Default)]
struct Cpus(Slots<Option<CpuAccount>>);

impl Cpus {
    fn of(&mut self, cpu: u16) -> &mut CpuAccount {
        self.0.at(cpu.into()).get_or_insert(CpuAccount { cpu, ..CpuAccount::default() })
    }

    fn iter(&self) -> impl Iterator<Item = CpuAccount> {
        self.0.iter().flatten().copied()
    }
}

/// Of a thread or group.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct InterruptTimes {
    /// In hard interrupts, ns.
    pub irq_ns: u64,
    /// In soft interrupts, ns: without the hard ones that interrupted these.
    pub softirq_ns: u64,
    /// Interrupts of both kinds.
    pub count: u64,
}

impl InterruptTimes {
    /// Both kinds, ns.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.irq_ns.saturating_add(self.softirq_ns)
    }

    fn add(&mut self, interrupt: Interrupt, ns: u64) {
        match interrupt {
            Interrupt::Hard(_) => self.irq_ns += ns,
            Interrupt::Soft(_) => self.softirq_ns += ns,
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.irq_ns = self.irq_ns.saturating_add(other.irq_ns);
        self.softirq_ns = self.softirq_ns.saturating_add(other.softirq_ns);
        self.count += other.count;
    }
}

/// How often threads left a CPU, and moved to another.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchCounts {
    /// To wait, or for good.
    pub voluntary: u64,
    /// Pushed off, or it yielded.
    pub involuntary: u64,
    /// Moves to another CPU.
    pub migrations: u64,
    /// Times it came to a CPU, and it is not known when it was woken.
    pub unknown_wakeups: u64,
}

impl SwitchCounts {
    fn left(&mut self, leaves: Leaves) {
        match leaves {
            Leaves::Ready => self.involuntary += 1,
            Leaves::Asleep(_) | Leaves::Dead => self.voluntary += 1,
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.voluntary += other.voluntary;
        self.involuntary += other.involuntary;
        self.migrations += other.migrations;
        self.unknown_wakeups += other.unknown_wakeups;
    }
}
