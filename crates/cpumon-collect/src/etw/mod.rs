//! Accounts of threads, processes and CPUs at an instant, from the events of the Windows kernel (ETW) in a live session. They complete
//! a snapshot whose rows the system listed. Nothing here calls the system, so it is compiled and tested everywhere.
//!
//! [`SessionAccounts`] takes events in nearly their order and puts them into it (`held`); `lives` knows which thread and process an id is now;
//! the states are those of [`cpumon_events::Tracker`]. `complete` brings the accounts and the rows of the system together.

mod complete;
mod lives;
mod session;
#[cfg(test)]
mod tests;

pub use session::{Record, SessionAccounts, SessionCounts};
