//! What the shelf's thread is given to do ([`Job`]) and how far it is ([`Slot`]), how much it may store ([`TraceLimits`]), whose trace is
//! deleted when there are too many ([`Shares`]), and what it did ([`Counts`] for `cpumon status`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cpumon_model::HostId;
use cpumon_model::limits::Rate;
use cpumon_query::status;
use cpumon_wire::connection::AttachmentState;

use crate::counts::Counts;

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

/// How far a trace is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotState {
    /// `None`: not answered yet.
    pub(crate) state: Option<AttachmentState>,
    /// Bytes that are written.
    pub(crate) received: u64,
    /// Why it is not taken.
    pub(crate) text: String,
}

/// Shared by a session and the shelf's thread.
#[derive(Debug, Default)]
pub(crate) struct Slot(Mutex<SlotState>);

impl Slot {
    pub(crate) fn state(&self) -> SlotState {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set(&self, state: AttachmentState, received: u64, text: &str) {
        let new = SlotState { state: Some(state), received, text: text.to_owned() };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = new;
    }
}

/// What one host has.
#[derive(Copy, Clone, Debug, Default)]
struct Share {
    files: u64,
    bytes: u64,
}

/// A trace, as far as it matters here.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) id: i64,
    pub(super) host: HostId,
    pub(super) bytes: u64,
}

/// All traces, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Shares {
    stored: Vec<Stored>,
    max_bytes: u64,
    pub(super) max_files: usize,
}

impl Shares {
    pub(super) fn new(max_bytes: u64, max_files: usize) -> Self {
        Self { stored: Vec::new(), max_bytes, max_files }
    }

    pub(super) fn add(&mut self, one: Stored) {
        self.stored.push(one);
    }

    pub(super) fn remove(&mut self, id: i64) {
        self.stored.retain(|one| one.id != id);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.stored.iter().map(|one| one.bytes).sum()
    }

    pub(super) fn files(&self) -> usize {
        self.stored.len()
    }

    /// The next trace to delete so that one of `bytes` of `host` fits beside `reserved` bytes: the oldest of the host that has the most, the
    /// new one counted. `Ok(None)`: it fits.
    pub(super) fn surplus(&self, host: HostId, bytes: u64, reserved: u64) -> Result<Option<i64>, Full> {
        let wanted = self.bytes().saturating_add(reserved).saturating_add(bytes);
        let is_wide = wanted > self.max_bytes;
        if !is_wide && self.files() < self.max_files {
            return Ok(None);
        }
        let mut shares: BTreeMap<HostId, Share> = BTreeMap::new();
        shares.insert(host, Share { files: 1, bytes });
        for one in &self.stored {
            let share = shares.entry(one.host).or_default();
            share.files += 1;
            share.bytes += one.bytes;
        }
        let size = |share: &Share| if is_wide { share.bytes } else { share.files };
        // A host without stored traces has none to lose.
        let owners = shares.iter().filter(|(host, _)| self.stored.iter().any(|one| one.host == **host));
        let (owner, _) = owners.max_by_key(|(_, share)| size(share)).ok_or(Full)?;
        let oldest = self.stored.iter().find(|one| one.host == *owner).ok_or(Full)?;
        Ok(Some(oldest.id))
    }
}

/// There is nothing to delete.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Counts<status::Traces> {
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

    fn host(id: u8) -> HostId {
        HostId([id; 16])
    }

    fn shares(of: &[(u8, u64)]) -> Shares {
        let mut shares = Shares::new(100, 5);
        for (at, (id, bytes)) in of.iter().enumerate() {
            shares.add(Stored { id: i64::try_from(at).unwrap(), host: host(*id), bytes: *bytes });
        }
        shares
    }

    #[test]
    fn the_host_with_the_most_loses_its_oldest() {
        assert_eq!(shares(&[(1, 40), (2, 50)]).surplus(host(1), 10, 0), Ok(None));
        // With the new one host 1 has 51.
        assert_eq!(shares(&[(2, 50), (1, 40)]).surplus(host(1), 11, 0), Ok(Some(1)));
        assert_eq!(shares(&[(1, 40), (2, 20), (2, 40)]).surplus(host(1), 10, 0), Ok(Some(1)));
        assert_eq!(shares(&[(1, 40), (2, 20), (2, 40)]).surplus(host(3), 10, 0), Ok(Some(1)));
        assert_eq!(shares(&[]).surplus(host(3), 10, 95), Err(Full), "what is under way is not deleted");
        let many = shares(&[(1, 30), (2, 1), (2, 1), (2, 1), (2, 1)]);
        assert_eq!(many.surplus(host(3), 1, 0), Ok(Some(1)), "by number");
    }
}
