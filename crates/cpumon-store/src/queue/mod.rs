//! The bounded queue in front of a [`Writer`](crate::Writer) that runs in a thread of its own: receiving continues while the disk is slow,
//! full or gone. The active rows of an interval are copied into recycled memory, or the interval is counted as lost. Intervals from
//! trusted hosts go first, and have at least half of the space.

mod share;
#[cfg(test)]
mod tests;
mod thread;

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cpumon_model::{HostId, HostInfo, Interval, LossCounts, Trust};

use self::share::{Amount, BootLimit, QueueEntry, QueueShare, bytes_of};
pub use self::share::{Receipt, ReceiptRequest};
pub use self::thread::{WriterHandle, WriterThread};
use crate::reader::Gap;
use crate::writer::{ActiveCopy, ClockDoubt, LostByHost, has_all_processes, knows_resting, wall_now_ns};

/// Copies in the pool for reuse, and their memory.
const POOL: Amount = Amount { intervals: 64, bytes: 4 << 20 };
/// Work between two readings of the clock. Bytes are limited too: a few intervals can be as much work as a thousand others.
const BATCH: Amount = Amount { intervals: 256, bytes: 4 << 20 };
/// Divisor of [`BATCH`] for the least that untrusted hosts get of each batch: trusted hosts go first, but not alone.
const STRANGERS_PART_OF_BATCH: usize = 8;
/// Divisor of the queue's limits for the most that untrusted hosts may fill.
const STRANGERS_PART: usize = 2;
/// Most memory of untrusted hosts in the queue, bytes: some seconds of 20 hosts with 1,000 active threads each.
const STRANGERS_BYTES: usize = 16 << 20;

/// Settings of the writer thread and its queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    pub max_intervals: usize,
    pub max_bytes: usize,
    /// Longest time from the receipt of an interval to the commit that puts it into the file, while the disk is fast enough.
    pub commit_every: Duration,
    /// Time between attempts to store while there is no space.
    pub retry_every: Duration,
    /// Time that maintenance (compaction, retention) may take between two commits.
    pub maintain_budget: Duration,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            max_intervals: 65_536,
            max_bytes: 256 << 20,
            commit_every: Duration::from_millis(500),
            retry_every: Duration::from_secs(5),
            maintain_budget: Duration::from_millis(100),
        }
    }
}

/// Health of a store, for people: a full disk stops storing but not showing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StoreState {
    #[default]
    Ok,
    /// No space: the disk is full, a quota is reached, or it cannot be written. Tried again every few seconds.
    Full {
        /// Since when, ns since the epoch on this machine's clock.
        since_wall_ns: i64,
        reason: String,
    },
    /// Another error. Tried again every few seconds.
    Failed { reason: String },
}

impl StoreState {
    /// The stable name (API, `cpumon status --json`).
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Full { .. } => "full",
            Self::Failed { .. } => "failed",
        }
    }
}

/// Counts of a writer thread since it was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStatus {
    pub state: StoreState,
    pub queued_intervals: u64,
    pub queued_bytes: u64,
    pub stored_intervals: u64,
    pub stored_thread_rows: u64,
    /// Intervals that the store had already.
    pub duplicate_intervals: u64,
    /// Intervals thrown away: the queue was full, or the store could not be written.
    pub dropped_intervals: u64,
    /// Intervals that were not taken: hosts that are not trusted began boots too often. No gap is recorded for them.
    pub refused_intervals: u64,
    /// When the newest commit ended, ns since the epoch on this machine's clock; `None` before the first.
    pub last_commit_wall_ns: Option<i64>,
    /// This machine's clock cannot be right, so nothing is deleted by age.
    pub clock_doubt: Option<ClockDoubt>,
}

#[derive(Debug)]
struct Offer<'a> {
    info: &'a HostInfo,
    trust: Trust,
    /// Losses of the host so far; `None` where nothing travelled over a network.
    loss: Option<&'a LossCounts>,
    interval: &'a Interval,
    /// A hole that the device reports, instead of the interval.
    gap: Option<Gap>,
    receipt: Option<ReceiptRequest>,
}

/// What became of an interval that was offered to the writer thread.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Queued {
    Yes,
    NoSpace,
    /// Its host, or all hosts together that are not trusted, began too many boots.
    TooManyBoots,
}

/// State of the queue that both ends see.
#[derive(Debug, Default)]
struct QueueState {
    trusted: QueueShare,
    strangers: QueueShare,
    boots: BootLimit,
    pool: Vec<ActiveCopy>,
    pool_bytes: usize,
    /// What did not fit since the writer last asked.
    lost: LostByHost,
    status: StoreStatus,
    is_stopping: bool,
    /// How often a commit of all that waits was asked for, and how many of these requests are done.
    flushes_asked: u64,
    flushes_done: u64,
    /// The writer thread has ended: nothing is taken any more.
    has_ended: bool,
}

/// The queue and the two conditions on which its ends wait.
#[derive(Debug)]
struct WriterQueue {
    /// The most that may wait.
    limit: Amount,
    started: Instant,
    inner: Mutex<QueueState>,
    /// The writer has something to do.
    filled: Condvar,
    /// The writer has committed or failed.
    batch_ended: Condvar,
}

impl QueueState {
    /// Counts intervals of a host that will not be stored.
    fn count_dropped(&mut self, trust: Trust, host: HostId, intervals: u64) {
        self.share(trust).count_dropped(host, intervals);
        self.status.dropped_intervals += intervals;
    }

    /// Takes what waits into `batch`: of trusted hosts first, in the order in which it came.
    fn take(&mut self, batch: &mut Vec<QueueEntry>) {
        let taken = self.trusted.take(BATCH, batch);
        let left = BATCH.less(taken).or_at_least(BATCH.part(STRANGERS_PART_OF_BATCH));
        self.strangers.take(left, batch);
    }

    /// The requests for a flush that a commit of all that was taken so far answers: none while something waits, and none that comes later.
    fn answered_flushes(&self) -> u64 {
        if self.is_empty() { self.flushes_asked } else { self.flushes_done }
    }

    /// Gives the memory of handled intervals, which are empty, back.
    fn recycle(&mut self, batch: &mut Vec<QueueEntry>) {
        for entry in batch.drain(..) {
            let bytes = entry.copy.capacity_bytes();
            let pooled = Amount { intervals: self.pool.len(), bytes: self.pool_bytes };
            // Beyond that, memory of a burst is given back.
            if pooled.has_space(bytes, POOL) {
                self.pool_bytes += bytes;
                self.pool.push(entry.copy);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.amount() == Amount::default()
    }

    fn amount(&self) -> Amount {
        self.trusted.amount().plus(self.strangers.amount())
    }

    fn share(&mut self, trust: Trust) -> &mut QueueShare {
        if trust.is_trusted() { &mut self.trusted } else { &mut self.strangers }
    }

    /// Whether one more interval of `bytes` bytes may wait.
    fn has_space(&self, trust: Trust, bytes: usize, limit: Amount) -> bool {
        let strangers = self.strangers.amount();
        let theirs = limit.part(STRANGERS_PART).with_bytes_below(STRANGERS_BYTES);
        let fits = trust.is_trusted() || strangers.has_space(bytes, theirs);
        fits && self.amount().has_space(bytes, limit) && !self.has_ended
    }

    /// Whether the boot of an interval is stored; if not, the interval is counted.
    fn takes_boot(&mut self, trust: Trust, interval: &Interval, now_ns: u64) -> bool {
        let is_taken = trust.is_trusted() || self.boots.takes(interval.host, interval.boot, now_ns);
        if !is_taken {
            self.strangers.count_dropped(interval.host, 1);
            self.status.refused_intervals += 1;
        }
        is_taken
    }

    /// Counts what does not fit. With a receipt the sender still has it and offers it again: not a loss.
    fn refuse(&mut self, offer: &Offer<'_>) -> Queued {
        if offer.receipt.is_none() {
            self.count_dropped(offer.trust, offer.interval.host, 1);
            self.lost.add(offer.trust, offer.interval, "queue full");
        }
        Queued::NoSpace
    }

    /// A copy to be filled, and whether the rows of idle processes go along.
    fn begin_copy(&mut self, trust: Trust, interval: &Interval, can_list: bool) -> (ActiveCopy, bool) {
        let copy = self.pool.pop().unwrap_or_default();
        self.pool_bytes -= copy.capacity_bytes();
        (copy, self.share(trust).lists.is_due(interval, can_list))
    }
}

impl WriterQueue {
    fn new(options: &QueueOptions) -> Self {
        Self {
            limit: Amount { intervals: options.max_intervals, bytes: options.max_bytes },
            started: Instant::now(),
            inner: Mutex::default(),
            filled: Condvar::new(),
            batch_ended: Condvar::new(),
        }
    }

    /// The shared part; held for moments only. A panic of the other side leaves counts that are good enough to show.
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies the active rows of an interval into the queue. An interval without space is counted, unless the offer has a receipt: then
    /// its sender still has it. An interval of a refused boot is always counted.
    fn try_put(&self, offer: &Offer<'_>) -> Queued {
        self.try_put_at(offer, Instant::now())
    }

    /// [`WriterQueue::try_put`] of an interval that was received at this moment.
    fn try_put_at(&self, offer: &Offer<'_>, received: Instant) -> Queued {
        let Offer { info, trust, loss, interval, ref gap, ref receipt } = *offer;
        // First of all: copying, and waiting for the lock, must not make the receipt later.
        let received_wall_ns = wall_now_ns();
        let since_start = received.saturating_duration_since(self.started);
        let now_ns = u64::try_from(since_start.as_nanos()).unwrap_or(u64::MAX);
        let can_list = has_all_processes(interval) && knows_resting(interval);
        let mut inner = self.lock();
        if !inner.takes_boot(trust, interval, now_ns) {
            return Queued::TooManyBoots;
        }
        // Before the copy, which a flood would have made in vain.
        if !inner.has_space(trust, size_of::<QueueEntry>(), self.limit) {
            return inner.refuse(offer);
        }
        let (mut copy, with_idle) = inner.begin_copy(trust, interval, can_list);
        drop(inner);
        // Copied outside of the lock: the writer thread takes the lock for each batch.
        copy.fill(interval, with_idle);
        // Bytes are counted as copied, with idle rows left out: a large host that idles takes little.
        let bytes = bytes_of(&copy, info);
        let mut inner = self.lock();
        if !inner.has_space(trust, bytes, self.limit) {
            return inner.refuse(offer);
        }
        let share = inner.share(trust);
        let info = share.info(interval.host, info);
        share.push(QueueEntry {
            info,
            trust,
            loss: loss.copied(),
            copy,
            gap: gap.clone(),
            receipt: receipt.clone(),
            received_wall_ns,
            received,
            bytes,
        });
        // Before the wakeup: the writer would only wait for the lock.
        drop(inner);
        self.filled.notify_one();
        Queued::Yes
    }

    /// Waits until there is something to take, the queue is to stop, or `timeout` has passed.
    fn wait(&self, timeout: Duration) -> MutexGuard<'_, QueueState> {
        let guard = self.lock();
        let waited = self.filled.wait_timeout_while(guard, timeout, |inner| {
            inner.is_empty() && !inner.is_stopping && inner.flushes_asked == inner.flushes_done
        });
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Makes the writer store what waits, and end.
    fn stop(&self) {
        self.lock().is_stopping = true;
        self.filled.notify_all();
    }
}
