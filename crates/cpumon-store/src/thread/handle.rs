//! What the rest of the program holds of a writer thread: the thread itself, and handles that put intervals into its queue.

use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cpumon_model::{HostId, HostInfo, Interval, LossCounts, Trust};

use super::queue::{Offer, Queue, Queued};
use super::receipt::ReceiptRequest;
use super::status::StoreStatus;
use super::worker::Worker;
use crate::error::{Result, StoreError};
use crate::options::{QueueOptions, StoreOptions};
use crate::writer::{ReportedGap, Writer};

/// A running writer thread. Dropping it stores what is queued and waits for that.
#[derive(Debug)]
pub struct WriterThread {
    handle: WriterHandle,
    thread: Option<JoinHandle<()>>,
}

/// The sending end of the queue; cheap to clone.
#[derive(Clone, Debug)]
pub struct WriterHandle {
    queue: Arc<Queue>,
}

impl WriterThread {
    /// Opens the store at `path` (errors come back here) and starts the thread.
    pub fn spawn(path: &Path, options: &StoreOptions, queue: &QueueOptions) -> Result<Self> {
        // Opened in the caller's thread, so that its errors come back here.
        let writer = Writer::open(path, options)?;
        let shared = Arc::new(Queue::new(queue));
        let mut worker = Worker::new(writer, Arc::clone(&shared), queue.clone());
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || worker.run())
            .map_err(|source| StoreError::Io {
                operation: "start the writer thread of",
                path: path.into(),
                source,
            })?;
        Ok(Self { handle: WriterHandle { queue: shared }, thread: Some(thread) })
    }

    /// The sending end of the queue.
    #[must_use]
    pub fn handle(&self) -> WriterHandle {
        self.handle.clone()
    }

    /// Stores what waits, ends the thread, gives the final counts.
    #[must_use]
    pub fn stop(mut self) -> StoreStatus {
        self.join();
        self.handle.status()
    }

    fn join(&mut self) {
        self.handle.queue.stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the store's writer thread ended by a panic");
        }
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        self.join();
    }
}

impl WriterHandle {
    /// Copies the active rows of `interval` into the queue. Never waits: without space, or after the writer ended, the interval
    /// is counted as dropped, and a gap is recorded when the store works again. Hosts that are not trusted have at most half of
    /// the space, and may begin a few boots only.
    #[expect(clippy::must_use_candidate, reason = "a refusal is counted here; the caller has nothing to do")]
    pub fn try_put(
        &self,
        info: &HostInfo,
        trust: Trust,
        loss: Option<&LossCounts>,
        interval: &Interval,
    ) -> Queued {
        self.queue.try_put(&Offer { info, trust, loss, interval, gap: None, receipt: None })
    }

    /// [`WriterHandle::try_put`] of an interval that its sender stores until `receipt` is notified. `false`: there is no space
    /// now; nothing is counted, and nothing is notified.
    #[must_use]
    pub fn try_put_with_receipt(
        &self,
        info: &HostInfo,
        trust: Trust,
        loss: &LossCounts,
        interval: &Interval,
        receipt: ReceiptRequest,
    ) -> bool {
        let (loss, receipt) = (Some(loss), Some(receipt));
        self.queue.try_put(&Offer { info, trust, loss, interval, gap: None, receipt }) == Queued::Yes
    }

    /// [`WriterHandle::try_put_with_receipt`] of a hole that the device reports.
    #[must_use]
    pub fn try_put_gap(
        &self,
        info: &HostInfo,
        trust: Trust,
        gap: ReportedGap,
        receipt: ReceiptRequest,
    ) -> bool {
        let nothing = Interval { host: info.host, boot: info.boot, ..Interval::default() };
        let (gap, receipt) = (Some(gap), Some(receipt));
        let offer = Offer { info, trust, loss: None, interval: &nothing, gap, receipt };
        self.queue.try_put(&offer) == Queued::Yes
    }

    /// Whether trusted hosts use less than half of what they have to themselves. Only then is old data taken in: it must not take
    /// the space of new data.
    #[must_use]
    pub fn has_ample_space(&self) -> bool {
        self.queue.has_ample_space()
    }

    /// Counts since the thread was started, and what waits in the queue now.
    #[must_use]
    pub fn status(&self) -> StoreStatus {
        self.queue.status()
    }

    /// Intervals of a host that were thrown away since the thread was started ([`LossCounts::store_dropped`]).
    #[must_use]
    pub fn dropped(&self, host: HostId) -> u64 {
        self.queue.dropped(host)
    }

    /// Waits until everything put before is committed or dropped; `false` if that took longer than `timeout`.
    #[must_use]
    pub fn flush(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut inner = self.queue.lock();
        // Under the same lock as the wait below: the writer cannot end the batch in between, unnoticed.
        inner.flush_wanted = true;
        self.queue.wake();
        while inner.flush_wanted && !inner.has_ended {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.queue.batch_ended.wait_timeout(inner, left);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}
