//! The writer thread. [`WriterThread`] owns it, and [`WriterHandle`]s put intervals into its queue. It takes intervals from the queue,
//! stores them, commits twice a second, and does maintenance between commits.

use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cpumon_model::{HostId, HostInfo, Interval, LossCounts, Trust};

use super::share::QueueEntry;
use super::{
    Offer, QueueOptions, Queued, ReceiptRequest, STRANGERS_PART, StoreState, StoreStatus, WriterQueue,
};
use crate::error::{At, Result, StoreError};
use crate::reader::Gap;
use crate::writer::{Arrival, Put, RolledBack, StoreOptions, Writer, wall_now_ns};

/// A running writer thread. Dropping it stores the queued intervals and waits for that.
#[derive(Debug)]
pub struct WriterThread {
    handle: WriterHandle,
    thread: Option<JoinHandle<()>>,
}

/// The sending end of the queue; cheap to clone.
#[derive(Clone, Debug)]
pub struct WriterHandle {
    pub(super) queue: Arc<WriterQueue>,
}

impl WriterThread {
    /// Opens the store at `path` (errors come back here) and starts the thread.
    pub fn spawn(path: &Path, options: &StoreOptions, queue: &QueueOptions) -> Result<Self> {
        // Opened in the caller's thread, so that its errors come back here.
        let mut writer = Writer::open(path, options)?;
        let shared = Arc::new(WriterQueue::new(queue));
        // Not at the first commit: devices that come before it are let in by this.
        shared.lock().status.clock_doubt = writer.read_clock();
        let mut worker = Worker::new(writer, Arc::clone(&shared), queue.clone());
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || worker.run())
            .at("start the writer thread of", path)?;
        Ok(Self { handle: WriterHandle { queue: shared }, thread: Some(thread) })
    }

    pub fn handle(&self) -> WriterHandle {
        self.handle.clone()
    }

    /// Stores what waits, ends the thread, gives the final counts.
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

    /// [`WriterHandle::try_put`] of an interval that its sender stores until `receipt` is notified. `false`: there is no space now;
    /// nothing is notified, and nothing is counted, except an interval of a refused boot.
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
    pub fn try_put_gap(&self, info: &HostInfo, trust: Trust, gap: Gap, receipt: ReceiptRequest) -> bool {
        let nothing = Interval { host: info.host, boot: info.boot, ..Interval::default() };
        let (gap, receipt) = (Some(gap), Some(receipt));
        let offer = Offer { info, trust, loss: None, interval: &nothing, gap, receipt };
        self.queue.try_put(&offer) == Queued::Yes
    }

    /// Whether trusted hosts use less than half of what they have to themselves. Only then is old data taken in: it must not take
    /// the space of new data.
    pub fn has_ample_space(&self) -> bool {
        let inner = self.queue.lock();
        let own = self.queue.limit.less(self.queue.limit.part(STRANGERS_PART));
        inner.trusted.amount().has_space(1, own.part(2)) && !inner.has_ended
    }

    /// Counts since the thread was started, and what waits in the queue now.
    pub fn status(&self) -> StoreStatus {
        let inner = self.queue.lock();
        let waiting = inner.amount();
        StoreStatus {
            queued_intervals: waiting.intervals as u64,
            queued_bytes: waiting.bytes as u64,
            ..inner.status.clone()
        }
    }

    /// Intervals of a host that were thrown away since the thread was started ([`LossCounts::store_dropped`]).
    pub fn dropped(&self, host: HostId) -> u64 {
        let inner = self.queue.lock();
        inner.trusted.dropped(host) + inner.strangers.dropped(host)
    }

    /// Waits until everything put before is committed or dropped; `false` if that took longer than `timeout`.
    pub fn flush(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut inner = self.queue.lock();
        // Under the same lock as the wait below: the writer cannot end the batch in between, unnoticed.
        inner.flushes_asked += 1;
        let own = inner.flushes_asked;
        self.queue.filled.notify_all();
        while inner.flushes_done < own && !inner.has_ended {
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

/// Marks the queue as ended, also after a panic: otherwise a flush would wait for ever, and the queue would fill.
struct EndNotice(Arc<WriterQueue>);

impl Drop for EndNotice {
    fn drop(&mut self) {
        let mut inner = self.0.lock();
        inner.has_ended = true;
        if std::thread::panicking() {
            inner.status.state = StoreState::Failed { reason: "the writer thread panicked".to_owned() };
        }
        drop(inner);
        self.0.batch_ended.notify_all();
    }
}

/// Counts of what was put and is not yet committed.
#[derive(Copy, Clone, Debug, Default)]
struct OpenCounts {
    intervals: u64,
    thread_rows: u64,
}

/// The writer thread. It is in one of two states: storing, or (with `retry_at`) waiting after an error.
#[derive(Debug)]
pub(super) struct Worker {
    writer: Writer,
    queue: Arc<WriterQueue>,
    options: QueueOptions,
    state: StoreState,
    /// After an error, nothing is written before this: each attempt on a full disk costs a rollback of all that is open.
    retry_at: Option<Instant>,
    /// When the open transaction must end, by the receipt of the oldest interval in it: what a kill can cost is bounded by
    /// that, not by how long the queue was.
    next_commit: Instant,
    next_maintenance: Instant,
    open: OpenCounts,
    /// Receipts of what the open transaction holds.
    receipts: Vec<ReceiptRequest>,
}

impl Worker {
    pub(super) fn new(writer: Writer, queue: Arc<WriterQueue>, options: QueueOptions) -> Self {
        let now = Instant::now();
        let next_commit = now + options.commit_every;
        Self {
            writer,
            queue,
            options,
            state: StoreState::Ok,
            retry_at: None,
            next_commit,
            next_maintenance: now,
            open: OpenCounts::default(),
            receipts: Vec::new(),
        }
    }

    pub(super) fn run(&mut self) {
        let _end_notice = EndNotice(Arc::clone(&self.queue));
        let mut batch = Vec::new();
        loop {
            let now = Instant::now();
            let mut inner = self.queue.wait(self.next_commit.saturating_duration_since(now));
            inner.take(&mut batch);
            let is_last = inner.is_stopping && inner.is_empty();
            let flushes = inner.answered_flushes();
            let is_flush = flushes > inner.flushes_done;
            drop(inner);
            for entry in &mut batch {
                self.handle(entry);
                entry.copy.clear();
            }
            // Handled outside of the lock: receiving waits for it.
            self.queue.lock().recycle(&mut batch);
            if is_last || is_flush || Instant::now() >= self.next_commit {
                self.end_batch(is_last, flushes);
            }
            if is_last {
                return;
            }
        }
    }

    /// Puts one interval, or counts it as dropped while nothing can be written.
    fn handle(&mut self, entry: &QueueEntry) {
        // What waited long because others went first does not make a commit of its own due.
        if entry.trust.is_trusted() {
            self.next_commit = self.next_commit.min(entry.received + self.options.commit_every);
        }
        if self.retry_at.is_some() {
            if let Some(receipt) = &entry.receipt {
                // Not lost: its sender still has it, and sends it again.
                receipt.notify(false);
                return;
            }
            self.writer.losses.unrecorded.add(entry.trust, &entry.copy.interval, "store full");
            self.queue.lock().count_dropped(entry.trust, entry.copy.interval.host, 1);
            return;
        }
        // Before the put: if that fails, `note_failure` answers this receipt with the others.
        self.receipts.extend(entry.receipt.clone());
        match self.put(entry) {
            Ok(Some(Put::Stored)) => {
                let rows = entry.copy.interval.threads.len();
                self.open.intervals += 1;
                self.open.thread_rows += rows as u64;
            }
            Ok(Some(Put::Duplicate)) => self.queue.lock().status.duplicate_intervals += 1,
            Ok(None) => {}
            Err(error) => self.note_failure(&error),
        }
    }

    fn put(&mut self, entry: &QueueEntry) -> Result<Option<Put>> {
        let (info, trust, interval) = (&entry.info, entry.trust, &entry.copy.interval);
        if let Some(gap) = &entry.gap {
            return self.writer.put_reported(info.host, gap).map(|()| None);
        }
        let loss = entry.loss.as_ref();
        let received_wall_ns = self.writer.weigh_receipt(trust, interval, entry.received_wall_ns);
        if entry.receipt.is_none() {
            self.writer.losses.put_at_risk(trust, interval);
        }
        self.writer.insert(&Arrival { info, trust, loss, interval, received_wall_ns }).map(Some)
    }

    /// Ends the transaction, does some maintenance, and wakes those who wait for one of these flushes.
    fn end_batch(&mut self, is_last: bool, flushes: u64) {
        self.next_commit = Instant::now() + self.options.commit_every;
        let lost = std::mem::take(&mut self.queue.lock().lost);
        // Before the commit, which records them as gaps.
        self.writer.losses.add_all(lost);
        // Also while nothing can be written.
        let doubt = self.writer.read_clock();
        self.queue.lock().status.clock_doubt = doubt;
        // The last attempt is made at once: there will be no later one.
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
        inner.flushes_done = flushes;
        drop(inner);
        self.queue.batch_ended.notify_all();
    }

    /// Compaction and retention, at most once between two commits: with a long queue, commits follow each other without a
    /// pause, and maintenance after each would keep the queue long.
    fn maintain(&mut self, is_last: bool) {
        let now = Instant::now();
        if now < self.next_maintenance {
            return;
        }
        self.next_maintenance = now + self.options.commit_every;
        // Stopping the receiver must not wait for compaction.
        let budget = if is_last { Duration::ZERO } else { self.options.maintain_budget };
        if let Err(error) = self.writer.maintain(budget) {
            self.note_failure(&error);
        }
    }

    /// Returns to storing after a commit that succeeded.
    fn recover(&mut self) {
        if self.state != StoreState::Ok {
            log::warn!("storing to {} again", self.writer.path().display());
        }
        (self.state, self.retry_at) = (StoreState::Ok, None);
        self.receipts.drain(..).for_each(|request| request.notify(true));
        let open = std::mem::take(&mut self.open);
        let mut inner = self.queue.lock();
        inner.status.state = StoreState::Ok;
        inner.status.stored_intervals += open.intervals;
        inner.status.stored_thread_rows += open.thread_rows;
        inner.status.last_commit_wall_ns = Some(wall_now_ns());
    }

    /// After an error: what the transaction held is rolled back, and the next attempt is made later.
    fn note_failure(&mut self, error: &StoreError) {
        self.open = OpenCounts::default();
        self.receipts.drain(..).for_each(|request| request.notify(false));
        self.retry_at = Some(Instant::now() + self.options.retry_every);
        let reason = error.with_causes();
        let state = match &self.state {
            _ if !error.is_no_space() => StoreState::Failed { reason: reason.clone() },
            // Another failed attempt: it has been full since the first.
            StoreState::Full { since_wall_ns, .. } => {
                StoreState::Full { since_wall_ns: *since_wall_ns, reason: reason.clone() }
            }
            _ => StoreState::Full { since_wall_ns: wall_now_ns(), reason: reason.clone() },
        };
        // Once a change of state, not once an attempt: a disk can be full for days.
        if self.state.name() != state.name() {
            log::warn!("storing stops, tried again every {:?}: {reason}", self.options.retry_every);
        }
        self.state = state;
        let mut inner = self.queue.lock();
        inner.status.state = self.state.clone();
        // Only those without a receipt: the others come again.
        for RolledBack { host, trust, intervals } in std::mem::take(&mut self.writer.losses.rolled_back) {
            inner.count_dropped(trust, host, intervals);
        }
    }
}

#[cfg(test)]
mod tests {
    use cpumon_model::{HostId, HostInfo, Interval, Trust};

    use super::*;
    use crate::queue::{Offer, Queued};

    #[test]
    fn a_transaction_ends_by_the_receipt_of_its_oldest_interval() {
        let dir = tempfile::tempdir().unwrap();
        let writer = Writer::open(&dir.path().join("s.sqlite"), &StoreOptions::default()).unwrap();
        let options = QueueOptions { commit_every: Duration::from_mins(1), ..QueueOptions::default() };
        let queue = Arc::new(WriterQueue::new(&options));
        let mut worker = Worker::new(writer, Arc::clone(&queue), options);
        for sequence in 1..=3_u8 {
            let interval = Interval { sequence: sequence.into(), ..Interval::default() };
            put(&queue, Trust::Local, &interval);
        }
        let mut batch = Vec::new();
        queue.lock().take(&mut batch);
        let late = Instant::now() + Duration::from_secs(30);
        worker.next_commit = late + Duration::from_mins(1);
        for entry in &batch {
            worker.handle(entry);
        }
        assert_eq!(worker.next_commit, batch[0].received + Duration::from_mins(1));
        assert_eq!(worker.open.intervals, 3);
        worker.end_batch(false, 0);
        assert!(worker.next_commit > batch[2].received + Duration::from_mins(1), "nothing is open");
    }

    #[test]
    fn strangers_that_waited_long_make_no_commit_due() {
        let dir = tempfile::tempdir().unwrap();
        let writer = Writer::open(&dir.path().join("s.sqlite"), &StoreOptions::default()).unwrap();
        let options = QueueOptions::default();
        let queue = Arc::new(WriterQueue::new(&options));
        let mut worker = Worker::new(writer, Arc::clone(&queue), options);
        let stranger = Interval { host: HostId([9; 16]), ..Interval::default() };
        put(&queue, Trust::Unauthenticated, &stranger);
        let mut batch = Vec::new();
        queue.lock().take(&mut batch);
        let before = Instant::now() + Duration::from_hours(1);
        worker.next_commit = before;
        // A flood leaves a long queue behind: with a commit for each batch, and so a wait for the disk, trusted hosts would wait.
        worker.handle(&batch[0]);
        assert_eq!((worker.next_commit, worker.open.intervals), (before, 1));
    }

    #[test]
    fn a_flush_waits_for_what_came_while_a_batch_was_handled() {
        let dir = tempfile::tempdir().unwrap();
        let writer = Writer::open(&dir.path().join("s.sqlite"), &StoreOptions::default()).unwrap();
        let options = QueueOptions::default();
        let queue = Arc::new(WriterQueue::new(&options));
        let mut worker = Worker::new(writer, Arc::clone(&queue), options);
        let take = |batch: &mut Vec<QueueEntry>| {
            let mut inner = queue.lock();
            inner.take(batch);
            inner.answered_flushes()
        };
        let mut batch = Vec::new();
        put(&queue, Trust::Local, &Interval { sequence: 1, ..Interval::default() });
        let flushes = take(&mut batch);
        let handle = WriterHandle { queue: Arc::clone(&queue) };
        let flusher = std::thread::spawn(move || {
            put(&handle.queue, Trust::Local, &Interval { sequence: 2, ..Interval::default() });
            handle.flush(Duration::from_mins(1))
        });
        while queue.lock().flushes_asked == 0 {
            std::thread::yield_now();
        }
        // The commit is due by time, with the first interval alone.
        worker.handle(&batch[0]);
        worker.end_batch(false, flushes);
        assert_eq!(queue.lock().flushes_done, 0, "the second interval waits");
        batch.clear();
        let flushes = take(&mut batch);
        worker.handle(&batch[0]);
        worker.end_batch(false, flushes);
        assert!(flusher.join().unwrap());
        assert_eq!(queue.lock().status.stored_intervals, 2);
    }

    fn put(queue: &WriterQueue, trust: Trust, interval: &Interval) {
        let info = HostInfo::default();
        let offer = Offer { info: &info, trust, loss: None, interval, gap: None, receipt: None };
        assert_eq!(queue.try_put(&offer), Queued::Yes);
    }
}
