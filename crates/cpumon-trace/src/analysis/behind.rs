//! Who ran while a thread was ready: what its CPU did in that time.

use std::cmp::Reverse;

use cpumon_model::TraceTask;

use super::slices::Slices;
use super::slots::Slots;
use crate::state::{CpuSpan, ThreadSpan};

/// Culprits of a thread that are counted apart; when there are more, the smaller half is dropped.
const CULPRITS: usize = 32;
/// So many are found without an index.
const UNINDEXED: usize = 8;
const INDEX_BITS: u32 = 6;
const INDEX_PLACES: usize = 1 << INDEX_BITS;

/// Whom a thread waited behind, ns each.
#[derive(Clone, Debug, Default)]
pub(super) struct Culprits {
    pub(super) by: Vec<(TraceTask, u64)>,
    /// Where each is in `by`, counted from 1, by its hash and the places behind that.
    index: Option<Box<[u8; INDEX_PLACES]>>,
}

impl Culprits {
    #[inline]
    pub(super) fn add(&mut self, task: TraceTask, ns: u64) {
        if let Some(at) = self.find(task) {
            self.by[at].1 = self.by[at].1.saturating_add(ns);
        } else {
            self.push(task, ns);
        }
    }

    #[inline]
    fn find(&self, task: TraceTask) -> Option<usize> {
        let Some(index) = &self.index else {
            return self.by.iter().position(|known| known.0 == task);
        };
        let mut place = place_of(task);
        // It is never full.
        while let Some(at) = usize::from(index[place]).checked_sub(1) {
            if self.by[at].0 == task {
                return Some(at);
            }
            place = (place + 1) % INDEX_PLACES;
        }
        None
    }

    fn push(&mut self, task: TraceTask, ns: u64) {
        if self.by.len() == CULPRITS {
            self.by.select_nth_unstable_by_key(CULPRITS / 2, |known| Reverse(known.1));
            self.by.truncate(CULPRITS / 2);
            self.make_index();
        }
        self.by.push((task, ns));
        if self.by.len() == UNINDEXED + 1 {
            self.make_index();
        } else if let Some(index) = &mut self.index {
            put(index, task, self.by.len());
        }
    }

    fn make_index(&mut self) {
        let index = self.index.get_or_insert_with(|| Box::new([0; INDEX_PLACES]));
        index.fill(0);
        for (number, (task, _)) in (1..).zip(&self.by) {
            put(index, *task, number);
        }
    }
}

fn put(index: &mut [u8; INDEX_PLACES], task: TraceTask, number: usize) {
    let mut place = place_of(task);
    while index[place] != 0 {
        place = (place + 1) % INDEX_PLACES;
    }
    index[place] = u8::try_from(number).unwrap_or(0);
}

#[inline]
fn place_of(task: TraceTask) -> usize {
    (task.0.wrapping_mul(0x9e37_79b1) >> (u32::BITS - INDEX_BITS)) as usize
}

#[derive(Debug, Default)]
pub(super) struct Behind {
    slices: Slices,
    threads: Slots<Culprits>,
}

impl Behind {
    #[inline]
    pub(super) fn cpu(&mut self, span: &CpuSpan) {
        self.slices.add(span);
    }

    /// A thread was ready.
    #[inline]
    pub(super) fn ready(&mut self, span: &ThreadSpan) {
        let culprits = self.threads.at(span.slot);
        self.slices.behind(span, |task, ns| culprits.add(task, ns));
    }

    pub(super) fn get(&self, slot: usize) -> &[(TraceTask, u64)] {
        self.threads.get(slot).map_or(&[], |culprits| &culprits.by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_kept_and_found() {
        let mut culprits = Culprits::default();
        for _ in 0..3 {
            for number in 1..=200 {
                culprits.add(TraceTask(number), u64::from(number % 10 * 1_000 + 1));
                culprits.add(TraceTask(7), 50_000);
                culprits.add(TraceTask(199), 40_000);
            }
        }
        culprits.by.sort_by_key(|known| Reverse(known.1));
        assert!(culprits.by.len() <= CULPRITS && culprits.by.len() >= CULPRITS / 2);
        assert_eq!(culprits.by[0], (TraceTask(7), 3 * (200 * 50_000 + 7_001)));
        assert_eq!(culprits.by[1], (TraceTask(199), 3 * (200 * 40_000 + 9_001)));
    }
}
