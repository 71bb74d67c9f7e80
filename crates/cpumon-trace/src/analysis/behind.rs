//! Who ran while a thread was ready: what its CPU did in that time.

use std::collections::VecDeque;

use cpumon_model::TraceTask;

use super::slots::Slots;
use crate::state::{CpuSpan, CpuState, ThreadSpan};

/// Slices of each CPU that are remembered. A wait with more slices in it has no culprit for its oldest part.
const REMEMBERED: usize = 4096;
/// Culprits of a thread that are counted apart.
const CULPRITS: usize = 32;

/// Whom a thread waited behind, ns each.
#[derive(Clone, Debug, Default)]
pub(super) struct Culprits {
    pub(super) by: Vec<(TraceTask, u64)>,
}

impl Culprits {
    fn add(&mut self, task: TraceTask, ns: u64) {
        if let Some(known) = self.by.iter_mut().find(|known| known.0 == task) {
            known.1 = known.1.saturating_add(ns);
            return;
        }
        if self.by.len() < CULPRITS {
            self.by.push((task, ns));
            return;
        }
        // The smallest gives its place to a larger one; the time of the smaller is not in the list then.
        if let Some(smallest) = self.by.iter_mut().min_by_key(|known| known.1).filter(|known| known.1 < ns) {
            *smallest = (task, ns);
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Behind {
    cpus: Vec<VecDeque<CpuSpan>>,
    threads: Slots<Culprits>,
}

impl Behind {
    pub(super) fn cpu(&mut self, span: &CpuSpan) {
        let at = usize::from(span.cpu);
        if at >= self.cpus.len() {
            self.cpus.resize_with(at + 1, VecDeque::new);
        }
        let slices = &mut self.cpus[at];
        if slices.len() == REMEMBERED {
            slices.pop_front();
        }
        slices.push_back(*span);
    }

    /// A thread was ready.
    pub(super) fn ready(&mut self, span: &ThreadSpan) {
        let Some(slices) = self.cpus.get(usize::from(span.cpu)) else { return };
        for slice in slices.iter().rev() {
            if slice.until_ns <= span.from_ns {
                return;
            }
            let CpuState::Run(task) = slice.state else { continue };
            let ns = slice.until_ns.min(span.until_ns).saturating_sub(slice.from_ns.max(span.from_ns));
            // Its own slice, where it yielded, or was woken on its way to sleep.
            if ns > 0 && task != span.task {
                self.threads.at(span.slot).add(task, ns);
            }
        }
    }

    pub(super) fn get(&self, slot: usize) -> &[(TraceTask, u64)] {
        self.threads.get(slot).map_or(&[], |culprits| &culprits.by)
    }
}
