//! Events of a scheduler, as a recorder or a live session hands them out, and the state machine that follows threads and CPUs by them.
//!
//! # Overview
//! [`windows`] decodes the events of the Windows kernel. A [`Tracker`] turns [`SchedEvent`]s of any system into spans of states. A
//! [`SpanSink`] takes the spans: an analysis of a trace, or [`Accounts`], with the sums that a live source counts. Pure: bytes and times
//! in, no file, no clock and no system call.

mod accounts;
mod bytes;
mod event;
mod interrupts;
mod slots;
mod spans;
mod threads;
mod tracker;
pub mod windows;

pub use accounts::{Accounts, LineTimes, ThreadAccount};
pub use bytes::{Bytes, NAME_BYTES, Name, Order, ProgramName, name, up_to_zero};
pub use event::{Interrupt, Leaves, SchedEvent, SchedEventKind, TraceGroup, TraceIdentity, TraceTask};
pub use slots::{Numbers, Slots, reserve_some};
pub use spans::{CpuSpan, CpuState, InterruptSpan, RecentWakers, SpanSink, ThreadSpan, ThreadState, Wakeup};
pub use tracker::Tracker;
