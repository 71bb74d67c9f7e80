//! [`StoreHandle`]: the store of a running receiver. Putting an interval never waits for the disk.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use cpumon_model::{BootId, ClockLine, HostId, HostInfo, HostStatus, Interval, Trust};
use cpumon_query::{DamageReport, HostRecord, seek, status};
use cpumon_store::{
    QueueOptions, Reader, ReceiptRequest, ReportedGap, StoreOptions, StoreState, WriterHandle, WriterThread,
};

use crate::ReceiverError;
use crate::hub::Past;

/// The store's writer thread and a reader for what was kept before this start.
#[derive(Debug)]
pub struct StoreHandle {
    path: PathBuf,
    queue_capacity: u64,
    handle: WriterHandle,
    thread: Mutex<Option<WriterThread>>,
    /// Opened at the first question.
    reader: Mutex<Option<Reader>>,
}

impl StoreHandle {
    /// Opens the store, making its directory if need be, and starts its writer thread.
    pub fn start(path: &Path, options: &StoreOptions) -> Result<Self, ReceiverError> {
        if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            cpumon_files::create_dir(dir)
                .map_err(|source| ReceiverError::Directory { path: dir.to_owned(), source })?;
        }
        let queue = QueueOptions::default();
        let thread = WriterThread::spawn(path, options, &queue).map_err(ReceiverError::Store)?;
        Ok(Self {
            path: path.to_owned(),
            queue_capacity: queue.max_intervals as u64,
            handle: thread.handle(),
            thread: Mutex::new(Some(thread)),
            reader: Mutex::default(),
        })
    }

    /// Path of the store's SQLite file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Queues an interval; if it is not taken, that is counted, and its host shows it.
    pub fn put(&self, status: &HostStatus, interval: &Interval) {
        // What is measured here comes over no network, so it has no losses to store.
        let loss = (status.trust != Trust::Local).then_some(&status.loss);
        self.handle.try_put(&status.info, status.trust, loss, interval);
    }

    /// Queues an interval that its sender keeps until `receipt` is settled; false: no space now.
    pub fn put_with_receipt(
        &self,
        status: &HostStatus,
        interval: &Interval,
        receipt: ReceiptRequest,
    ) -> bool {
        self.handle.try_put_with_receipt(&status.info, status.trust, &status.loss, interval, receipt)
    }

    /// Queues a hole that a device reports, likewise.
    pub fn put_gap(&self, info: &HostInfo, trust: Trust, gap: ReportedGap, receipt: ReceiptRequest) -> bool {
        self.handle.try_put_gap(info, trust, gap, receipt)
    }

    /// How the intervals of a boot were placed before this start. A store that cannot be read is logged, and counts as empty.
    pub fn clock_line(&self, host: HostId, boot: BootId) -> ClockLine {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        if reader.is_none() {
            // A failure is not remembered: the next boot that is asked for tries again.
            *reader =
                Reader::open(&self.path).inspect_err(|error| log::warn!("{}", error.with_causes())).ok();
        }
        let line = reader.as_ref().map(|reader| reader.clock_line(host, boot));
        let known =
            line.and_then(|line| line.inspect_err(|error| log::warn!("{}", error.with_causes())).ok());
        known.unwrap_or_default()
    }

    /// Whether the queue is less than half full.
    pub fn has_ample_space(&self) -> bool {
        self.handle.has_ample_space()
    }

    /// Whether intervals reach the file.
    pub fn is_storing(&self) -> bool {
        self.handle.status().state == StoreState::Ok
    }

    /// Intervals of a host that were thrown away.
    pub fn dropped(&self, host: HostId) -> u64 {
        self.handle.dropped(host)
    }

    /// State, queue and size of the store now.
    pub fn status(&self) -> status::Store {
        let status = self.handle.status();
        let (state, error) = match status.state {
            StoreState::Ok => (status::StoreState::Ok, String::new()),
            StoreState::Full { reason, .. } | StoreState::Failed { reason } => {
                (status::StoreState::Failing, reason)
            }
        };
        status::Store {
            path: self.path.display().to_string(),
            state,
            error,
            queue: status.queued_intervals,
            queue_capacity: self.queue_capacity,
            dropped: status.dropped_intervals,
            refused: status.refused_intervals,
            written: status.stored_intervals,
            size_bytes: size_on_disk(&self.path),
            clock: status.clock_doubt.map(|doubt| doubt.to_string()).unwrap_or_default(),
            // Who answers questions fills it in.
            damage: DamageReport::default(),
        }
    }

    /// Writes what waits and closes the store.
    pub fn finish(&self) -> Result<(), ReceiverError> {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return Ok(()) };
        match thread.stop().state {
            StoreState::Ok => Ok(()),
            StoreState::Full { reason, .. } | StoreState::Failed { reason } => {
                Err(ReceiverError::NotStored(reason))
            }
        }
    }
}

/// The file and its write-ahead log.
fn size_on_disk(path: &Path) -> u64 {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |meta| meta.len());
    size(path) + size(Path::new(&log))
}

/// The hosts of the store. None, where it cannot be read: the writer says why.
pub fn hosts_of_store(path: Option<&Path>) -> Vec<HostRecord> {
    let reader = path.and_then(|path| Reader::open(path).ok());
    reader.and_then(|reader| reader.hosts().ok()).unwrap_or_default()
}

/// Answers for what the hub has no longer in memory. The store is opened at the first question.
pub fn past_of_store(path: Option<PathBuf>) -> Past {
    let Some(path) = path else { return Box::new(|_, _| Ok(None)) };
    // A reader of its own, so that a slow question of a frontend does not delay `clock_line`.
    let reader: Mutex<Option<Reader>> = Mutex::new(None);
    Box::new(move |host, to| {
        let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
        if reader.is_none() {
            *reader = Some(Reader::open(&path).map_err(|error| error.with_causes())?);
        }
        let Some(reader) = reader.as_ref() else { return Ok(None) };
        seek(reader, host, to).map_err(|error| error.with_causes())
    })
}
