//! The bounded queue in front of the writer thread. It copies the active rows of an interval into recycled memory, or counts
//! the interval as lost: receiving never waits for storing.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cpumon_model::{HostId, HostInfo, Interval, LossCounts, Trust};

use super::receipt::ReceiptRequest;
use super::status::StoreStatus;
use crate::options::QueueOptions;
use crate::time::wall_now_ns;
use crate::writer::{ActiveCopy, ListSchedule, LostByHost, ReportedGap};

/// Copies in the pool for reuse.
const MAX_POOLED: usize = 64;
/// Memory of a process row beside its own size: its share of names.
const NAMES_BYTES: usize = 128;

/// What is put into the queue.
#[derive(Debug)]
pub(super) struct Offer<'a> {
    pub(super) info: &'a HostInfo,
    pub(super) trust: Trust,
    /// Losses of the host so far; `None` where nothing travelled over a network.
    pub(super) loss: Option<&'a LossCounts>,
    pub(super) interval: &'a Interval,
    /// In place of the interval: a hole that the device reports.
    pub(super) gap: Option<ReportedGap>,
    pub(super) receipt: Option<ReceiptRequest>,
}

/// An interval that waits for the writer.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) info: Arc<HostInfo>,
    pub(super) trust: Trust,
    pub(super) loss: Option<LossCounts>,
    pub(super) copy: ActiveCopy,
    /// In place of the interval: a hole that the device reports.
    pub(super) gap: Option<ReportedGap>,
    pub(super) receipt: Option<ReceiptRequest>,
    pub(super) received_wall_ns: i64,
    pub(super) received: Instant,
    bytes: usize,
}

/// What both sides see.
#[derive(Debug, Default)]
pub(super) struct Inner {
    entries: VecDeque<Entry>,
    bytes: usize,
    pool: Vec<ActiveCopy>,
    /// With which intervals the rows of idle processes go along.
    lists: ListSchedule,
    infos: HashMap<HostId, Arc<HostInfo>>,
    /// Dropped intervals per host, cumulative.
    dropped: HashMap<HostId, u64>,
    /// What did not fit since the writer last asked.
    pub(super) lost: LostByHost,
    pub(super) status: StoreStatus,
    pub(super) is_stopping: bool,
    /// Someone waits for a commit of all that waits.
    pub(super) flush_wanted: bool,
    /// The writer thread has ended: nothing is taken any more.
    pub(super) has_ended: bool,
}

/// The queue and the two conditions on which its ends wait.
#[derive(Debug)]
pub(super) struct Queue {
    options: QueueOptions,
    inner: Mutex<Inner>,
    /// The writer has something to do.
    filled: Condvar,
    /// The writer has committed or failed.
    pub(super) batch_ended: Condvar,
}

impl Inner {
    /// Counts intervals of a host that will not be stored.
    pub(super) fn count_dropped(&mut self, host: HostId, intervals: u64) {
        *self.dropped.entry(host).or_default() += intervals;
        self.status.dropped_intervals += intervals;
    }

    /// Takes waiting intervals into `batch`, at most `limit`.
    pub(super) fn take(&mut self, limit: usize, batch: &mut Vec<Entry>) {
        let count = self.entries.len().min(limit);
        for entry in self.entries.drain(..count) {
            self.bytes -= entry.bytes;
            batch.push(entry);
        }
    }

    /// Gives the memory of handled intervals back.
    pub(super) fn recycle(&mut self, batch: &mut Vec<Entry>) {
        for entry in batch.drain(..) {
            // Beyond that, memory of a burst is given back.
            if self.pool.len() < MAX_POOLED {
                self.pool.push(entry.copy);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn info(&mut self, host: HostId, info: &HostInfo) -> Arc<HostInfo> {
        match self.infos.get(&host) {
            // All waiting intervals of a host share one description as long as it does not change.
            Some(known) if **known == *info => Arc::clone(known),
            _ => {
                let known = Arc::new(info.clone());
                self.infos.insert(host, Arc::clone(&known));
                known
            }
        }
    }
}

impl Queue {
    pub(super) fn new(options: &QueueOptions) -> Self {
        Self {
            options: options.clone(),
            inner: Mutex::default(),
            filled: Condvar::new(),
            batch_ended: Condvar::new(),
        }
    }

    /// The shared part; held for moments only. A panic of the other side leaves counts that are good enough to show.
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies the active rows of an interval into the queue. `false`: there is no space, which is counted unless the offer has
    /// a receipt.
    pub(super) fn try_put(&self, offer: &Offer<'_>) -> bool {
        let Offer { info, trust, loss, interval, gap, ref receipt } = *offer;
        // First of all: copying, and waiting for the lock, must not make the receipt later.
        let (received, received_wall_ns) = (Instant::now(), wall_now_ns());
        // Copied outside of the lock: the writer thread takes the lock for each batch.
        let (mut copy, with_idle) = {
            let mut inner = self.lock();
            (inner.pool.pop().unwrap_or_default(), inner.lists.is_due(interval, true))
        };
        copy.fill(interval, with_idle);
        let rows = &copy.interval;
        let bytes = size_of::<Entry>()
            + rows.threads.len() * size_of_val_of(&rows.threads)
            + rows.processes.len() * (size_of_val_of(&rows.processes) + NAMES_BYTES)
            + rows.cpus.len() * size_of_val_of(&rows.cpus);
        let mut inner = self.lock();
        // Bytes are counted as copied, with idle rows left out: a large host that idles takes little.
        let has_space = inner.entries.len() < self.options.max_intervals
            && inner.bytes + bytes <= self.options.max_bytes
            && !inner.has_ended;
        // With a receipt the sender still has it and offers it again: not a loss.
        if !has_space && receipt.is_some() {
            return false;
        }
        if !has_space {
            inner.count_dropped(interval.host, 1);
            inner.lost.add(interval, "queue full");
            return false;
        }
        let info = inner.info(interval.host, info);
        inner.bytes += bytes;
        let loss = loss.copied();
        inner.entries.push_back(Entry {
            info,
            trust,
            loss,
            copy,
            gap,
            receipt: receipt.clone(),
            received_wall_ns,
            received,
            bytes,
        });
        // Before the wakeup: the writer would only wait for the lock.
        drop(inner);
        self.filled.notify_one();
        true
    }

    /// Whether the queue is less than half full.
    pub(super) fn has_ample_space(&self) -> bool {
        let inner = self.lock();
        inner.entries.len() < self.options.max_intervals / 2
            && inner.bytes < self.options.max_bytes / 2
            && !inner.has_ended
    }

    /// Waits until there is something to take, the queue is to stop, or `timeout` has passed.
    pub(super) fn wait(&self, timeout: Duration) -> MutexGuard<'_, Inner> {
        let guard = self.lock();
        let waited = self.filled.wait_timeout_while(guard, timeout, |inner| {
            inner.entries.is_empty() && !inner.is_stopping && !inner.flush_wanted
        });
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Wakes the writer thread before its timeout.
    pub(super) fn wake(&self) {
        self.filled.notify_all();
    }

    /// Makes the writer store what waits, and end.
    pub(super) fn stop(&self) {
        self.lock().is_stopping = true;
        self.filled.notify_all();
    }

    /// Counts since the thread was started, and what waits now.
    pub(super) fn status(&self) -> StoreStatus {
        let inner = self.lock();
        StoreStatus {
            queued_intervals: inner.entries.len() as u64,
            queued_bytes: inner.bytes as u64,
            ..inner.status.clone()
        }
    }

    /// Dropped intervals of a host, cumulative.
    pub(super) fn dropped(&self, host: HostId) -> u64 {
        self.lock().dropped.get(&host).copied().unwrap_or(0)
    }
}

/// Size of an element of a list.
fn size_of_val_of<T>(_list: &[T]) -> usize {
    size_of::<T>()
}
