//! A writer in a thread of its own. In: intervals through a bounded queue. Out: a store, and counts of what happened.
//! Why: sockets are read while the disk is slow, full or gone.

mod queue;
mod receipt;
mod status;

use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cpumon_model::{HostId, HostInfo, Interval, LossCounts, Trust};

use self::queue::{Entry, Queue};
pub use self::receipt::Receipt;
use self::receipt::Receipts;
pub use self::status::{StoreState, StoreStatus};
use crate::error::{Result, StoreError};
use crate::options::{QueueOptions, StoreOptions};
use crate::writer::{Put, ReportedGap, Writer, wall_now_ns};

/// Intervals handled between two looks at the clock.
const BATCH: usize = 256;

/// A running writer thread. Dropping it stores what waits.
#[derive(Debug)]
pub struct WriterThread {
    handle: WriterHandle,
    thread: Option<JoinHandle<()>>,
}

/// The queue's end that others hold; cheap to clone.
#[derive(Clone, Debug)]
pub struct WriterHandle {
    queue: Arc<Queue>,
}

impl WriterThread {
    /// Opens the store at `path` (errors come back here) and starts the thread.
    pub fn spawn(path: &Path, options: &StoreOptions, queue: &QueueOptions) -> Result<Self> {
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

    /// The queue's end for others.
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
    /// Copies the active rows of `interval` into the queue. Never waits: without room, or with the writer gone, the interval
    /// is counted as dropped, later recorded as a gap, and `false` comes back.
    #[expect(clippy::must_use_candidate, reason = "a refusal is counted here; the caller has nothing to do")]
    pub fn try_put(
        &self,
        info: &HostInfo,
        trust: Trust,
        loss: Option<&LossCounts>,
        interval: &Interval,
    ) -> bool {
        self.queue.try_put(info, trust, loss, interval, (None, None))
    }

    /// [`WriterHandle::try_put`] of an interval that its sender keeps: `receipt` is told with `number` what became of it.
    /// `false`: no room now; nothing is counted, and nobody is told.
    #[must_use]
    pub fn try_put_with_receipt(
        &self,
        info: &HostInfo,
        trust: Trust,
        loss: &LossCounts,
        interval: &Interval,
        (receipt, number): (Arc<dyn Receipt>, u64),
    ) -> bool {
        self.queue.try_put(info, trust, Some(loss), interval, (None, Some((receipt, number))))
    }

    /// Queues a hole that the device reports, likewise.
    #[must_use]
    pub fn try_put_gap(
        &self,
        info: &HostInfo,
        trust: Trust,
        gap: ReportedGap,
        (receipt, number): (Arc<dyn Receipt>, u64),
    ) -> bool {
        let nothing = Interval { host: info.host, boot: info.boot, ..Interval::default() };
        self.queue.try_put(info, trust, None, &nothing, (Some(gap), Some((receipt, number))))
    }

    /// Whether the queue is less than half full: then old data may be taken in beside new.
    #[must_use]
    pub fn has_ample_space(&self) -> bool {
        self.queue.has_ample_space()
    }

    /// Counts as they are now.
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

/// The thread's side.
#[derive(Debug)]
struct Worker {
    writer: Writer,
    queue: Arc<Queue>,
    options: QueueOptions,
    state: StoreState,
    retry_at: Option<Instant>,
    /// When the open transaction must end: it goes by the receipt of the oldest interval in it.
    next_commit: Instant,
    next_maintenance: Instant,
    /// In the open transaction: intervals, thread rows.
    open: (u64, u64),
    receipts: Receipts,
}

impl Worker {
    fn new(writer: Writer, queue: Arc<Queue>, options: QueueOptions) -> Self {
        let now = Instant::now();
        let next_commit = now + options.commit_every;
        let state = StoreState::Ok;
        Self {
            writer,
            queue,
            options,
            state,
            retry_at: None,
            next_commit,
            next_maintenance: now,
            open: (0, 0),
            receipts: Receipts::default(),
        }
    }

    fn run(&mut self) {
        /// Tells the other side, whichever way the thread ends.
        struct EndNotice(Arc<Queue>);
        impl Drop for EndNotice {
            fn drop(&mut self) {
                let mut inner = self.0.lock();
                inner.has_ended = true;
                if std::thread::panicking() {
                    inner.status.state =
                        StoreState::Failed { reason: "the writer thread panicked".to_owned() };
                }
                drop(inner);
                self.0.batch_ended.notify_all();
            }
        }
        let _end_notice = EndNotice(Arc::clone(&self.queue));
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let now = Instant::now();
            let mut inner = self.queue.wait(self.next_commit.saturating_duration_since(now));
            inner.take(BATCH, &mut batch);
            let (is_last, is_flush) =
                (inner.is_stopping && inner.is_empty(), inner.flush_wanted && inner.is_empty());
            drop(inner);
            for entry in &batch {
                self.handle(entry);
            }
            self.queue.lock().recycle(&mut batch);
            if is_last || is_flush || Instant::now() >= self.next_commit {
                self.end_batch(is_last);
            }
            if is_last {
                return;
            }
        }
    }

    /// Puts one interval, or counts it as dropped while there is no room.
    fn handle(&mut self, entry: &Entry) {
        self.next_commit = self.next_commit.min(entry.received + self.options.commit_every);
        if self.retry_at.is_some() {
            if let Some((receipt, number)) = &entry.wanted {
                receipt.notify(*number, false);
                return;
            }
            self.writer.note_dropped(&entry.copy.interval, "store full");
            self.queue.lock().count_dropped(entry.copy.interval.host, 1);
            return;
        }
        self.receipts.push(entry.wanted.as_ref());
        match self.put(entry) {
            Ok(Some(Put::Stored)) => {
                let rows = entry.copy.interval.threads.len();
                self.open = (self.open.0 + 1, self.open.1 + rows as u64);
            }
            Ok(Some(Put::Duplicate)) => self.queue.lock().status.duplicate_intervals += 1,
            Ok(None) => {}
            Err(error) => self.note_failure(&error),
        }
    }

    fn put(&mut self, entry: &Entry) -> Result<Option<Put>> {
        let (info, trust, interval) = (&entry.info, entry.trust, &entry.copy.interval);
        if let Some(gap) = &entry.gap {
            return self.writer.put_reported(info.host, gap).map(|()| None);
        }
        let (loss, received_wall_ns) = (entry.loss.as_ref(), entry.received_wall_ns);
        let put = if entry.wanted.is_some() {
            self.writer.put_resendable(info, trust, loss, interval, received_wall_ns)
        } else {
            self.writer.put_received(info, trust, loss, interval, received_wall_ns)
        };
        put.map(Some)
    }

    /// Commits, keeps the store in shape, tells the counts.
    fn end_batch(&mut self, is_last: bool) {
        self.next_commit = Instant::now() + self.options.commit_every;
        let lost = std::mem::take(&mut self.queue.lock().lost);
        self.writer.add_losses(lost);
        let is_due = self.retry_at.is_none_or(|retry_at| is_last || Instant::now() >= retry_at);
        if is_due {
            match self.writer.commit() {
                Ok(()) => {
                    self.recover();
                    self.maintain(is_last);
                }
                Err(error) => self.note_failure(&error),
            }
        }
        let mut inner = self.queue.lock();
        inner.flush_wanted = false;
        drop(inner);
        self.queue.batch_ended.notify_all();
    }

    /// Keeps the store in shape, at most once in the time between two commits: what is late is not kept waiting by it.
    fn maintain(&mut self, is_last: bool) {
        let now = Instant::now();
        if now < self.next_maintenance {
            return;
        }
        self.next_maintenance = now + self.options.commit_every;
        let budget = if is_last { Duration::ZERO } else { self.options.maintain_budget };
        if let Err(error) = self.writer.maintain(budget) {
            self.note_failure(&error);
        }
    }

    /// After a commit that worked.
    fn recover(&mut self) {
        if self.state != StoreState::Ok {
            log::warn!("storing to {} again", self.writer.path().display());
        }
        (self.state, self.retry_at) = (StoreState::Ok, None);
        self.receipts.notify(true);
        let (intervals, rows) = std::mem::take(&mut self.open);
        let mut inner = self.queue.lock();
        inner.status.state = StoreState::Ok;
        inner.status.stored_intervals += intervals;
        inner.status.stored_thread_rows += rows;
        inner.status.last_commit_wall_ns = Some(wall_now_ns());
    }

    /// After an error: what the transaction held is lost, and nothing is tried for a while.
    fn note_failure(&mut self, error: &StoreError) {
        self.open = (0, 0);
        self.receipts.notify(false);
        self.retry_at = Some(Instant::now() + self.options.retry_every);
        let reason = error.to_string();
        let state = match &self.state {
            StoreState::Full { since_wall_ns, .. } if error.is_no_space() => {
                StoreState::Full { since_wall_ns: *since_wall_ns, reason }
            }
            _ if error.is_no_space() => StoreState::Full { since_wall_ns: wall_now_ns(), reason },
            _ => StoreState::Failed { reason },
        };
        if self.state.name() != state.name() {
            log::warn!("storing stops, tried again every {:?}: {error}", self.options.retry_every);
        }
        self.state = state;
        let mut inner = self.queue.lock();
        inner.status.state = self.state.clone();
        for (host, intervals) in self.writer.take_rolled_back() {
            inner.count_dropped(host, intervals);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_ends_by_the_receipt_of_its_oldest_interval() {
        let dir = tempfile::tempdir().unwrap();
        let writer = Writer::open(&dir.path().join("s.sqlite"), &StoreOptions::default()).unwrap();
        let options = QueueOptions { commit_every: Duration::from_mins(1), ..QueueOptions::default() };
        let queue = Arc::new(Queue::new(&options));
        let mut worker = Worker::new(writer, Arc::clone(&queue), options);
        for sequence in 1..=3_u8 {
            let interval = Interval { sequence: sequence.into(), ..Interval::default() };
            assert!(queue.try_put(&HostInfo::default(), Trust::Local, None, &interval, (None, None)));
        }
        let mut batch = Vec::new();
        queue.lock().take(BATCH, &mut batch);
        let late = Instant::now() + Duration::from_secs(30);
        worker.next_commit = late + Duration::from_mins(1);
        for entry in &batch {
            worker.handle(entry);
        }
        assert_eq!(worker.next_commit, batch[0].received + Duration::from_mins(1));
        assert_eq!(worker.open.0, 3);
        worker.end_batch(false);
        assert!(worker.next_commit > batch[2].received + Duration::from_mins(1), "nothing is open");
    }
}
