//! Which wakeups came from an interrupt: the trace has an interrupt when it ends, so a wakeup waits for the next switch of its CPU.

use std::collections::VecDeque;

use cpumon_events::InterruptSpan;
use cpumon_model::{Interrupt, TraceTask};

/// Wakeups of a CPU that wait. The oldest of more is taken as the thread's own.
const MAX_WAITING: usize = 1 << 12;
/// Of all CPUs, 24 bytes each.
const MAX_OF_ALL: usize = 1 << 20;

/// Who woke a thread.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Waker {
    /// Who was on the CPU of the wakeup; the idle task is there when an interrupt woke. Without recorded interrupts it may only have
    /// been interrupted by the waker.
    Task(TraceTask),
    /// A hard interrupt, by its line.
    Hard(u16),
    /// A soft interrupt, by its kind.
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

#[derive(Copy, Clone)]
struct Waiting {
    at_ns: u64,
    id: u64,
    interrupt: Option<Interrupt>,
}

/// A wakeup whose source is certain.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Settled {
    pub(super) id: u64,
    pub(super) interrupt: Option<Interrupt>,
}

#[derive(Default)]
pub(super) struct WakeSources {
    cpus: Vec<VecDeque<Waiting>>,
    count: usize,
}

impl WakeSources {
    /// Returns the oldest, if there are too many.
    pub(super) fn add(&mut self, cpu: u16, at_ns: u64, id: u64) -> Option<Settled> {
        let at = usize::from(cpu);
        if at >= self.cpus.len() {
            self.cpus.resize_with(at + 1, VecDeque::new);
        }
        let waiting = &mut self.cpus[at];
        waiting.push_back(Waiting { at_ns, id, interrupt: None });
        self.count += 1;
        if waiting.len() <= MAX_WAITING && self.count <= MAX_OF_ALL {
            return None;
        }
        self.count -= 1;
        waiting.pop_front().map(settled)
    }

    /// Memory, with space to grow.
    pub(super) fn bytes(&self) -> usize {
        self.count * 2 * size_of::<Waiting>()
    }

    pub(super) fn interrupt(&mut self, span: &InterruptSpan) {
        let Some(waiting) = self.cpus.get_mut(usize::from(span.cpu)) else { return };
        let end = waiting.partition_point(|wakeup| wakeup.at_ns <= span.until_ns);
        // Spans come in the order of their time: in front of one that has its interrupt, all in the span have theirs.
        for wakeup in waiting.range_mut(..end).rev() {
            if wakeup.at_ns < span.from_ns || wakeup.interrupt.is_some() {
                break;
            }
            wakeup.interrupt = Some(span.interrupt);
        }
    }

    /// All interrupts of the CPU before this time are known. The next of its wakeups, if that is earlier.
    pub(super) fn next_before(&mut self, cpu: u16, before_ns: u64) -> Option<Settled> {
        let waiting = self.cpus.get_mut(usize::from(cpu))?;
        let next = waiting.pop_front_if(|first| first.at_ns < before_ns)?;
        self.count -= 1;
        Some(settled(next))
    }

    /// Of any CPU, when the trace is over.
    pub(super) fn next(&mut self) -> Option<Settled> {
        while let Some(last) = self.cpus.last_mut() {
            if let Some(first) = last.pop_front() {
                return Some(settled(first));
            }
            self.cpus.pop();
        }
        None
    }
}

fn settled(waiting: Waiting) -> Settled {
    Settled { id: waiting.id, interrupt: waiting.interrupt }
}
