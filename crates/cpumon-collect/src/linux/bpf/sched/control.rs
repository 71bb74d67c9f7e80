//! Begins and ends a pass. Where the switches are watched it announces an instant T, the cut, shortly before it comes: a pass over
//! thousands of threads takes milliseconds, and the probe saves the state of each thread and CPU at T.

use std::sync::atomic::Ordering;

use cpumon_model::Moment;
use libbpf_rs::MapCore;

use super::super::super::clock;
use super::super::records::ControlPage;
use super::programs::possible_cpus;
use super::{Programs, Shared};
use crate::CollectError;

/// How far ahead T lies: twenty times what it takes to write it.
const FIRST_LEAD_NS: u64 = 5_000;
/// Doublings of the lead, when this thread was held up so long that T was past before it was written: up to 20 ms.
const MAX_ATTEMPTS: u32 = 13;
/// After T, for a transition on another CPU that was timed just before it.
const SETTLE_NS: u64 = 2_000;
/// Passes in which every resting thread is sent in full once. cut.h: `REFRESH_PASSES`.
const REFRESH_PASSES: u32 = 16;

/// The page shared with the probe.
pub(crate) struct Control {
    page: Shared<ControlPage>,
    pass: u32,
    send_all: bool,
    cpus: u32,
    rest_mask: u32,
    group_round: u32,
}

impl Control {
    pub(crate) fn open(programs: &Programs) -> Result<Self, CollectError> {
        let page = Shared::map(programs, ".bss.control", true)?;
        let rest_mask = programs.map("rests")?.max_entries().saturating_sub(1);
        Ok(Self { page, pass: 0, send_all: true, cpus: possible_cpus(), rest_mask, group_round: 0 })
    }

    /// Begins a pass without a cut.
    pub(crate) fn begin(&mut self) {
        self.announce(false);
    }

    fn announce(&mut self, is_cut: bool) {
        self.pass = self.pass.wrapping_add(1);
        let page = ControlPage {
            is_reading: is_cut.into(),
            refresh: self.pass % REFRESH_PASSES,
            send_all: self.send_all.into(),
            cpus: self.cpus,
            rest_mask: self.rest_mask,
            group_round: self.group_round,
            ..ControlPage::default()
        };
        // All but T, which `begin_cut` writes last: a probe that sees T must find the rest in place.
        self.page.write_rest(&page);
        // Until the pass has succeeded.
        self.send_all = true;
    }

    /// Makes a cut, and waits until it is past. From here to [`Control::end`] threads that end leave a copy.
    pub(crate) fn begin_cut(&mut self) -> Moment {
        self.announce(true);
        let mut cut = clock::now();
        for attempt in 0..MAX_ATTEMPTS {
            let now = clock::now();
            // T must lie ahead when it becomes visible: this thread may be pushed off between reading the clock and writing the page.
            let lead_ns = FIRST_LEAD_NS << attempt;
            cut = Moment {
                mono_ns: now.mono_ns + lead_ns,
                boot_ns: now.boot_ns + lead_ns,
                wall_ns: now.wall_ns.saturating_add_unsigned(lead_ns),
            };
            // A full barrier: every CPU sees T before this one reads the clock again.
            self.page.head().swap(cut.mono_ns, Ordering::SeqCst);
            if clock::mono_ns() < cut.mono_ns {
                break;
            }
        }
        while clock::mono_ns() < cut.mono_ns + SETTLE_NS {
            std::hint::spin_loop();
        }
        cut
    }

    /// The iterator is through.
    pub(crate) fn end(&mut self) {
        // The mask stays: renames, which the probe reports at any time, find the slot of a thread by it.
        // So does the round: groups are named at any time.
        let (rest_mask, group_round) = (self.rest_mask, self.group_round);
        self.page.write_rest(&ControlPage { rest_mask, group_round, ..ControlPage::default() });
    }

    /// From the next pass on the probe sends the names of groups that it sent in another round again.
    pub(crate) fn set_group_round(&mut self, round: u32) {
        self.group_round = round;
    }

    /// Whether the probe takes a pass to be on.
    #[cfg(test)]
    pub(crate) fn is_reading(&self) -> bool {
        self.page.read(0).is_some_and(|page| page.is_reading != 0)
    }

    /// The pass has succeeded: what it sent need not be sent again.
    pub(crate) fn keep(&mut self) {
        self.send_all = false;
    }
}
