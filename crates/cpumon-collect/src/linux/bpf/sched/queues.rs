//! The run queue of each CPU, integrated over time: the slices of threads, and the time that threads were ready. The sum over all CPUs
//! is exact, for it is that of the threads. In which queue a thread waited is known only of the end of its wait, so each CPU gets a
//! share of that time in proportion to the waits that ended and are open in its queue.

/// Data of one queue that user space keeps.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct QueueTotals {
    /// Waits that are open at the cut, and how many.
    open_ns: u64,
    open: u32,
    /// Totals at the last cut.
    busy_ns: u64,
    waited_ns: u64,
    weight: u64,
    shown_ns: u64,
}

impl QueueTotals {
    /// Begins a cut; call it before the threads are visited.
    pub(crate) fn begin(&mut self) {
        (self.open_ns, self.open) = (0, 0);
    }

    /// Counts a wait that is open at the cut.
    pub(crate) fn open(&mut self, delay_ns: u64) {
        self.open_ns = self.open_ns.saturating_add(delay_ns);
        self.open += 1;
    }

    /// Threads that wait at the cut.
    pub(crate) fn length(&self) -> u32 {
        self.open
    }

    /// Brings it to the cut. `busy_ns`: all slices of threads; `ended_ns`: all waits that ended in it.
    pub(crate) fn close(&mut self, busy_ns: u64, ended_ns: u64) {
        let waited_ns = ended_ns.saturating_add(self.open_ns);
        // Less than at the last cut: the thread of an open slice had left its CPU, which was idle since. The shown value stays.
        let busy_ns = busy_ns.max(self.busy_ns);
        self.shown_ns = self.shown_ns.saturating_add(busy_ns - self.busy_ns);
        // Less than at the last cut: a thread was moved to another queue, with all that it had waited.
        self.weight = waited_ns.saturating_sub(self.waited_ns);
        (self.busy_ns, self.waited_ns) = (busy_ns, waited_ns);
    }

    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    /// Adds its share; returns all that is to be shown.
    pub(crate) fn add(&mut self, ready_ns: u64) -> u64 {
        self.shown_ns = self.shown_ns.saturating_add(ready_ns);
        self.shown_ns
    }
}

/// Divides a time among queues; the parts add up to it.
pub(crate) struct Shares {
    /// Rest of the time, of the weights, and of the queues.
    left_ns: u64,
    weight: u128,
    queues: u64,
}

impl Shares {
    pub(crate) fn new(ready_ns: u64, weights: impl Iterator<Item = u64>) -> Self {
        let (mut weight, mut queues) = (0, 0);
        for each in weights {
            weight += u128::from(each);
            queues += 1;
        }
        Self { left_ns: ready_ns, weight, queues }
    }

    /// The part of the next queue, which has this weight.
    pub(crate) fn next(&mut self, weight: u64) -> u64 {
        let part = match (self.weight, self.queues) {
            (_, 0) => 0,
            // No wait is known in any queue: each gets the same.
            (0, queues) => self.left_ns / queues,
            (all, _) => {
                u64::try_from(u128::from(self.left_ns) * u128::from(weight) / all).unwrap_or(self.left_ns)
            }
        };
        self.weight = self.weight.saturating_sub(weight.into());
        self.queues = self.queues.saturating_sub(1);
        self.left_ns -= part.min(self.left_ns);
        part
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shares(ready_ns: u64, weights: &[u64]) -> Vec<u64> {
        let mut shares = Shares::new(ready_ns, weights.iter().copied());
        weights.iter().map(|weight| shares.next(*weight)).collect()
    }

    #[test]
    fn queues_get_the_time_that_threads_were_ready_by_what_waited_in_them() {
        assert_eq!(shares(100, &[30, 0, 10]), [75, 0, 25]);
        assert_eq!(shares(100, &[0, 0, 0]), [33, 33, 34]);
        assert_eq!(shares(7, &[]), [0; 0]);
    }

    #[test]
    fn threads_that_are_moved_take_their_waits_along_and_every_queue_goes_on() {
        let (mut from, mut to) = (QueueTotals::default(), QueueTotals::default());
        from.open(50_000);
        from.close(1_000, 0);
        to.close(1_000, 0);
        // All tasks are in the other queue now.
        from.begin();
        from.close(2_000, 0);
        to.open(60_000);
        to.close(2_000, 0);
        assert_eq!((from.weight(), to.weight()), (0, 60_000));
        // Both ran, and that is in both queues, whatever was shown before.
        assert_eq!((from.add(0), to.add(10_000)), (2_000, 12_000));
    }

    proptest! {
        #[test]
        fn shares_add_up(ready_ns in any::<u64>(), weights in prop::collection::vec(any::<u64>(), 1..9)) {
            let sum: u128 = shares(ready_ns, &weights).into_iter().map(u128::from).sum();
            prop_assert_eq!(sum, u128::from(ready_ns));
        }
    }
}
