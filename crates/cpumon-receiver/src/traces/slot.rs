//! [`Slot`]: what the shelf has done with a trace that is being sent, for the session that answers its device.

use std::sync::{Mutex, PoisonError};

use cpumon_wire::connection::AttachmentState;

/// How far a trace is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlotState {
    /// `None`: not answered yet.
    pub(crate) state: Option<AttachmentState>,
    /// Bytes that are written.
    pub(crate) received: u64,
    /// Why it is not taken.
    pub(crate) text: String,
}

/// Shared by a session and the shelf's thread.
#[derive(Debug)]
pub(crate) struct Slot(Mutex<SlotState>);

impl Default for Slot {
    fn default() -> Self {
        Self(Mutex::new(SlotState { state: None, received: 0, text: String::new() }))
    }
}

impl Slot {
    pub(crate) fn state(&self) -> SlotState {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set(&self, state: AttachmentState, received: u64, text: &str) {
        let new = SlotState { state: Some(state), received, text: text.to_owned() };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = new;
    }
}
