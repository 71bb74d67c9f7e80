//! How a snapshot is completed from what is known before it is compared: frames leave out what did not change.

use std::sync::Arc;

use cpumon_model::{DelayOf, Snapshot};

use super::Known;
use crate::demux::delays;
use crate::demux::lost_waits::{complete_waits, forget_earlier_waits};
use crate::demux::search::{Among, search};

impl Known {
    /// Leaves out exits that the snapshot before had already.
    pub(crate) fn drop_known_exits(&mut self, snapshot: &mut Snapshot) {
        let sent_before = self.exits_sent.len();
        self.exits_sent.extend(snapshot.exits.iter().map(|exit| exit.thread.key));
        // Old and new keys share one list, so that no memory is allocated for each snapshot. `tidy` sorted
        // both.
        let (before, _) = self.exits_sent.split_at(sent_before);
        let mut was_sent = Among::new(before, |key| *key);
        snapshot.exits.retain(|exit| !was_sent.has(&exit.thread.key));
        self.exits_sent.drain(..sent_before);
    }

    /// Merges the threads that were sent into what is known of them: a known thread that was not sent went
    /// on waiting up to the last snapshot; a row without a name has the known one, and the known waits that did not grow.
    pub(crate) fn complete_threads(&mut self, snapshot: &mut Snapshot) {
        let mut at = 0;
        let end_ns = self.snapshot.end.mono_ns;
        for thread in &mut snapshot.threads {
            at = search(&self.snapshot.threads, at, &thread.key, |row| row.key);
            let Some(known) = self.snapshot.threads.get_mut(at).filter(|known| known.key == thread.key)
            else {
                continue;
            };
            let Some(received) = self.threads_received.get_mut(at) else { continue };
            // The device sent no row since `received`, so its open wait went on at least to the last
            // snapshot.
            known.sched.go_on_waiting(end_ns.saturating_sub(received.end_ns));
            received.end_ns = end_ns;
            let since_ns = snapshot.end.mono_ns.saturating_sub(end_ns);
            // A row without a name leaves out the wait reasons that did not grow, too.
            let is_first_name = known.comm.is_empty();
            if thread.comm.is_empty() {
                thread.comm = known.comm;
                received.lacks_waits |= received.sequence < self.lost_before;
                complete_waits(thread, known, received.lacks_waits.then_some(since_ns));
            } else {
                received.lacks_waits = false;
            }
            if is_first_name {
                forget_earlier_waits(thread, known, since_ns);
            }
            self.open_waits.has_row(known.process, known.sched.open_wait, &mut received.place);
        }
        // An ended thread has no row among the threads, but may have been left out in the same way until its
        // end.
        at = 0;
        for exit in &snapshot.exits {
            at = search(&self.snapshot.threads, at, &exit.thread.key, |row| row.key);
            if let Some(known) =
                self.snapshot.threads.get_mut(at).filter(|known| known.key == exit.thread.key)
                && let Some(received) = self.threads_received.get_mut(at)
            {
                known.sched.go_on_waiting(end_ns.saturating_sub(received.end_ns));
                received.end_ns = end_ns;
                // An exit has all waits since the thread began.
                if known.comm.is_empty() {
                    let since_ns = snapshot.end.mono_ns.saturating_sub(end_ns);
                    let lived_ns = exit.end_ns.saturating_sub(self.snapshot.end.boot_ns);
                    forget_earlier_waits(&exit.thread, known, since_ns.min(lived_ns));
                }
                self.open_waits.has_row(known.process, known.sched.open_wait, &mut received.place);
            }
        }
        at = 0;
        for key in &snapshot.gone {
            at = search(&self.snapshot.threads, at, key, |row| row.key);
            if let Some(known) = self.snapshot.threads.get(at).filter(|known| known.key == *key)
                && let Some(received) = self.threads_received.get_mut(at)
            {
                self.open_waits.has_row(known.process, known.sched.open_wait, &mut received.place);
            }
        }
    }

    /// Merges the run-delay buckets that were sent into the known ones.
    pub(crate) fn complete_delays(&mut self, snapshot: &mut Snapshot, whole: &[DelayOf]) {
        delays::complete(&mut self.snapshot, snapshot, whole, self.has_all_delays);
    }

    /// Adds the control groups that were not sent. `ended`: those that are gone.
    pub(crate) fn complete_cgroups(&mut self, snapshot: &mut Snapshot, ended: &[u64], refresh: u16) {
        self.cgroup_turns.complete(snapshot, &self.snapshot, ended, refresh);
    }

    /// Gives interrupt lines without a name the one that is known.
    pub(crate) fn name_irqs(&self, snapshot: &mut Snapshot) {
        for irq in snapshot.irqs.iter_mut().filter(|irq| irq.name.is_empty()) {
            if let Ok(at) = self.snapshot.irqs.binary_search_by_key(&irq.irq, |known| known.irq) {
                irq.name = Arc::clone(&self.snapshot.irqs[at].name);
            }
        }
    }
}
