//! The last slices of each CPU: who had it while a thread waited for it.

use std::collections::VecDeque;

use cpumon_events::{CpuSpan, CpuState, ThreadSpan};
use cpumon_model::TraceTask;

use super::behind::Culprits;
use super::memory::Memory;

/// Slices of each CPU that are remembered. A wait with more slices in it has no culprit for its oldest part.
const REMEMBERED: usize = 512;
/// Slices of all CPUs together, 24 bytes each. With more than 4,096 CPUs, or what a damaged file takes for them, each has fewer.
const MAX_SLICES: usize = 4_096 * REMEMBERED;

/// A thread had a CPU.
#[derive(Copy, Clone, Debug)]
struct Slice {
    task: TraceTask,
    from_ns: u64,
    until_ns: u64,
}

#[derive(Debug, Default)]
pub(super) struct Slices {
    cpus: Vec<VecDeque<Slice>>,
    count: usize,
}

impl Slices {
    #[inline]
    pub(super) fn add(&mut self, span: &CpuSpan) {
        let CpuState::Run(task) = span.state else { return };
        let at = usize::from(span.cpu);
        if at >= self.cpus.len() {
            self.cpus.resize_with(at + 1, VecDeque::new);
        }
        let slices = &mut self.cpus[at];
        if slices.len() == REMEMBERED || self.count >= MAX_SLICES {
            self.count -= usize::from(slices.pop_front().is_some());
        }
        self.count += 1;
        slices.push_back(Slice { task, from_ns: span.from_ns, until_ns: span.until_ns });
    }

    /// Adds whom a thread was behind while it was ready.
    #[inline(never)]
    pub(super) fn behind(&self, span: &ThreadSpan, culprits: &mut Culprits, memory: &mut Memory) {
        let Some(slices) = self.cpus.get(usize::from(span.cpu)) else { return };
        let mut count = 0;
        let (older, newer) = slices.as_slices();
        for slice in newer.iter().rev().chain(older.iter().rev()) {
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
        culprits.wait_behind(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
