//! `.etl`: what the Windows kernel's tracing (ETW) writes, as `xperf`, `wpr` and `logman` start it.

mod buffer;
mod clock;
mod event;
mod kernel;
mod unpack;
