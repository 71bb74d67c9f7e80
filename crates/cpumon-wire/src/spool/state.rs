//! [`State`]: what a spool remembers beside its segments. Its file has a fixed size and two slots that are
//! overwritten in turn: a full disk cannot refuse it, and a torn write leaves the slot before.

use super::fields::{add_checksum, has_checksum, take, take_i64, take_u64};
use super::record::{Gap, GapReason};

/// Length of a slot, bytes: a sector.
pub const STATE_SLOT_BYTES: usize = 512;
/// Length of the file: two slots.
pub const STATE_BYTES: usize = 2 * STATE_SLOT_BYTES;

const MAGIC: [u8; 8] = *b"\x63\xb5\x6dSTATE";

/// What one slot of the state file holds.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Which writing of the state this is; the slot is this number's lowest bit.
    pub generation: u64,
    /// Number of the next snapshot.
    pub next: u64,
    /// Id of the spool, random, made with it.
    pub spool: [u8; 16],
    /// When its first snapshot was made, ns since the UNIX epoch; 0 if there is none yet.
    pub begin_wall_ns: i64,
    /// Snapshots that could not be kept and whose hole is not in a segment yet.
    pub lost: Option<Gap>,
    /// Every snapshot up to this number is on a receiver's disk; 0: none is.
    pub acked: u64,
    /// When the last snapshot before those was made that were dropped without being there; 0: none were.
    pub dropped_begin_wall_ns: i64,
    /// Why they were; [`GapReason::Unknown`]: the spool had reached its size.
    pub dropped_reason: GapReason,
}

impl State {
    /// The slot's bytes and their offset in the file.
    #[must_use]
    pub fn slot(&self) -> (u64, Vec<u8>) {
        let mut out = Vec::with_capacity(STATE_SLOT_BYTES);
        let lost = self.lost.unwrap_or_default();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.extend_from_slice(&self.next.to_le_bytes());
        out.extend_from_slice(&self.spool);
        out.extend_from_slice(&self.begin_wall_ns.to_le_bytes());
        out.extend_from_slice(&[u8::from(self.lost.is_some()), lost.reason.code()]);
        out.extend_from_slice(&lost.first.to_le_bytes());
        out.extend_from_slice(&lost.last.to_le_bytes());
        out.extend_from_slice(&lost.begin_wall_ns.to_le_bytes());
        out.extend_from_slice(&lost.end_wall_ns.to_le_bytes());
        out.extend_from_slice(&self.acked.to_le_bytes());
        out.extend_from_slice(&self.dropped_begin_wall_ns.to_le_bytes());
        out.push(self.dropped_reason.code());
        out.resize(STATE_SLOT_BYTES - 4, 0);
        add_checksum(&mut out, 0);
        ((self.generation & 1) * STATE_SLOT_BYTES as u64, out)
    }

    /// The newer of the two slots that are sound; `None` if neither is.
    #[must_use]
    pub fn decode(file: &[u8]) -> Option<Self> {
        // A torn write damages one slot only; the other one has the state before.
        let slots = file.as_chunks::<STATE_SLOT_BYTES>().0.iter().take(2);
        slots.filter_map(|slot| Self::decode_slot(slot)).max_by_key(|state| state.generation)
    }

    fn decode_slot(slot: &[u8]) -> Option<Self> {
        let mut at = 0;
        if take(slot, &mut at)? != MAGIC || !has_checksum(slot) {
            return None;
        }
        let (generation, next) = (take_u64(slot, &mut at)?, take_u64(slot, &mut at)?);
        let (spool, begin_wall_ns) = (take(slot, &mut at)?, take_i64(slot, &mut at)?);
        let [has_lost, reason] = take(slot, &mut at)?;
        let lost = Gap {
            first: take_u64(slot, &mut at)?,
            last: take_u64(slot, &mut at)?,
            begin_wall_ns: take_i64(slot, &mut at)?,
            end_wall_ns: take_i64(slot, &mut at)?,
            reason: GapReason::from_code(reason),
        };
        let (acked, dropped_begin_wall_ns) = (take_u64(slot, &mut at)?, take_i64(slot, &mut at)?);
        let [dropped_reason] = take(slot, &mut at)?;
        let dropped_reason = GapReason::from_code(dropped_reason);
        // Lost snapshots have numbers too, so the next number is above all of them.
        let is_sound = has_lost == 1 && lost.first <= lost.last && lost.last < next;
        // A receiver cannot have acknowledged a snapshot that has no number yet.
        let (lost, acked) = (is_sound.then_some(lost), acked.min(next.saturating_sub(1)));
        Some(Self {
            generation,
            next,
            spool,
            begin_wall_ns,
            lost,
            acked,
            dropped_begin_wall_ns,
            dropped_reason,
        })
    }
}
