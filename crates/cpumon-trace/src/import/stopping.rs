//! Which CPUs went offline and did not come back. Their last switch is to the thread that stops them, `migration/N`: the kernel hands out
//! no event of a CPU that is offline, so no recorder has the switch away from it.

use std::collections::BTreeMap;

use cpumon_events::{Name, up_to_zero};

use super::decoder::{RawEvent, RawKind};
use crate::source::StoppedCpu;

/// A CPU that stays online has this thread for less, ns: for some microseconds mostly. A recording may end meanwhile.
const LEAST_NS: u64 = 10_000_000;

/// CPUs on which the thread that stops them is, with the time of their last event.
#[derive(Debug, Default)]
pub(super) struct Stopping(BTreeMap<u16, u64>);

impl Stopping {
    /// What comes next, of any CPU.
    pub(super) fn note(&mut self, event: &RawEvent) {
        match event.kind {
            RawKind::Switch { next, .. } if stops(&next.name, event.cpu) => {
                self.0.insert(event.cpu, event.at_ns);
            }
            RawKind::Switch { .. } | RawKind::Lost { .. } => {
                self.0.remove(&event.cpu);
            }
            kind if kind.is_event() || kind == RawKind::Same => {
                if let Some(last_ns) = self.0.get_mut(&event.cpu) {
                    *last_ns = event.at_ns.max(*last_ns);
                }
            }
            _ => {}
        }
    }

    /// Those that have no event since long before the end.
    pub(super) fn stopped(&self, end_ns: u64) -> Vec<StoppedCpu> {
        let is_long_ago = |since_ns: u64| end_ns.saturating_sub(since_ns) > LEAST_NS;
        let stopped = self.0.iter().filter(|(_, since_ns)| is_long_ago(**since_ns));
        stopped.map(|(&cpu, &since_ns)| StoppedCpu { cpu, since_ns }).collect()
    }
}

/// Whether this is the name of the thread that stops the CPU.
fn stops(name: &Name, cpu: u16) -> bool {
    let number = up_to_zero(name).strip_prefix(b"migration/");
    number.is_some_and(|number| number == cpu.to_string().as_bytes())
}
