//! The shelf: context-switch traces that devices send beside their records, as files beside the store. Sessions hand over what arrives;
//! a thread of its own writes, checks, numbers and deletes, so that no record waits for its disk.

mod content;
mod counts;
mod files;
mod job;
mod own;
mod requests;
mod shares;
mod slot;
mod storage;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

pub(crate) use self::counts::Counts;
use self::job::Job;
pub(crate) use self::job::OfferedTrace;
pub use self::job::TraceLimits;
use self::own::Intake;
pub use self::own::own_traces_dir;
pub(crate) use self::own::{OwnFlight, OwnTraces};
pub use self::requests::{AskError, Requests};
pub(crate) use self::slot::{Slot, SlotState};
use self::storage::Storage;
use crate::ReceiverError;

/// Traces of all hosts at one time; beyond them the host that has most loses its oldest.
const MAX_TRACES: usize = 2_000;

/// The sending end of the shelf's thread. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Shelf {
    jobs: Sender<Job>,
    counts: Arc<Counts>,
    requests: Arc<Requests>,
}

/// What runs on the shelf's thread.
pub(crate) struct ShelfWork {
    storage: Storage,
    /// Of this machine, if it is recorded.
    intake: Option<Intake>,
    jobs: Receiver<Job>,
}

impl Shelf {
    /// Opens the directory beside the store, which a writer has opened before.
    pub(crate) fn open(store: &Path, limits: TraceLimits) -> Result<(Self, ShelfWork), ReceiverError> {
        let (jobs, receiver) = channel();
        let counts = Arc::new(Counts::new(limits.bytes));
        let storage = Storage::open(store, limits, MAX_TRACES, Arc::clone(&counts))?;
        let shelf = Self { jobs, counts, requests: Arc::default() };
        Ok((shelf, ShelfWork { storage, intake: None, jobs: receiver }))
    }

    /// A device offers a trace. What becomes of it is in the slot.
    pub(crate) fn offer(&self, offered: OfferedTrace) -> Arc<Slot> {
        let slot = Arc::new(Slot::default());
        self.send(Job::Offer(offered, Arc::clone(&slot)));
        slot
    }

    pub(crate) fn piece(&self, slot: &Arc<Slot>, offset: u64, bytes: &[u8]) {
        self.send(Job::Piece { slot: Arc::clone(slot), offset, bytes: bytes.to_vec() });
    }

    pub(crate) fn abandon(&self, slot: &Arc<Slot>) {
        self.send(Job::Abandon(Arc::clone(slot)));
    }

    /// Requests of users to devices.
    #[must_use]
    pub fn requests(&self) -> &Arc<Requests> {
        &self.requests
    }

    pub(crate) fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    fn send(&self, job: Job) {
        // The thread ends with the receiver only; then nothing is answered any more.
        let _ = self.jobs.send(job);
    }
}

impl ShelfWork {
    /// With the traces of this machine.
    pub(crate) fn with_own(mut self, own: Option<Arc<OwnTraces>>) -> Self {
        self.intake = own.map(Intake::new);
        self
    }

    /// Works until all senders are gone or `is_stopping`.
    pub(crate) fn run(mut self, is_stopping: &dyn Fn() -> bool) {
        while !is_stopping() {
            match self.jobs.recv_timeout(Duration::from_millis(250)) {
                Ok(job) => self.storage.work(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if let Some(intake) = &mut self.intake {
                intake.work(&mut self.storage);
            }
            self.storage.tidy();
        }
    }
}

#[cfg(test)]
mod tests;
