//! How long each thread ran, and for how long that is not known.

use super::slots::Slots;
use crate::state::{ThreadSpan, ThreadState};

#[derive(Debug, Default)]
pub(super) struct RunTimes {
    run_ns: Slots<u64>,
    unknown_ns: Slots<u64>,
}

impl RunTimes {
    pub(super) fn add(&mut self, span: &ThreadSpan) {
        let ns = span.until_ns - span.from_ns;
        match span.state {
            ThreadState::Running => *self.run_ns.at(span.slot) += ns,
            ThreadState::Unknown => *self.unknown_ns.at(span.slot) += ns,
            _ => {}
        }
    }

    pub(super) fn run_ns(&self, slot: usize) -> u64 {
        self.run_ns.get(slot).copied().unwrap_or(0)
    }

    pub(super) fn unknown_ns(&self, slot: usize) -> u64 {
        self.unknown_ns.get(slot).copied().unwrap_or(0)
    }
}
