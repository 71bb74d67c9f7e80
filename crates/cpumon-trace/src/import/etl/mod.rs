//! `.etl`: what the Windows kernel's tracing (ETW) writes, as `xperf`, `wpr` and `logman` start it.
//!
//! A file is a sequence of buffers ([`buffer`]), each of one CPU and packed or not ([`unpack`]). They hold events ([`event`]), of which
//! those of the scheduler are read ([`cpumon_events::windows`]). [`index`] finds the order of the buffers and what is missing between them,
//! [`decoder`] reads them in this order.

mod buffer;
mod clock;
pub(crate) mod counts;
pub(crate) mod decoder;
mod event;
mod index;
mod unpack;
