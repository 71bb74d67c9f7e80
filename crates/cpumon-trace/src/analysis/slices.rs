//! The last slices of each CPU: who had it while a thread waited for it.

use std::collections::VecDeque;

use cpumon_events::{CpuSpan, CpuState, ThreadSpan};
use cpumon_model::TraceTask;

use super::behind::Culprits;
use super::memory::Memory;

/// Slices of each CPU that are remembered. A wait with more slices in it has no culprit for its oldest part.
const REMEMBERED: usize = 512;
/// Slices that waits are compared with: so many in all, and so many more for each slice. A wait has fewer when they are used up: in a
/// queue of 500 threads each wait has 500, which takes 5 us.
const FREE_COMPARED: usize = 1 << 24;
const COMPARED_A_SLICE: usize = 32;
/// Slices of all CPUs together, 24 bytes each. With more than 4,096 CPUs, or what a damaged file takes for them, each has fewer.
const MAX_SLICES: usize = 4_096 * REMEMBERED;

/// A thread had a CPU.
#[derive(Copy, Clone, Debug)]
struct Slice {
    task: TraceTask,
    from_ns: u64,
    until_ns: u64,
}

#[derive(Debug)]
pub(super) struct Slices {
    cpus: Vec<VecDeque<Slice>>,
    count: usize,
    /// Comparisons that are left.
    left: usize,
}

impl Default for Slices {
    fn default() -> Self {
        Self { cpus: Vec::new(), count: 0, left: FREE_COMPARED }
    }
}

impl Slices {
    #[inline]
    pub(super) fn add(&mut self, span: &CpuSpan) {
        let CpuState::Run(task) = span.state else { return };
        let at = usize::from(span.cpu);
        if at >= self.cpus.len() {
            self.cpus.resize_with(at + 1, VecDeque::new);
        }
        self.left = self.left.saturating_add(COMPARED_A_SLICE);
        let slices = &mut self.cpus[at];
        if slices.len() == REMEMBERED || self.count >= MAX_SLICES {
            self.count -= usize::from(slices.pop_front().is_some());
        }
        self.count += 1;
        slices.push_back(Slice { task, from_ns: span.from_ns, until_ns: span.until_ns });
    }

    /// Adds whom a thread was behind while it was ready.
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
    fn waits_in_long_queues_are_compared_with_fewer_slices_in_the_end() {
        let (mut slices, mut memory) = (Slices::default(), Memory::default());
        let slice = |nth: u64| {
            let state = CpuState::Run(TraceTask(u32::try_from(nth % 512).unwrap() + 1));
            CpuSpan { cpu: 0, state, from_ns: nth, until_ns: nth + 1, is_over: true }
        };
        let behind = |slices: &mut Slices, memory: &mut Memory, until_ns| {
            let (state, from_ns) = (cpumon_events::ThreadState::ReadyWoken, 0);
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
