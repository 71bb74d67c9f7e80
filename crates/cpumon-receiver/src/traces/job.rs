//! Work of the trace store's thread: its jobs ([`TraceJob`]), their progress ([`TraceSlot`]), its limits ([`TraceLimits`]), the
//! choice of the trace to delete when there are too many ([`surplus`]), and counts of its results ([`SharedCounts`] for
//! `cpumon status`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cpumon_model::HostId;
use cpumon_model::limits::Rate;
use cpumon_query::status;
use cpumon_store::TraceRecord;
use cpumon_wire::connection::AttachmentState;

use crate::counts::SharedCounts;
use crate::lock;

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
/// KiB that each offer counts beside its bytes: for its files and rows, and for the unpacking of its contents.
pub(super) const OFFER_KIB: u64 = 1 << 10;

/// The longest trace, bytes.
const MAX_BYTES: u64 = 256 << 20;

impl TraceLimits {
    /// The longest trace: no more than a quarter of the trace store.
    pub(crate) fn longest(&self) -> u64 {
        MAX_BYTES.min(self.bytes / 4)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OfferedTrace {
    pub(crate) host: HostId,
    pub(crate) hash: [u8; 32],
    pub(crate) bytes: u64,
    /// When the recorded event happened, on the receiver's time line.
    pub(crate) wall_ns: i64,
    /// How far the device's clock is ahead, ns.
    pub(crate) shift_ns: i64,
    pub(crate) reason: String,
}

pub(super) enum TraceJob {
    Offer(OfferedTrace, Arc<TraceSlot>),
    Piece {
        slot: Arc<TraceSlot>,
        offset: u64,
        bytes: Vec<u8>,
    },
    /// The connection ended, or the device offers another one.
    Abandon(Arc<TraceSlot>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotState {
    /// `None`: the offer is not answered yet.
    pub(crate) state: Option<AttachmentState>,
    /// Bytes that are written.
    pub(crate) received: u64,
    /// Why the trace is not taken.
    pub(crate) text: String,
}

#[derive(Debug, Default)]
pub(crate) struct TraceSlot(Mutex<SlotState>);

impl TraceSlot {
    pub(crate) fn state(&self) -> SlotState {
        lock(&self.0).clone()
    }

    pub(super) fn set(&self, state: AttachmentState, received: u64, text: &str) {
        let new = SlotState { state: Some(state), received, text: text.to_owned() };
        *lock(&self.0) = new;
    }
}

/// The trace of `stored` (the oldest first) to delete next, so that one of `bytes` of `host` fits beside `reserved` bytes: the oldest of
/// the host that has the most, the new one counted. `Ok(None)`: it fits.
///
/// # Errors
/// It does not fit, and there is nothing to delete.
pub(super) fn surplus(
    stored: &[TraceRecord],
    max_bytes: u64,
    max_files: usize,
    host: HostId,
    bytes: u64,
    reserved: u64,
) -> Result<Option<i64>, &'static str> {
    let wanted = bytes_of(stored).saturating_add(reserved).saturating_add(bytes);
    let is_wide = wanted > max_bytes;
    if !is_wide && stored.len() < max_files {
        return Ok(None);
    }
    // Files and bytes of each host.
    let mut shares = BTreeMap::from([(host, (1_u64, bytes))]);
    for one in stored {
        let share = shares.entry(one.host).or_default();
        *share = (share.0 + 1, share.1 + one.bytes);
    }
    let size = |share: &(u64, u64)| if is_wide { share.1 } else { share.0 };
    // A host without stored traces has none to lose.
    let owners = shares.iter().filter(|(host, _)| stored.iter().any(|one| one.host == **host));
    let owner = owners.max_by_key(|(_, share)| size(share)).map(|(owner, _)| *owner);
    let oldest = stored.iter().find(|one| Some(one.host) == owner);
    oldest.map(|oldest| Some(oldest.id)).ok_or("there is no space for traces now")
}

pub(super) fn bytes_of(stored: &[TraceRecord]) -> u64 {
    stored.iter().map(|one| one.bytes).sum()
}

impl SharedCounts<status::Traces> {
    /// A trace is stored: what failed before works again.
    pub(super) fn note_stored(&self) {
        self.note(|counts| {
            counts.stored += 1;
            counts.error.clear();
        });
    }

    /// Something could not be written or read. It is logged once for each cause, and again once it had worked in between.
    pub(super) fn note_failure(&self, text: &str) {
        self.note(|counts| {
            counts.failed += 1;
            if counts.error != text {
                log::warn!("traces: {text}");
                text.clone_into(&mut counts.error);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surplus(of: &[(u8, u64)], host: u8, bytes: u64, reserved: u64) -> Result<Option<i64>, &'static str> {
        let stored = (0..).zip(of).map(|(id, (host, bytes))| {
            let host = HostId([*host; 16]);
            TraceRecord { id, host, bytes: *bytes, ..TraceRecord::default() }
        });
        let stored: Vec<TraceRecord> = stored.collect();
        super::surplus(&stored, 100, 5, HostId([host; 16]), bytes, reserved)
    }

    #[test]
    fn the_host_with_the_most_loses_its_oldest() {
        assert_eq!(surplus(&[(1, 40), (2, 50)], 1, 10, 0), Ok(None));
        // With the new one host 1 has 51.
        assert_eq!(surplus(&[(2, 50), (1, 40)], 1, 11, 0), Ok(Some(1)));
        assert_eq!(surplus(&[(1, 40), (2, 20), (2, 40)], 1, 10, 0), Ok(Some(1)));
        assert_eq!(surplus(&[(1, 40), (2, 20), (2, 40)], 3, 10, 0), Ok(Some(1)));
        assert!(surplus(&[], 3, 10, 95).is_err(), "what is under way is not deleted");
        let many = [(1, 30), (2, 1), (2, 1), (2, 1), (2, 1)];
        assert_eq!(surplus(&many, 3, 1, 0), Ok(Some(1)), "by number");
    }
}
