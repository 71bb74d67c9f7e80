//! Protocol v1: the datagrams of the original programs (2012), byte for byte, in both directions. Layout:
//! docs/wire-format.md.

mod assembler;
mod codec;
mod sets;

pub use assembler::{Assembler, AssemblerLimits, SetCounts};
pub use codec::{decode, encode};
pub use sets::{SetEncoder, SetReport};

/// The end-of-transfer datagram: these 8 bytes and no other.
pub const END_OF_TRANSFER: [u8; 8] = [0x01, 0x24, 0x15, 0x40, 0x52, 0x01, 0x24, 0x05];

/// Length of a process datagram without its name and threads, bytes.
pub const PROCESS_BYTES: usize = 36;

/// Length of one thread entry, bytes.
pub const THREAD_BYTES: usize = 36;

/// Longest datagram that an original receiver takes, bytes (its receive buffer).
pub const MAX_ORIGINAL_DATAGRAM: usize = 32_768;

/// Ticks (100 ns) from 0001-01-01 to the UNIX epoch.
pub const UNIX_EPOCH_TICKS: i64 = 621_355_968_000_000_000;

/// A v1 datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Datagram {
    /// One process and its threads over an interval.
    Process(ProcessDatagram),
    /// The set is complete.
    EndOfTransfer,
}

/// One process over an interval, as the original sends it. Times are deltas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProcessDatagram {
    /// Process name; what is no UTF-8 arrives as U+FFFD.
    pub name: String,
    /// End of the interval on the device's clock: 100 ns ticks since 0001-01-01, device local time, no zone.
    pub timestamp_ticks: i64,
    /// Length of the interval, ms.
    pub duration_ms: u32,
    /// Kernel time (system time in our words) in the interval, ms.
    pub kernel_ms: i64,
    /// User time in the interval, ms.
    pub user_ms: i64,
    /// Process id.
    pub process_id: u32,
    /// Its threads.
    pub threads: Vec<ThreadEntry>,
}

/// One thread over an interval.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ThreadEntry {
    /// Process id of the owner; the original repeats the datagram's.
    pub owner_process_id: u32,
    /// Kernel time in the interval, ms.
    pub kernel_ms: i64,
    /// User time in the interval, ms.
    pub user_ms: i64,
    /// Thread id.
    pub thread_id: u32,
    /// Length of the interval, ms; the original repeats the datagram's.
    pub duration_ms: u32,
    /// End of the interval in ticks; the original repeats the datagram's.
    pub timestamp_ticks: i64,
}

/// A wall-clock time as v1 ticks in local time.
///
/// `utc_offset_s`: local time less UTC, seconds. Times longer than ticks can hold saturate.
#[must_use]
pub fn ticks_from_wall(wall_ns: i64, utc_offset_s: i32) -> i64 {
    wall_ns
        .div_euclid(100)
        .saturating_add(UNIX_EPOCH_TICKS)
        .saturating_add(i64::from(utc_offset_s) * 10_000_000)
}
