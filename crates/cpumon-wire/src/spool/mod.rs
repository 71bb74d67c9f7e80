//! The spool's bytes: what a device stores of its own snapshots until a receiver has them. In: frames of v2. Out: segments of
//! numbered, checked records; and the way back. Layout: docs/spool-format.md. Files are the link's matter.
//!
//! A segment begins with a header and a *full* snapshot, so that it can be read without those before it. Every snapshot
//! that was accepted has a number, one more than the one before, whether it could be kept or not: a hole is a jump of the
//! numbers, so none can be overlooked.

mod record;

use cpumon_model::{BootId, HostId};

use self::record::{RecordHead, add_checksum, has_checksum};
use crate::fields::{FieldReader, WireField, in_order};

pub(crate) use self::record::SnapshotHead;
pub use self::record::{
    Entry, Frames, Gap, GapReason, MAX_PAYLOAD_BYTES, RECORD_HEADER_BYTES, SnapshotRecord, decode_record,
    push_gap, push_snapshot,
};

/// The first eight bytes of each segment.
pub const SEGMENT_MAGIC: [u8; 8] = *b"\x63\xb5\x6dSPOOL";

/// The version of the layout. Longer headers and unknown kinds of records do not need another one.
pub const VERSION: u16 = 1;

/// Length of the header that this program writes, bytes, its checksum included.
pub const SEGMENT_HEADER_BYTES: usize = 88;

/// Machine and boot that snapshots are of.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Id of the machine.
    pub host: HostId,
    /// Id of the machine's boot.
    pub boot: BootId,
}

/// Contents of a segment's header.
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
    /// When the segment's first snapshot was made, on the same clock.
    pub begin_wall_ns: i64,
}

in_order!(Origin { host, boot });
in_order!(SegmentHeader { spool, origin, first, spool_begin_wall_ns, begin_wall_ns });

impl SegmentHeader {
    /// Appends the encoded header.
    pub fn push(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&SEGMENT_MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&u16::try_from(SEGMENT_HEADER_BYTES).unwrap_or(u16::MAX).to_le_bytes());
        WireField::push(self, out);
        add_checksum(out, begin);
    }

    /// Reads a header; says where the records begin. `None`: these bytes are not a segment's, or damaged.
    pub fn decode(segment: &[u8]) -> Option<(Self, usize)> {
        let mut fields = FieldReader { rest: segment };
        if fields.take()? != SEGMENT_MAGIC || fields.u16()? != VERSION {
            return None;
        }
        let length = usize::from(fields.u16()?);
        if length < SEGMENT_HEADER_BYTES || !has_checksum(segment.get(..length)?) {
            return None;
        }
        Some((WireField::take(&mut fields)?, length))
    }
}

/// Why bytes of a segment cannot be used.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DamageReason {
    /// The file does not begin with a segment's header.
    #[error("the segment's header is damaged, or this is no segment of a version that is known here")]
    Header,
    /// A record's head is damaged: the rest of the segment cannot be read.
    #[error("the head of a record is damaged: the rest of the segment cannot be read")]
    Head,
    /// A record's payload is damaged; the next record can be read.
    #[error("a record is damaged")]
    Payload,
    /// The number of a record is not above the number before it.
    #[error("a record's number is not above the one before")]
    Order,
}

/// Bytes of a segment that cannot be used.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct DamagedBytes {
    /// Byte offset in the segment.
    pub offset: usize,
    /// Why the bytes cannot be used.
    pub reason: DamageReason,
    /// The number of the record, if its head can be trusted.
    pub number: Option<u64>,
}

/// What comes next in a segment.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// An undamaged record.
    Entry(Entry<'a>),
    /// Something that cannot be used. Reading can go on.
    Damaged(DamagedBytes),
    /// The end. `tail_bytes`: bytes of a last record that was begun and not ended (the writer was killed, or still writes).
    End {
        /// Bytes of the unfinished record; 0 if the segment ends with a whole one.
        tail_bytes: usize,
    },
}

/// Reads the records of a segment in order, with [`Records::step`].
#[derive(Clone, Debug)]
pub struct Records<'a> {
    header: SegmentHeader,
    bytes: &'a [u8],
    at: usize,
    newest: Option<u64>,
    has_ended: bool,
}

impl<'a> Records<'a> {
    /// Begins with the header.
    ///
    /// # Errors
    /// It is damaged.
    pub fn new(segment: &'a [u8]) -> Result<Self, DamagedBytes> {
        let damaged = DamagedBytes { offset: 0, reason: DamageReason::Header, number: None };
        let (header, at) = SegmentHeader::decode(segment).ok_or(damaged)?;
        Ok(Self { header, at, ..Self::within(segment) })
    }

    /// Begins behind a header that cannot be read: what the records say of their numbers can still be counted.
    pub fn without_header(segment: &'a [u8]) -> Self {
        // The length in a damaged header cannot be trusted, so the header is taken to be as long as ours.
        Self { at: SEGMENT_HEADER_BYTES, ..Self::within(segment) }
    }

    /// A piece of a segment that begins with a record; it has no header.
    pub fn within(piece: &'a [u8]) -> Self {
        let header = SegmentHeader::default();
        Self { header, bytes: piece, at: 0, newest: None, has_ended: false }
    }

    /// The segment's header.
    pub fn header(&self) -> &SegmentHeader {
        &self.header
    }

    /// Where the next record begins, or where the sound ones end.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// The next record. After [`Step::End`] there is nothing but the same end.
    pub fn step(&mut self) -> Step<'a> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if rest.len() < RECORD_HEADER_BYTES || self.has_ended {
            return self.end(if self.has_ended { 0 } else { rest.len() });
        }
        let Some(head) = RecordHead::decode(rest) else {
            // A file system may have made the file longer before it wrote the bytes.
            if rest.iter().all(|&byte| byte == 0) {
                return self.end(rest.len());
            }
            self.has_ended = true;
            return self.damaged(DamageReason::Head, None);
        };
        // A sound head with a cut payload: the writer was killed, or still writes.
        let Some(payload) = rest.get(RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + head.length) else {
            return self.end(rest.len());
        };
        let damage = match head.entry(payload) {
            _ if self.newest.is_some_and(|newest| head.number <= newest) => DamageReason::Order,
            Some(entry) => {
                self.newest = Some(head.number);
                self.at += RECORD_HEADER_BYTES + head.length;
                return Step::Entry(entry);
            }
            None => DamageReason::Payload,
        };
        // The head has a checksum of its own and it is right, so its length leads to the next record.
        let step = self.damaged(damage, Some(head.number));
        self.at += RECORD_HEADER_BYTES + head.length;
        step
    }

    /// Behind a damaged head: the greatest number that records there had, as far as their own heads can be made out. For counting
    /// only. A name may be a copy of a head, so the number of heads that fit the remaining bytes bounds the result.
    pub fn greatest_behind(&self) -> u64 {
        let newest = self.newest.unwrap_or(0);
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let most = newest.saturating_add(1 + (rest.len() / RECORD_HEADER_BYTES) as u64);
        let heads = (1..rest.len()).filter_map(|at| RecordHead::decode(rest.get(at..)?));
        let numbers = heads.map(|head| head.number).filter(|number| *number <= most);
        numbers.fold(newest.saturating_add(1), u64::max)
    }

    fn end(&mut self, tail_bytes: usize) -> Step<'a> {
        self.has_ended = true;
        Step::End { tail_bytes }
    }

    fn damaged(&self, reason: DamageReason, number: Option<u64>) -> Step<'a> {
        Step::Damaged(DamagedBytes { offset: self.at, reason, number })
    }
}

/// Length of a slot of the state file, bytes: one sector.
pub const STATE_SLOT_BYTES: usize = 512;
/// Length of the state file, bytes: two slots.
pub const STATE_BYTES: usize = 2 * STATE_SLOT_BYTES;

const STATE_MAGIC: [u8; 8] = *b"\x63\xb5\x6dSTATE";

/// What one slot of the state file holds.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Which writing of the state this is; the slot is this number's lowest bit.
    pub generation: u64,
    /// Number of the next snapshot.
    pub next: u64,
    /// Id of the spool: random, chosen when the spool is made.
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
    pub fn slot(&self) -> (u64, Vec<u8>) {
        let mut out = Vec::with_capacity(STATE_SLOT_BYTES);
        out.extend_from_slice(&STATE_MAGIC);
        self.generation.push(&mut out);
        self.next.push(&mut out);
        self.spool.push(&mut out);
        self.begin_wall_ns.push(&mut out);
        self.lost.is_some().push(&mut out);
        self.lost.unwrap_or_default().push(&mut out);
        self.acked.push(&mut out);
        self.dropped_begin_wall_ns.push(&mut out);
        self.dropped_reason.push(&mut out);
        out.resize(STATE_SLOT_BYTES - 4, 0);
        add_checksum(&mut out, 0);
        ((self.generation & 1) * STATE_SLOT_BYTES as u64, out)
    }

    /// The newer of the two slots that are sound; `None` if neither is.
    pub fn decode(file: &[u8]) -> Option<Self> {
        // A torn write damages one slot only; the other one has the state before.
        let slots = file.as_chunks::<STATE_SLOT_BYTES>().0.iter().take(2);
        slots.filter_map(|slot| Self::decode_slot(slot)).max_by_key(|state| state.generation)
    }

    fn decode_slot(slot: &[u8]) -> Option<Self> {
        let fields = &mut FieldReader { rest: slot };
        if fields.take()? != STATE_MAGIC || !has_checksum(slot) {
            return None;
        }
        let (generation, next) = (fields.u64()?, fields.u64()?);
        let (spool, begin_wall_ns) = (fields.take()?, fields.i64()?);
        let (has_lost, lost): (bool, Gap) = (WireField::take(fields)?, WireField::take(fields)?);
        // Lost snapshots have numbers too, so the next number is above theirs.
        let is_sound = has_lost && lost.first <= lost.last && lost.last < next;
        Some(Self {
            generation,
            next,
            spool,
            begin_wall_ns,
            lost: is_sound.then_some(lost),
            // A receiver cannot have acknowledged a snapshot that has no number yet.
            acked: fields.u64()?.min(next.saturating_sub(1)),
            dropped_begin_wall_ns: fields.i64()?,
            dropped_reason: WireField::take(fields)?,
        })
    }
}
