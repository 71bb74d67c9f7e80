//! Analyses of the spans of a trace, a file for each question.
//!
//! This file has what they share: one pass over the events of a trace through the tracker into an analysis ([`track`]), the memory that an
//! analysis may take beside a place for each thread ([`Memory`]), and the sums of threads and CPUs ([`ThreadTotals`], [`CpuAccount`]),
//! which a window of a timeline has too.

pub(crate) mod durations;
pub(crate) mod history;
#[cfg(test)]
mod memory_tests;
pub(crate) mod path;
pub(crate) mod ready;
pub(crate) mod report;
pub(crate) mod series;
pub(crate) mod snapshots;
pub(crate) mod wakers;

use std::collections::HashMap;

use cpumon_sched::{CpuState, Interrupt, SpanSink};

use crate::file::ReadError;
use crate::source::{Ending, TraceSource};

/// A part of a trace, ns since its start.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TraceRange {
    pub from_ns: u64,
    pub until_ns: u64,
}

impl Default for TraceRange {
    fn default() -> Self {
        Self { from_ns: 0, until_ns: u64::MAX }
    }
}

impl TraceRange {
    /// On the clock of a trace that began at this time.
    fn on_clock(self, began_ns: u64) -> Self {
        Self {
            from_ns: began_ns.saturating_add(self.from_ns),
            until_ns: began_ns.saturating_add(self.until_ns),
        }
    }

    /// The part of a time that is in it; without one it ends before it begins.
    fn cut(self, from_ns: u64, until_ns: u64) -> (u64, u64) {
        (from_ns.max(self.from_ns), until_ns.min(self.until_ns))
    }

    fn has(self, at_ns: u64) -> bool {
        (self.from_ns..=self.until_ns).contains(&at_ns)
    }
}

/// An analysis that has seen all of a trace.
struct Tracked<S> {
    sink: S,
    /// Whether the trace is whole.
    ending: Ending,
    events: u64,
}

/// `begin` makes the analysis of a range on the trace's clock.
fn track<S: SpanSink>(
    reader: &mut impl TraceSource,
    range: TraceRange,
    begin: impl FnOnce(TraceRange) -> S,
) -> Result<Tracked<S>, ReadError> {
    let mut tracker = reader.tracker(begin(range.on_clock(reader.header().began.mono_ns)));
    let mut events = 0;
    let mut ending = reader.read(&mut |event| {
        events += 1;
        tracker.event(&event);
    })?;
    ending.unfollowed = tracker.unfollowed();
    Ok(Tracked { sink: reader.finish(tracker, ending.known_until_ns), ending, events })
}

/// Limit on the memory of culprits, histograms and the like, bytes: half of the limit of a tracker with its sink.
const MAX_BYTES: usize = 512 << 20;

/// Memory of a table, without what its entries refer to.
fn table_bytes<K, V, S>(table: &HashMap<K, V, S>) -> usize {
    // An eighth of its places stays empty, and each has a byte beside it.
    table.capacity().div_ceil(7) * 8 * (size_of::<(K, V)>() + 1)
}

/// Counts memory, and items left out because none was left.
#[derive(Debug, Default)]
struct Memory {
    bytes: usize,
    /// Items left out because no memory was left.
    left_out: u64,
}

impl Memory {
    /// Takes `bytes` bytes. False if fewer are left: the item is left out, and counted.
    fn take(&mut self, bytes: usize) -> bool {
        let is_taken = self.bytes + bytes <= MAX_BYTES;
        if is_taken {
            self.bytes += bytes;
        } else {
            self.left_out += 1;
        }
        is_taken
    }

    fn give_back(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// A damaged trace may claim any times.
fn add_each<const N: usize>(sums: [(&mut u64, u64); N]) {
    for (sum, part) in sums {
        *sum = sum.saturating_add(part);
    }
}

/// Times and counts of a thread or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Serialize, utoipa::ToSchema), schema(as = TraceTotals))]
pub struct ThreadTotals {
    /// On a CPU, interrupts left out.
    pub run_ns: u64,
    /// In hard interrupts that came while it had a CPU.
    pub irq_ns: u64,
    /// In soft interrupts.
    pub softirq_ns: u64,
    /// Runnable since a wakeup.
    pub ready_woken_ns: u64,
    /// Runnable since it was pushed off.
    pub ready_preempted_ns: u64,
    /// Neither.
    pub blocked_ns: u64,
    /// No event says.
    pub unknown_ns: u64,
    /// Wakeups.
    pub wakeups: u64,
    /// Switches to wait.
    pub voluntary_switches: u64,
    /// Times it was pushed off.
    pub involuntary_switches: u64,
    pub migrations: u64,
    /// The longest wait for a CPU that the window has a part of, up to the window's end.
    pub longest_delay_ns: u64,
    /// When that began.
    pub longest_delay_at_ns: u64,
}

impl ThreadTotals {
    pub(crate) fn add_interrupt(&mut self, interrupt: Interrupt, ns: u64) {
        match interrupt {
            Interrupt::Hard(_) => self.irq_ns = self.irq_ns.saturating_add(ns),
            Interrupt::Soft(_) => self.softirq_ns = self.softirq_ns.saturating_add(ns),
        }
        self.run_ns = self.run_ns.saturating_sub(ns);
    }

    /// Adds the times and counts of another, and takes its longest delay if that is longer.
    pub fn merge(&mut self, other: &Self) {
        add_each([
            (&mut self.run_ns, other.run_ns),
            (&mut self.irq_ns, other.irq_ns),
            (&mut self.softirq_ns, other.softirq_ns),
            (&mut self.ready_woken_ns, other.ready_woken_ns),
            (&mut self.ready_preempted_ns, other.ready_preempted_ns),
            (&mut self.blocked_ns, other.blocked_ns),
            (&mut self.unknown_ns, other.unknown_ns),
            (&mut self.wakeups, other.wakeups),
            (&mut self.voluntary_switches, other.voluntary_switches),
            (&mut self.involuntary_switches, other.involuntary_switches),
            (&mut self.migrations, other.migrations),
        ]);
        if other.longest_delay_ns > self.longest_delay_ns {
            self.longest_delay_ns = other.longest_delay_ns;
            self.longest_delay_at_ns = other.longest_delay_at_ns;
        }
    }

    /// In interrupts of both kinds, ns.
    pub fn interrupts_ns(&self) -> u64 {
        self.irq_ns.saturating_add(self.softirq_ns)
    }

    /// Ready in any way, ns.
    pub fn ready_ns(&self) -> u64 {
        self.ready_woken_ns.saturating_add(self.ready_preempted_ns)
    }

    /// In any state, ns.
    pub fn all_ns(&self) -> u64 {
        let parts = [self.run_ns, self.interrupts_ns(), self.ready_ns(), self.blocked_ns, self.unknown_ns];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

/// The times of a CPU, which add up to the length of the range: idle + run + irq + softirq + unknown.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuAccount {
    pub cpu: u16,
    pub idle_ns: u64,
    /// Time with a thread, ns. Includes interrupts where they are not recorded.
    pub run_ns: u64,
    /// Time in hard interrupts, ns.
    pub irq_ns: u64,
    pub softirq_ns: u64,
    /// Time that no event accounts for, ns.
    pub unknown_ns: u64,
    /// Number of switches away from a thread or from idle.
    pub switches: u64,
    /// Switches from another task than was switched to: events are missing.
    pub holes: u64,
    pub lost: u64,
}

impl CpuAccount {
    /// Sum of all times, ns.
    pub fn capacity_ns(&self) -> u64 {
        let known_ns = self.idle_ns.saturating_add(self.run_ns).saturating_add(self.unknown_ns);
        known_ns.saturating_add(self.irq_ns).saturating_add(self.softirq_ns)
    }

    fn time_in(&mut self, state: CpuState) -> &mut u64 {
        state.pick(&mut self.unknown_ns, &mut self.idle_ns, &mut self.run_ns)
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

    pub fn sum(all: &[Self]) -> Self {
        all.iter().fold(Self::default(), |mut sum, cpu| {
            sum.merge(cpu);
            sum
        })
    }

    fn merge(&mut self, other: &Self) {
        add_each([
            (&mut self.idle_ns, other.idle_ns),
            (&mut self.run_ns, other.run_ns),
            (&mut self.irq_ns, other.irq_ns),
            (&mut self.softirq_ns, other.softirq_ns),
            (&mut self.unknown_ns, other.unknown_ns),
            (&mut self.switches, other.switches),
            (&mut self.holes, other.holes),
            (&mut self.lost, other.lost),
        ]);
    }
}
