//! Records: one snapshot, or one known hole. Head and payload have checksums of their own: a sound head gives
//! the start of the next record and the number that was lost, even if the payload is damaged.

use crate::fields::{FieldReader, in_a_byte, in_order};

/// Length of a record's head, bytes, its checksum included.
pub const RECORD_HEADER_BYTES: usize = 32;
/// Longest payload, bytes; a snapshot of more is refused and counted.
pub const MAX_PAYLOAD_BYTES: usize = 48 << 20;

const SNAPSHOT: u8 = 1;
const GAP: u8 = 2;
const FULL: u8 = 1;

cpumon_model::coded! {
    /// Why snapshots are missing.
    #[non_exhaustive]
    GapReason: code words {
        /// A reason that this version does not know.
        #[default]
        Unknown = 0 "not kept",
        /// The disk was full, or more was to be kept than the spool may hold, and nothing older could go.
        NoSpace = 1 "no room on the device",
        /// Writing to the disk failed.
        DiskFailed = 2 "the device's disk failed",
        /// The snapshot was too large for a record.
        TooLarge = 3 "too large for the device's log",
        /// The spool had reached its size: the oldest went.
        Dropped = 4 "dropped, the device's log was full",
        /// The bytes of the snapshots were damaged.
        Damaged = 5 "damaged on the device",
        /// The receiver cannot use the sent snapshots. Only a receiver notes this.
        Refused = 6 "refused by the receiver",
    }
}

/// Snapshots that were made and are missing.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// Number of the first one that is missing. One more than `last`: none is, but what follows has nothing to be compared with.
    pub first: u64,
    /// Number of the last missing snapshot.
    pub last: u64,
    /// When the last snapshot before the hole was made (of a hole at the very beginning: the first one in it), ns since the
    /// UNIX epoch on the device's clock.
    pub begin_wall_ns: i64,
    /// When the first snapshot behind the hole was made; where there is none, the last one in it.
    pub end_wall_ns: i64,
    /// Why the snapshots are missing.
    pub reason: GapReason,
}

in_a_byte! { GapReason: GapReason::code, GapReason::from_code; }
in_order!(Gap { reason, first, last, begin_wall_ns, end_wall_ns });

impl Gap {
    /// Number of missing snapshots.
    pub fn count(&self) -> u64 {
        self.last.saturating_add(1).saturating_sub(self.first)
    }
}

/// A snapshot as it is in a segment.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SnapshotRecord<'a> {
    /// Number of the snapshot in the spool.
    pub number: u64,
    /// When it was made, ns since the UNIX epoch on the device's clock.
    pub wall_ns: i64,
    /// It has every task with its name: reading may begin here.
    pub is_full: bool,
    payload: &'a [u8],
}

impl<'a> SnapshotRecord<'a> {
    /// The v2 frames of the snapshot, in the order in which they were written.
    pub fn frames(&self) -> Frames<'a> {
        Frames::of(self.payload)
    }
}

/// The frames of a snapshot, one by one; ends at a length that leads out of the record.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    rest: &'a [u8],
}

impl<'a> Frames<'a> {
    pub(crate) fn of(payload: &'a [u8]) -> Self {
        Self { rest: payload }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let mut fields = FieldReader { rest: self.rest };
        let length = usize::try_from(fields.u32()?).ok()?;
        let frame = fields.bytes(length)?;
        self.rest = fields.rest;
        Some(frame)
    }
}

/// Content of an undamaged record.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// A snapshot.
    Snapshot(SnapshotRecord<'a>),
    /// Snapshots that were made and could not be kept.
    Gap(Gap),
    /// A kind of record that is not known here; it has a number all the same.
    Unknown(u64),
}

#[derive(Copy, Clone, Debug)]
pub(super) struct RecordHead {
    pub(super) length: usize,
    kind: u8,
    flags: u8,
    pub(super) number: u64,
    pub(super) wall_ns: i64,
    payload_sum: u32,
}

impl RecordHead {
    /// Reads the head at the beginning of `bytes`; `None` if it is damaged.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let head = bytes.get(..RECORD_HEADER_BYTES).filter(|head| has_checksum(head))?;
        let mut fields = FieldReader { rest: head };
        let length = usize::try_from(fields.u32()?).ok().filter(|&n| n <= MAX_PAYLOAD_BYTES)?;
        let [kind, flags, _, _] = fields.take()?;
        let (number, wall_ns) = (fields.u64()?, fields.i64()?);
        Some(Self { length, kind, flags, number, wall_ns, payload_sum: fields.u32()? })
    }

    /// The record with this payload; `None` if that is damaged.
    pub(super) fn entry<'a>(&self, payload: &'a [u8]) -> Option<Entry<'a>> {
        if crc32c::crc32c(payload) != self.payload_sum {
            return None;
        }
        Some(match self.kind {
            SNAPSHOT => {
                let (number, wall_ns) = (self.number, self.wall_ns);
                Entry::Snapshot(SnapshotRecord { number, wall_ns, is_full: self.flags & FULL != 0, payload })
            }
            GAP => Entry::Gap(self.gap(payload)?),
            _ => Entry::Unknown(self.number),
        })
    }

    fn gap(&self, payload: &[u8]) -> Option<Gap> {
        let mut fields = FieldReader { rest: payload };
        // One above the record's own number is an empty hole; more than that cannot be.
        let first = fields.u64().filter(|&first| first <= self.number.saturating_add(1))?;
        let begin_wall_ns = fields.i64()?;
        let [reason] = fields.take()?;
        Some(Gap {
            first,
            last: self.number,
            begin_wall_ns,
            end_wall_ns: self.wall_ns,
            reason: GapReason::from_code(reason),
        })
    }
}

/// The head of a snapshot's record, for the reader that builds the record again.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SnapshotHead {
    pub(crate) flags: u8,
    pub(crate) number: u64,
    pub(crate) wall_ns: i64,
}

impl SnapshotHead {
    /// Head and payload of a sound snapshot's record that is all of these bytes; `None`: it is something else.
    pub(crate) fn of(record: &[u8]) -> Option<(Self, &[u8])> {
        let head = RecordHead::decode(record).filter(|head| head.kind == SNAPSHOT)?;
        let payload = record.get(RECORD_HEADER_BYTES..).filter(|payload| payload.len() == head.length)?;
        let snapshot = Self { flags: head.flags, number: head.number, wall_ns: head.wall_ns };
        // Bytes of a head that this program does not know would not come back.
        (record.get(..RECORD_HEADER_BYTES)? == snapshot.bytes(payload)).then_some((snapshot, payload))
    }

    pub(crate) fn is_full(self) -> bool {
        self.flags & FULL != 0
    }

    /// Writes the head before the payload that follows the space for it.
    pub(crate) fn write_before(self, record: &mut [u8]) {
        if let Some((head, payload)) = record.split_at_mut_checked(RECORD_HEADER_BYTES) {
            head.copy_from_slice(&self.bytes(payload));
        }
    }

    fn bytes(self, payload: &[u8]) -> Vec<u8> {
        head_bytes(SNAPSHOT, self.flags, self.number, self.wall_ns, payload)
    }
}

/// The bytes of a record's head, both checksums included.
fn head_bytes(kind: u8, flags: u8, number: u64, wall_ns: i64, payload: &[u8]) -> Vec<u8> {
    let mut head = Vec::with_capacity(RECORD_HEADER_BYTES);
    head.extend_from_slice(&u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes());
    head.extend_from_slice(&[kind, flags, 0, 0]);
    head.extend_from_slice(&number.to_le_bytes());
    head.extend_from_slice(&wall_ns.to_le_bytes());
    head.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    add_checksum(&mut head, 0);
    head
}

/// Appends a record; `payload` writes its payload.
fn push(out: &mut Vec<u8>, kind: u8, flags: u8, number: u64, wall_ns: i64, payload: impl Fn(&mut Vec<u8>)) {
    let begin = out.len();
    // The head has the payload's checksum, so it is filled in behind it.
    out.resize(begin + RECORD_HEADER_BYTES, 0);
    payload(out);
    let body = out.get(begin + RECORD_HEADER_BYTES..).unwrap_or_default();
    let head = head_bytes(kind, flags, number, wall_ns, body);
    if let Some(place) = out.get_mut(begin..begin + RECORD_HEADER_BYTES) {
        place.copy_from_slice(&head);
    }
}

/// Appends a snapshot. Returns false, and appends nothing, if it is longer than [`MAX_PAYLOAD_BYTES`].
pub fn push_snapshot(
    out: &mut Vec<u8>,
    number: u64,
    wall_ns: i64,
    is_full: bool,
    frames: &[impl AsRef<[u8]>],
) -> bool {
    let length: usize = frames.iter().map(|frame| frame.as_ref().len() + 4).sum();
    if length > MAX_PAYLOAD_BYTES {
        return false;
    }
    out.reserve(RECORD_HEADER_BYTES + length);
    push(out, SNAPSHOT, if is_full { FULL } else { 0 }, number, wall_ns, |out| {
        for frame in frames.iter().map(AsRef::as_ref) {
            out.extend_from_slice(&u32::try_from(frame.len()).unwrap_or(u32::MAX).to_le_bytes());
            out.extend_from_slice(frame);
        }
    });
    true
}

/// Appends the record of a hole; its number is that of the last missing snapshot.
pub fn push_gap(out: &mut Vec<u8>, gap: &Gap) {
    push(out, GAP, 0, gap.last, gap.end_wall_ns, |out| {
        out.extend_from_slice(&gap.first.to_le_bytes());
        out.extend_from_slice(&gap.begin_wall_ns.to_le_bytes());
        out.push(gap.reason.code());
    });
}

/// Reads a single record, as in a message of a connection; `None` if it is damaged, or not all of the bytes.
pub fn decode_record(bytes: &[u8]) -> Option<Entry<'_>> {
    let head = RecordHead::decode(bytes)?;
    let payload = bytes.get(RECORD_HEADER_BYTES..).filter(|payload| payload.len() == head.length)?;
    head.entry(payload)
}

/// Appends the CRC32C of everything from `begin` on.
pub(super) fn add_checksum(out: &mut Vec<u8>, begin: usize) {
    let sum = crc32c::crc32c(out.get(begin..).unwrap_or_default());
    out.extend_from_slice(&sum.to_le_bytes());
}

/// Whether the last four of these bytes are the CRC32C of those before.
pub(super) fn has_checksum(bytes: &[u8]) -> bool {
    bytes.split_last_chunk().is_some_and(|(body, sum)| crc32c::crc32c(body) == u32::from_le_bytes(*sum))
}
