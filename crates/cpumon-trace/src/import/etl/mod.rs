//! `.etl`: what the Windows kernel's tracing (ETW) writes, as `xperf`, `wpr` and `logman` start it.

mod kernel;
mod unpack;
