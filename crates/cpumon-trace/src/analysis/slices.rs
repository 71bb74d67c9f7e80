//! The last slices of each CPU: who had it while a thread waited for it.

use std::collections::VecDeque;

use cpumon_events::{CpuSpan, CpuState, ThreadSpan};
use cpumon_model::TraceTask;

use super::behind::Culprits;

/// Slices of each CPU that are remembered. A wait with more slices in it has no culprit for its oldest part.
const REMEMBERED: usize = 512;

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
        if slices.len() == REMEMBERED {
            slices.pop_front();
        }
        slices.push_back(Slice { task, from_ns: span.from_ns, until_ns: span.until_ns });
    }

    /// Adds whom a thread was behind while it was ready.
    #[inline(never)]
    pub(super) fn behind(&self, span: &ThreadSpan, culprits: &mut Culprits) {
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
                culprits.add(slice.task, ns);
            }
        }
        culprits.wait_behind(count);
    }
}
