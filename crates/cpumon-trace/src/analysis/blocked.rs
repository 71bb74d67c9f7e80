//! What threads waited for that were neither running nor runnable.

use cpumon_model::Waits;

use super::slots::Slots;
use crate::state::{ThreadSpan, ThreadState};

#[derive(Debug, Default)]
pub(super) struct BlockedTimes(Slots<Waits>);

impl BlockedTimes {
    pub(super) fn add(&mut self, span: &ThreadSpan) {
        if let ThreadState::Blocked(reason) = span.state {
            self.0.at(span.slot).add(reason, span.until_ns - span.from_ns);
        }
    }

    pub(super) fn get(&self, slot: usize) -> Waits {
        self.0.get(slot).copied().unwrap_or_default()
    }
}
