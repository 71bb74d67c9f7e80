//! Who ran while a thread was ready: what its CPU did in that time.

use std::cmp::Reverse;

use cpumon_model::TraceTask;

use super::memory::Memory;

/// Culprits that share a cache line.
const A_LINE: usize = 5;
/// Lines of a thread.
const LINES: usize = 8;
/// Lines of a thread that mostly waits in long queues. If all threads had so many, no cache would hold them.
const MANY_LINES: usize = 32;
/// A wait with more slices was in a long queue.
const LONG_QUEUE: usize = 16;
/// So many more long waits than short ones.
const MOSTLY: u8 = 8;

/// A cache line of culprits. A place that is not taken has the task that no CPU runs.
#[derive(Copy, Clone, Debug)]
#[repr(align(64))]
struct Line {
    tasks: [TraceTask; A_LINE],
    ns: [u64; A_LINE],
}

impl Line {
    const EMPTY: Self = Self { tasks: [TraceTask::UNKNOWN; A_LINE], ns: [0; A_LINE] };

    /// Where the task is, if it is anywhere. Any place may be the right one, so a branch for each would be mispredicted.
    #[inline]
    fn place_of(&self, task: TraceTask) -> usize {
        (1..A_LINE).fold(0, |found, place| found | if self.tasks[place] == task { place } else { 0 })
    }
}

/// Whom a thread waited behind, ns each. Each task belongs to one line: of more than five in it, the one with the least time is forgotten
/// when another comes.
#[derive(Clone, Debug, Default)]
pub(super) struct Culprits {
    /// None, or a power of two.
    lines: Box<[Line]>,
    /// Waits in long queues less those in short ones.
    long_waits: u8,
}

impl Culprits {
    #[inline]
    pub(super) fn add(&mut self, task: TraceTask, ns: u64, memory: &mut Memory) {
        let at = self.line_of(task);
        if let Some(line) = self.lines.get_mut(at) {
            let place = line.place_of(task);
            if line.tasks[place] == task {
                line.ns[place] = line.ns[place].saturating_add(ns);
                return;
            }
        }
        self.begin(task, ns, memory);
    }

    /// A wait with so many slices is to be added.
    #[inline]
    pub(super) fn wait_behind(&mut self, slices: usize) {
        self.long_waits = if slices > LONG_QUEUE {
            self.long_waits.saturating_add(1)
        } else {
            self.long_waits.saturating_sub(1)
        };
    }

    /// Recorders number tasks from 1 up, so those that run beside each other are spread evenly.
    #[inline]
    fn line_of(&self, task: TraceTask) -> usize {
        task.0 as usize & self.lines.len().wrapping_sub(1)
    }

    #[inline(never)]
    fn begin(&mut self, task: TraceTask, ns: u64, memory: &mut Memory) {
        let most = if self.long_waits >= MOSTLY { MANY_LINES } else { LINES };
        while !self.has_place(task) && self.lines.len() < most {
            // Twice as many, or the first one: so many are added. Without memory the least of those that are there makes way, as in a full list.
            if !memory.take(self.lines.len().max(1) * size_of::<Line>()) {
                break;
            }
            let wider = vec![Line::EMPTY; (2 * self.lines.len()).max(1)].into_boxed_slice();
            let before = Self { lines: std::mem::replace(&mut self.lines, wider), long_waits: 0 };
            before.iter().for_each(|(task, ns)| self.put(task, ns));
        }
        self.put(task, ns);
    }

    fn has_place(&self, task: TraceTask) -> bool {
        let line = self.lines.get(self.line_of(task));
        line.is_some_and(|line| line.tasks.contains(&TraceTask::UNKNOWN))
    }

    /// It is not there.
    fn put(&mut self, task: TraceTask, ns: u64) {
        let at = self.line_of(task);
        let Some(line) = self.lines.get_mut(at) else { return };
        // A free one has no time.
        let least =
            (1..A_LINE).fold(0, |least, place| if line.ns[place] < line.ns[least] { place } else { least });
        if task != TraceTask::UNKNOWN {
            (line.tasks[least], line.ns[least]) = (task, ns);
        }
    }

    /// What was taken of the memory for it.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// In no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (TraceTask, u64)> + '_ {
        let all = self.lines.iter().flat_map(|line| line.tasks.into_iter().zip(line.ns));
        all.filter(|(task, _)| *task != TraceTask::UNKNOWN)
    }

    /// The longest first.
    pub(super) fn sorted(&self) -> Vec<(TraceTask, u64)> {
        let mut all: Vec<_> = self.iter().collect();
        all.sort_unstable_by_key(|(task, ns)| (Reverse(*ns), *task));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_kept_and_found() {
        let (mut culprits, mut memory) = (Culprits::default(), Memory::default());
        for _ in 0..3 {
            for number in 1..=400 {
                culprits.add(TraceTask(number), u64::from(number % 10 * 1_000 + 1), &mut memory);
                // These two are in the same line.
                culprits.add(TraceTask(7), 50_000, &mut memory);
                culprits.add(TraceTask(391), 40_000, &mut memory);
            }
        }
        let all = culprits.sorted();
        assert_eq!(all.len(), LINES * A_LINE);
        assert_eq!(all[0], (TraceTask(7), 3 * (400 * 50_000 + 7_001)));
        assert_eq!(all[1], (TraceTask(391), 3 * (400 * 40_000 + 1_001)));
    }

    #[test]
    fn all_of_a_long_queue_are_counted() {
        let (mut culprits, mut memory) = (Culprits::default(), Memory::default());
        for round in 1..=3 {
            for _ in 0..MOSTLY {
                culprits.wait_behind(LONG_QUEUE + 1);
            }
            for number in 1..=150 {
                culprits.add(TraceTask(number), round * u64::from(number), &mut memory);
            }
        }
        let expected: Vec<_> =
            (1..=150).rev().map(|number| (TraceTask(number), 6 * u64::from(number))).collect();
        assert_eq!(culprits.sorted(), expected);
        assert_eq!(Culprits::default().sorted(), []);
    }
}
