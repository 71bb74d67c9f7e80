//! The receiver: takes in what devices send and this machine measures. In: datagrams, TLS connections, a local sampler. Out:
//! intervals of hosts in a live [`hub`] and in the store, and counts of everything that was lost or refused.
//!
//! # Overview
//! [`Receiver`] runs everything by a [`Plan`]. [`demux`] makes intervals of datagrams, per host. `datagrams` is the thread that
//! receives them, `connection` takes the records of enrolled devices over TLS. [`enrolment`] decides
//! who is let in, [`discovery`] answers devices that search. `storing` hands intervals to the store and to the [`hub`].
//!
//! ```text
//! receiving thread ─┐                  ┌─▶ store's writer thread (bounded queue)
//! devices' threads ─┼─▶ Sink ──────────┤
//! measuring thread ─┘  (never waits)   └─▶ hub ─▶ HTTP thread, terminal
//! ```

#![allow(missing_docs, reason = "an inner crate: names that say everything have no doc")]

mod connection;
pub mod counts;
mod datagrams;
pub mod demux;
pub mod discovery;
pub mod enrolment;
mod error;
#[cfg(test)]
#[path = "../../../testing/eventually.rs"]
mod eventually;
pub mod hub;
mod measure;
mod process;
mod receiver;
pub mod status;
mod storing;
mod traces;

pub use datagrams::KeyPlan;
pub use demux::{
    Demux, DemuxOptions, DemuxTotals, MemoryLimits, RejectCounts, RejectKind, Rejected, SourceRate,
};
pub use error::{AnyError, ReceiverError};
pub use receiver::{Frontend, Plan, Receiver, TlsPlan};
pub use traces::{AskError, Requests, TraceLimits, own_traces_dir};

/// What a thread that panicked left locked is used all the same: at worst a count is wrong.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Now on this machine's wall clock, ns since the UNIX epoch.
fn wall_ns() -> i64 {
    cpumon_agent::now().wall_ns
}

/// Now on this machine's wall clock, s since the UNIX epoch.
fn wall_s() -> u64 {
    u64::try_from(wall_ns() / 1_000_000_000).unwrap_or(0)
}

/// Time since this machine started, s: no one sets it.
fn boot_s() -> u64 {
    cpumon_agent::now().boot_ns / 1_000_000_000
}

fn mono_ns() -> u64 {
    cpumon_agent::now().mono_ns
}
