//! What the events of the Windows kernel (ETW) add up to in a live session: accounts of threads, processes and CPUs as of an instant, which
//! complete a snapshot whose rows the system listed. No call of the system, so it is compiled everywhere and its tests run everywhere.
//!
//! [`Session`] takes events in nearly their order and puts them into it (`held`); `lives` knows which thread and process an id is now;
//! the states are those of [`cpumon_events::Tracker`]. `complete` brings the accounts and the rows of the system together.

mod complete;
mod lives;
mod session;
#[cfg(test)]
mod tests;

pub use session::{Counts, Record, Session};
