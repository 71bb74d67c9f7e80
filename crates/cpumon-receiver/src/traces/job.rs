//! What the shelf's thread is given to do.

use std::sync::Arc;
use std::time::Duration;

use cpumon_model::HostId;
use cpumon_model::limits::Rate;

use super::slot::Slot;

/// How much is kept.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TraceLimits {
    /// Bytes of all files; beyond them the host that has most loses its oldest. 0: no traces are taken.
    pub bytes: u64,
    /// For how long; `None`: as long as there is space.
    pub age: Option<Duration>,
}

/// Traces that users may have recorded: 120 an hour, 30 at once.
pub(super) const RECORDINGS: Rate = Rate { amount: 120, seconds: 3_600, burst_ms: 900_000 };
/// What one host may bring, KiB: 4 GiB an hour, 1 GiB at once.
pub(super) const BROUGHT: Rate = Rate { amount: 4 << 20, seconds: 3_600, burst_ms: 900_000 };
/// Each offer counts as so many KiB more, for the files and rows that it makes, and the unpacking of what it may hold.
pub(super) const OFFER_KIB: u64 = 1 << 10;

/// The longest trace, bytes.
const MAX_BYTES: u64 = 256 << 20;

impl TraceLimits {
    /// The longest trace: no more than a quarter of the shelf.
    pub(crate) fn longest(&self) -> u64 {
        MAX_BYTES.min(self.bytes / 4)
    }
}

/// A trace that a device offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OfferedTrace {
    pub(crate) host: HostId,
    pub(crate) hash: [u8; 32],
    pub(crate) bytes: u64,
    /// On the receiver's time line.
    pub(crate) wall_ns: i64,
    /// What the device's clock is ahead, ns.
    pub(crate) shift_ns: i64,
    pub(crate) reason: String,
}

/// What the thread has to do.
pub(super) enum Job {
    Offer(OfferedTrace, Arc<Slot>),
    Piece {
        slot: Arc<Slot>,
        offset: u64,
        bytes: Vec<u8>,
    },
    /// The connection ended, or the device offers another one.
    Abandon(Arc<Slot>),
}
