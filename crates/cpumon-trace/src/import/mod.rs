//! Traces of other recorders, read as if they were our own.
//!
//! Each format has a decoder, which gives what its file says with thread ids, out of order. `imported` sorts that, numbers the
//! tasks and hands out the events. No size in a file is believed before it is checked: memory is bounded by the limits of
//! `held`, `numbering` and the decoders, not by what a file announces.

pub(crate) mod any;
mod bytes;
mod decoder;
pub(crate) mod etl;
mod formats;
mod held;
pub(crate) mod imported;
mod numbering;
mod open_interrupts;
pub(crate) mod perf;
pub(crate) mod perfetto;
pub(crate) mod trace_dat;
mod tracepoints;
mod tracing_data;

/// The thread of unknown time in our Perfetto traces: above the kernel's largest id.
pub const UNKNOWN_TID: u32 = (1 << 23) - 1;
