//! The differ: two snapshots in, one [`Interval`] out. The only place where counters are subtracted.

use crate::{Interval, Snapshot};

impl Interval {
    /// What happened between `prev` and `cur`.
    #[must_use]
    pub fn between(prev: &Snapshot, cur: &Snapshot) -> Self {
        let mut interval = Self::default();
        interval.fill(prev, cur);
        interval
    }

    /// [`Interval::between`] into kept buffers: a steady state allocates nothing.
    pub fn fill(&mut self, _prev: &Snapshot, _cur: &Snapshot) {}
}
