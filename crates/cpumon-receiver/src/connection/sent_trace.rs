//! [`SentTrace`]: the trace that a device is sending on its connection, by the rules of docs/connection-format.md.

use std::sync::Arc;

use cpumon_model::HostId;
use cpumon_wire::connection::{AttachmentState, ByeReason, TraceAnswer};

use crate::tls::{Acks, Refusal};
use crate::traces::{OfferedTrace, Shelf, Slot, SlotState};

/// Bytes of a trace that may be on the way: an eighth of the window for records (docs/connection-format.md).
const WINDOW_BYTES: u64 = (1 << 20) / 8;

/// The attachments of one connection. Dropping it ends the one under way; what has arrived of it stays for the next connection.
#[derive(Debug)]
pub(crate) struct SentTrace {
    shelf: Shelf,
    host: HostId,
    /// Of the last offer.
    number: u32,
    current: Option<Current>,
}

#[derive(Debug)]
struct Current {
    slot: Arc<Slot>,
    bytes: u64,
    /// Where the next piece begins.
    next: u64,
    /// What the device knows.
    sent: Option<SlotState>,
}

fn protocol(text: &str) -> Refusal {
    Refusal { reason: ByeReason::Protocol, text: text.to_owned() }
}

impl SentTrace {
    pub(crate) fn new(shelf: Shelf, host: HostId, knows_requests: bool) -> Self {
        shelf.requests().connected(host, knows_requests);
        Self { shelf, host, number: 0, current: None }
    }

    /// The host that its traces are stored for.
    pub(crate) fn host(&self) -> HostId {
        self.host
    }

    pub(crate) fn offer(&mut self, number: u32, offered: OfferedTrace) -> Result<(), Refusal> {
        if number <= self.number {
            return Err(protocol("the number of an attachment comes again"));
        }
        // One question at a time, so that offers cost no more than their answers.
        if self.current.as_ref().is_some_and(|current| current.sent.is_none()) {
            return Err(protocol("an attachment is offered before the last one was answered"));
        }
        self.abandon();
        self.number = number;
        let bytes = offered.bytes;
        self.current = Some(Current { slot: self.shelf.offer(offered), bytes, next: 0, sent: None });
        Ok(())
    }

    pub(crate) fn piece(&mut self, number: u32, offset: u64, bytes: &[u8]) -> Result<(), Refusal> {
        // Sent before the device knew that the attachment is not taken any more.
        let Some(current) = self.current.as_mut().filter(|_| number == self.number) else { return Ok(()) };
        if current.sent.is_none() {
            return Err(protocol("a part of an attachment before it was asked for"));
        }
        let end = offset.saturating_add(bytes.len() as u64);
        if bytes.is_empty() || offset != current.next || end > current.bytes {
            return Err(protocol("a part of an attachment that is not the next one"));
        }
        let state = current.slot.state();
        if state.state != Some(AttachmentState::Taking) {
            return Ok(());
        }
        if end.saturating_sub(state.received) > WINDOW_BYTES {
            return Err(protocol("more of an attachment than the window allows"));
        }
        current.next = end;
        self.shelf.piece(&current.slot, offset, bytes);
        Ok(())
    }

    pub(crate) fn answered(&self, token: u64, answer: TraceAnswer) {
        self.shelf.requests().answered(self.host, token, answer);
    }

    /// Sends what is new. True: there may be more soon.
    pub(crate) fn work(&mut self, acks: &mut Acks<'_>) -> bool {
        if let Some(token) = self.shelf.requests().take(self.host) {
            acks.take_trace(token);
        }
        let Some(current) = &mut self.current else { return false };
        let state = current.slot.state();
        let Some(of) = state.state else { return true };
        if current.sent.is_none() {
            current.next = state.received;
        }
        if current.sent.as_ref() != Some(&state) {
            acks.attachment(self.number, of, state.received, &state.text);
            current.sent = Some(state);
        }
        if of != AttachmentState::Taking {
            self.current = None;
        }
        self.current.is_some()
    }

    fn abandon(&mut self) {
        if let Some(current) = self.current.take() {
            self.shelf.abandon(&current.slot);
        }
    }
}

impl Drop for SentTrace {
    fn drop(&mut self) {
        self.abandon();
        self.shelf.requests().disconnected(self.host);
    }
}
