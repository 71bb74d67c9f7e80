//! How many threads waited for one CPU: a step up where a thread begins to wait, one down where it ends.

use cpumon_events::reserve_some;

const BLOCK: usize = 64;

/// What was before a block.
#[derive(Copy, Clone, Debug, Default)]
struct Before {
    length: u32,
    /// Length times time, ns.
    waited_ns: u64,
}

/// The run queue of one CPU, without the thread that runs.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Time times two, plus one where a thread comes; ascending once all are added.
    steps: Vec<u64>,
    before: Vec<Before>,
}

/// Bytes of a wait.
pub(super) const WAIT_BYTES: usize = 2 * size_of::<u64>();

impl Queue {
    /// A thread waited here. Times are below 2^63.
    pub(super) fn push(&mut self, from_ns: u64, until_ns: u64) {
        let last = self.steps.len() + 1;
        reserve_some(&mut self.steps, last);
        self.steps.push(from_ns << 1 | 1);
        self.steps.push(until_ns << 1);
    }

    pub(super) fn finish(&mut self) {
        // Mostly in order: ends are, and begins are shortly before them.
        self.steps.sort_unstable();
        self.steps.shrink_to_fit();
        let (mut at, mut last_ns) = (Before::default(), 0);
        let mut before = Vec::with_capacity(self.steps.len().div_ceil(BLOCK));
        for (place, step) in self.steps.iter().enumerate() {
            at.waited_ns = waited(at.waited_ns, at.length, (step >> 1) - last_ns);
            last_ns = step >> 1;
            if place % BLOCK == 0 {
                before.push(at);
            }
            at.length = after(at.length, *step);
        }
        self.before = before;
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.steps.capacity() * size_of::<u64>()
            + self.before.capacity() * size_of::<Before>()
    }

    /// Steps from the first one at or behind this time on, and the length in front of it.
    pub(super) fn steps_from(&self, at_ns: u64) -> (u32, &[u64]) {
        let place = self.steps.partition_point(|step| step >> 1 < at_ns);
        (self.length_before(place), &self.steps[place..])
    }

    fn length_before(&self, place: usize) -> u32 {
        let block = (place / BLOCK).min(self.before.len().saturating_sub(1));
        let Some(before) = self.before.get(block) else { return 0 };
        self.steps[block * BLOCK..place].iter().fold(before.length, |length, step| after(length, *step))
    }

    /// Time that threads waited up to here, in sum.
    pub(super) fn waited_until(&self, at_ns: u64) -> u64 {
        let place = self.steps.partition_point(|step| step >> 1 < at_ns);
        if place == 0 {
            return 0;
        }
        let block = (place - 1) / BLOCK;
        let Before { mut length, mut waited_ns } = self.before[block];
        let mut last_ns = self.steps[block * BLOCK] >> 1;
        for step in &self.steps[block * BLOCK..place] {
            waited_ns = waited(waited_ns, length, (step >> 1) - last_ns);
            last_ns = step >> 1;
            length = after(length, *step);
        }
        waited(waited_ns, length, at_ns - last_ns)
    }
}

/// A damaged trace may claim any times.
fn waited(before_ns: u64, length: u32, ns: u64) -> u64 {
    before_ns.saturating_add(u64::from(length).saturating_mul(ns))
}

/// The length behind a step.
pub(super) fn after(length: u32, step: u64) -> u32 {
    if step & 1 == 1 { length + 1 } else { length.saturating_sub(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_add_up_from_any_time_on() {
        let mut queue = Queue::default();
        for at in 0..500 {
            queue.push(10 * at, 10 * at + 25);
        }
        queue.finish();
        let by_hand =
            |until: u64| (0..500_u64).map(|at| until.clamp(10 * at, 10 * at + 25) - 10 * at).sum::<u64>();
        for until in [0, 1, 9, 10, 11, 640, 641, 645, 1_279, 1_280, 1_281, 4_999, 5_015, 9_999] {
            assert_eq!(queue.waited_until(until), by_hand(until), "{until}");
        }
        assert_eq!(queue.steps_from(1_281).0, 3);
        assert_eq!(queue.steps_from(9_999).0, 0);
    }
}
