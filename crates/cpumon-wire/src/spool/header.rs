//! [`SegmentHeader`]: the fixed beginning of each segment.

use cpumon_model::{BootId, HostId};

use super::SEGMENT_MAGIC;
use super::fields::{add_checksum, has_checksum, take, take_i64, take_u64};

/// The version of the layout. Longer headers and unknown kinds of records do not need another one.
pub const VERSION: u16 = 1;

/// Length of the header that this program writes, bytes, its checksum included.
pub const SEGMENT_HEADER_BYTES: usize = 88;

/// Whose snapshots these are.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The machine.
    pub host: HostId,
    /// Its boot.
    pub boot: BootId,
}

/// What a segment says about itself.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The spool: random, made with it. Numbers mean something within one spool only.
    pub spool: [u8; 16],
    /// Whose snapshots these are; all of one segment are of one boot.
    pub origin: Origin,
    /// Number of the first record.
    pub first: u64,
    /// When the spool's first snapshot was made, ns since the UNIX epoch on the device's clock.
    pub spool_begin_wall_ns: i64,
    /// When this segment's first snapshot was made, likewise.
    pub begin_wall_ns: i64,
}

impl SegmentHeader {
    /// Appends the header.
    pub fn push(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&SEGMENT_MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&u16::try_from(SEGMENT_HEADER_BYTES).unwrap_or(u16::MAX).to_le_bytes());
        out.extend_from_slice(&self.spool);
        out.extend_from_slice(&self.origin.host.0);
        out.extend_from_slice(&self.origin.boot.0);
        out.extend_from_slice(&self.first.to_le_bytes());
        out.extend_from_slice(&self.spool_begin_wall_ns.to_le_bytes());
        out.extend_from_slice(&self.begin_wall_ns.to_le_bytes());
        add_checksum(out, begin);
    }

    /// Reads a header; says where the records begin. `None`: these bytes are not a segment's, or damaged.
    #[must_use]
    pub fn decode(segment: &[u8]) -> Option<(Self, usize)> {
        let mut at = 0;
        if take(segment, &mut at)? != SEGMENT_MAGIC || take(segment, &mut at)? != VERSION.to_le_bytes() {
            return None;
        }
        let length = usize::from(u16::from_le_bytes(take(segment, &mut at)?));
        if length < SEGMENT_HEADER_BYTES || !has_checksum(segment.get(..length)?) {
            return None;
        }
        let header = Self {
            spool: take(segment, &mut at)?,
            origin: Origin { host: HostId(take(segment, &mut at)?), boot: BootId(take(segment, &mut at)?) },
            first: take_u64(segment, &mut at)?,
            spool_begin_wall_ns: take_i64(segment, &mut at)?,
            begin_wall_ns: take_i64(segment, &mut at)?,
        };
        Some((header, length))
    }
}
