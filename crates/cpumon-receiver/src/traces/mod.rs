//! The trace store: context-switch traces that devices send beside their records, as files beside the store. Sessions hand over
//! what arrives ([`SentTrace`], by the rules of docs/connection-format.md); a thread of its own writes, checks, numbers and deletes,
//! so that no record waits for its disk.

mod files;
mod job;
mod requests;
mod storage;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use cpumon_model::HostId;
use cpumon_query::status;
use cpumon_wire::connection::{AttachmentState, ByeReason, Message, TraceAnswer};

use self::job::{SlotState, TraceJob, TraceSlot};
use self::requests::Intake;
use self::storage::Storage;
use crate::ReceiverError;
use crate::connection::{End, bye};
use crate::counts::SharedCounts;

pub(crate) use self::job::OfferedTrace;
pub use self::job::TraceLimits;
pub(crate) use self::requests::OwnTraces;
pub use self::requests::{AskError, Requests, own_traces_dir};

/// Traces of all hosts at one time; beyond them the host that has most loses its oldest.
const MAX_TRACES: usize = 2_000;
/// Bytes of a trace that may be on the way: an eighth of the window for records (docs/connection-format.md).
const WINDOW_BYTES: u64 = (1 << 20) / 8;
/// References to the slot of a trace: each piece on the way has one, beside some 100 bytes of memory. Pieces of agents fill the window with 8.
const MAX_SLOT_REFERENCES: usize = 1 << 10;

/// The sending end of the trace store's thread. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TraceStore {
    jobs: Sender<TraceJob>,
    pub(crate) counts: Arc<SharedCounts<status::Traces>>,
    pub(crate) requests: Arc<Requests>,
}

pub(crate) struct TraceStoreThread {
    storage: Storage,
    /// Takes in traces of this machine, if it is recorded.
    intake: Option<Intake>,
    jobs: Receiver<TraceJob>,
}

impl TraceStore {
    /// Opens the directory beside the store, which a writer has opened before. `own`: what records this machine.
    pub(crate) fn open(
        store: &Path,
        limits: TraceLimits,
        own: Option<Arc<OwnTraces>>,
    ) -> Result<(Self, TraceStoreThread), ReceiverError> {
        let (jobs, receiver) = channel();
        let counts = status::Traces { max_bytes: limits.bytes, ..status::Traces::default() };
        let counts = Arc::new(SharedCounts::new(counts));
        let storage = Storage::open(store, limits, MAX_TRACES, Arc::clone(&counts))?;
        let traces = Self { jobs, counts, requests: Arc::default() };
        Ok((traces, TraceStoreThread { storage, intake: own.map(Intake::new), jobs: receiver }))
    }

    /// Offers a trace of a device to the thread. The slot shows the outcome.
    pub(crate) fn offer(&self, offered: OfferedTrace) -> Arc<TraceSlot> {
        let slot = Arc::new(TraceSlot::default());
        self.send(TraceJob::Offer(offered, Arc::clone(&slot)));
        slot
    }

    pub(crate) fn piece(&self, slot: &Arc<TraceSlot>, offset: u64, bytes: &[u8]) {
        self.send(TraceJob::Piece { slot: Arc::clone(slot), offset, bytes: bytes.to_vec() });
    }

    fn send(&self, job: TraceJob) {
        // The thread ends with the receiver only; then nothing is answered any more.
        let _ = self.jobs.send(job);
    }
}

impl TraceStoreThread {
    /// Works until all senders are gone or `stop` is set.
    pub(crate) fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
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

/// The attachments of one connection. Dropping it ends the attachment under way; the bytes that arrived stay for the next connection.
#[derive(Debug)]
pub(crate) struct SentTrace {
    traces: TraceStore,
    /// The host for which the device's traces are stored.
    pub(crate) host: HostId,
    number: u32,
    current: Option<Current>,
}

#[derive(Debug)]
struct Current {
    slot: Arc<TraceSlot>,
    bytes: u64,
    /// Offset at which the next piece begins.
    next: u64,
    /// The state that was last reported to the device.
    sent: Option<SlotState>,
}

impl SentTrace {
    pub(crate) fn new(traces: TraceStore, host: HostId, knows_requests: bool) -> Self {
        traces.requests.connected(host, knows_requests);
        Self { traces, host, number: 0, current: None }
    }

    pub(crate) fn offer(&mut self, number: u32, offered: OfferedTrace) -> Result<(), End> {
        if number <= self.number {
            return Err(wrong("the number of an attachment comes again"));
        }
        // One question at a time, so that offers cost no more than their answers.
        if self.current.as_ref().is_some_and(|current| current.sent.is_none()) {
            return Err(wrong("an attachment is offered before the last one was answered"));
        }
        self.abandon();
        self.number = number;
        let bytes = offered.bytes;
        self.current = Some(Current { slot: self.traces.offer(offered), bytes, next: 0, sent: None });
        Ok(())
    }

    pub(crate) fn piece(&mut self, number: u32, offset: u64, bytes: &[u8]) -> Result<(), End> {
        // Sent before the device knew that the attachment is not taken any more.
        let Some(current) = self.current.as_mut().filter(|_| number == self.number) else { return Ok(()) };
        if current.sent.is_none() {
            return Err(wrong("a part of an attachment before it was asked for"));
        }
        let end = offset.saturating_add(bytes.len() as u64);
        if bytes.is_empty() || offset != current.next || end > current.bytes {
            return Err(wrong("a part of an attachment that is not the next one"));
        }
        let state = current.slot.state();
        if state.state != Some(AttachmentState::Taking) {
            return Ok(());
        }
        if end.saturating_sub(state.received) > WINDOW_BYTES {
            return Err(wrong("more of an attachment than the window allows"));
        }
        if Arc::strong_count(&current.slot) >= MAX_SLOT_REFERENCES {
            return Err(wrong("more parts of an attachment on the way than the receiver holds"));
        }
        current.next = end;
        self.traces.piece(&current.slot, offset, bytes);
        Ok(())
    }

    pub(crate) fn answered(&self, token: u64, answer: TraceAnswer) {
        self.traces.requests.answered(self.host, token, answer);
    }

    /// Queues new messages for the device. True: there may be more soon.
    pub(crate) fn work(&mut self, out: &mut Vec<u8>) -> bool {
        if let Some(token) = self.traces.requests.take(self.host) {
            Message::TakeTrace { token }.push(out);
        }
        let Some(current) = &mut self.current else { return false };
        let state = current.slot.state();
        let Some(answer) = state.state else { return true };
        if current.sent.is_none() {
            current.next = state.received;
        }
        if current.sent.as_ref() != Some(&state) {
            let (number, received, text) = (self.number, state.received, state.text.as_str());
            Message::Attachment { number, state: answer, received, text }.push(out);
            current.sent = Some(state);
        }
        if answer != AttachmentState::Taking {
            self.current = None;
        }
        self.current.is_some()
    }

    fn abandon(&mut self) {
        if let Some(current) = self.current.take() {
            self.traces.send(TraceJob::Abandon(current.slot));
        }
    }
}

fn wrong(text: &str) -> End {
    bye(ByeReason::Protocol, text)
}

impl Drop for SentTrace {
    fn drop(&mut self) {
        self.abandon();
        self.traces.requests.disconnected(self.host);
    }
}

#[cfg(test)]
mod tests;
