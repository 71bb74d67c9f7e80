//! The spool's bytes: what a device stores of its own snapshots until a receiver has them. In: frames of v2. Out: segments of
//! numbered, checked records; and the way back. Layout: docs/spool-format.md. Files are the link's matter.
//!
//! A segment begins with a header and a *full* snapshot, so that it can be read without those before it. Every snapshot
//! that was accepted has a number, one more than the one before, whether it could be kept or not: a hole is a jump of the
//! numbers, so none can be overlooked.

mod fields;
mod header;
mod read;
mod record;
mod state;

pub use header::{Origin, SEGMENT_HEADER_BYTES, SegmentHeader, VERSION};
pub use read::{DamageReason, Damaged, Records, Step};
pub(crate) use record::SnapshotHead;
pub use record::{
    Entry, Frames, Gap, GapReason, MAX_PAYLOAD_BYTES, RECORD_HEADER_BYTES, SnapshotRecord, decode_record,
    push_gap, push_snapshot,
};
pub use state::{STATE_BYTES, STATE_SLOT_BYTES, State};

/// The first eight bytes of each segment.
pub const SEGMENT_MAGIC: [u8; 8] = *b"\x63\xb5\x6dSPOOL";
