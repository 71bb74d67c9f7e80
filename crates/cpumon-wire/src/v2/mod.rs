//! Protocol v2: frames of cumulative counters, each datagram decodable alone. Layout: docs/wire-format.md.
//!
//! A datagram is a header and tables. A table describes its own columns, so a decoder skips columns, tables and header
//! fields that it does not know, and takes missing ones as not sent. The rows of a decoded [`Frame`] are types without dependencies, so
//! that decoder, receiver and tests can share them.

pub(crate) mod bits;
pub(crate) mod columns;
mod encoder;
mod frame;
mod known;
pub(crate) mod read;
mod rows;
mod sections;
pub(crate) mod table;

use cpumon_model::{BootId, Fields, HostId, Moment, SourceKind};

pub use self::encoder::{EncodeReport, Encoder, EncoderOptions, MIN_DATAGRAM_BYTES};
pub use self::frame::{ExitRow, Frame, FrameProcessRow, FrameThreadRow, InfoText, SnapshotTotals, decode};
pub use self::rows::IrqRow;
pub use self::sections::{AboutCgroup, CgroupRow, DelayRow};
use crate::fields::{FieldReader, WireField};
use crate::{Datagrams, DecodeError, Reason};

/// The first four bytes of each frame. As a v1 name length they are negative, so no v1 datagram begins like this.
pub const MAGIC: [u8; 4] = [0x63, 0xb5, 0x6d, 0x32];

/// Longest text sent apart from the command line, bytes.
const MAX_TEXT_BYTES: usize = 255;
/// Longest reason for the choice of a source, bytes: it names the missing measurements and their remedy. 0.1.0 cuts it after
/// 255.
const MAX_REASON_BYTES: usize = 512;

/// The version of the frame layout. A version that old decoders cannot read would get another number; new columns,
/// sections and header fields do not need one.
pub const VERSION: u8 = 2;

/// Length of the header that this program writes, bytes. Longer headers are read, and their new fields are skipped.
pub const HEADER_BYTES: usize = 87;

/// Most datagrams of one snapshot.
pub const MAX_FRAGMENTS: u16 = 16_384;

/// Fields that every datagram has, so that each can be used although others of its snapshot are lost.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Id of the machine that the counters are of.
    pub host: HostId,
    /// Id of its boot: counters of two boots are never compared.
    pub boot: BootId,
    /// Number that identifies one start of the agent.
    pub agent_start: u32,
    /// Number of the snapshot.
    pub sequence: u64,
    /// Number of the datagram within the snapshot, from 0.
    pub fragment: u16,
    /// Number of datagrams of the snapshot, at least 1.
    pub fragment_count: u16,
    /// End of the collection pass.
    pub end: Moment,
    /// Counters that are known.
    pub fields: Fields,
    /// What measured the counters, e.g. BPF.
    pub source: SourceKind,
    /// Within this many snapshots every task is sent at least once.
    pub refresh_snapshots: u16,
    /// The snapshot's datagrams together hold every live task.
    pub is_complete: bool,
    /// irq and softirq time is inside the threads' run time.
    pub irq_in_run_time: bool,
}

const COMPLETE: u16 = 1;
const IRQ_IN_RUN_TIME: u16 = 2;
/// Offset of the fragment's number, which the count follows.
const FRAGMENT_AT: usize = 52;

impl Header {
    fn push(&self, out: &mut Vec<u8>) {
        let flags = if self.is_complete { COMPLETE } else { 0 }
            | if self.irq_in_run_time { IRQ_IN_RUN_TIME } else { 0 };
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[VERSION, 87]);
        flags.push(out);
        self.host.push(out);
        self.boot.push(out);
        self.agent_start.push(out);
        self.sequence.push(out);
        self.fragment.push(out);
        self.fragment_count.push(out);
        self.end.push(out);
        self.fields.bits().push(out);
        out.push(self.source.code());
        self.refresh_snapshots.push(out);
    }

    /// Reads the fields behind magic, version and length.
    fn take(bytes: &mut FieldReader<'_>) -> Option<Self> {
        let flags = bytes.u16()?;
        Some(Self {
            is_complete: flags & COMPLETE != 0,
            irq_in_run_time: flags & IRQ_IN_RUN_TIME != 0,
            host: WireField::take(bytes)?,
            boot: WireField::take(bytes)?,
            agent_start: bytes.u32()?,
            sequence: bytes.u64()?,
            fragment: bytes.u16()?,
            fragment_count: bytes.u16()?,
            end: WireField::take(bytes)?,
            // A bit that is not known here would promise counters that this receiver cannot read.
            fields: Fields::CARRIED.intersection(Fields::from_bits_truncate(bytes.u32()?)),
            source: bytes.take().map(|[source]| SourceKind::from_code(source))?,
            refresh_snapshots: bytes.u16()?,
        })
    }

    /// Reads the header and says where the sections begin.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, usize), DecodeError> {
        let cut = |at| DecodeError::new(at, Reason::Truncated);
        let mut fields = FieldReader { rest: bytes };
        if fields.take().ok_or(cut(0))? != MAGIC {
            return Err(DecodeError::new(0, Reason::WrongMagic));
        }
        let [version, length] = fields.take().ok_or(cut(4))?;
        let length = usize::from(length);
        if version != VERSION {
            return Err(DecodeError::new(4, Reason::UnknownVersion));
        }
        // A longer header is one of a later release, which only appends fields.
        if length < HEADER_BYTES {
            return Err(DecodeError::new(5, Reason::HeaderTooShort));
        }
        if bytes.len() < length {
            return Err(cut(bytes.len()));
        }
        let header = Self::take(&mut fields).ok_or(cut(bytes.len()))?;
        if header.fragment >= header.fragment_count || header.fragment_count > MAX_FRAGMENTS {
            return Err(DecodeError::new(FRAGMENT_AT, Reason::BadFragment));
        }
        Ok((header, length))
    }
}

/// The machine that a frame speaks for; `None` if the bytes do not begin with a header.
pub fn host_of(frame: &[u8]) -> Option<HostId> {
    Header::decode(frame).ok().map(|(header, _)| header.host)
}

/// A row that does not fit is written and taken back, and encryption adds some bytes. With space for both a buffer is
/// not doubled.
const SPARE_BYTES: usize = 256;

/// The datagrams of one snapshot while tables fill them; the last one is being filled.
#[derive(Debug)]
pub(crate) struct Frames<'a> {
    out: &'a mut Datagrams,
    header: Header,
    max_bytes: usize,
}

impl<'a> Frames<'a> {
    fn new(header: Header, max_bytes: usize, out: &'a mut Datagrams) -> Self {
        out.clear();
        let mut frames = Self { out, header, max_bytes };
        frames.push();
        frames
    }

    fn push(&mut self) {
        let buffer = self.out.push();
        buffer.reserve_exact(self.max_bytes + SPARE_BYTES);
        self.header.push(buffer);
    }

    fn buffer(&mut self) -> &mut Vec<u8> {
        self.out.last_mut()
    }

    /// Greatest length of a datagram, bytes.
    fn limit(&self) -> usize {
        self.max_bytes
    }

    /// Begins a new datagram; false if the current one is empty already, so that a new one would not help, or if the
    /// snapshot has as many as a header can number.
    fn next_datagram(&mut self) -> bool {
        if self.buffer().len() <= HEADER_BYTES || self.out.len() >= usize::from(MAX_FRAGMENTS) {
            return false;
        }
        self.push();
        true
    }

    /// Writes the number of each datagram and their count into the headers; the count is known only now.
    fn finish(self) {
        let datagrams = self.out.as_mut_slice();
        let count = u16::try_from(datagrams.len()).unwrap_or(u16::MAX);
        for (fragment, datagram) in (0_u16..).zip(datagrams) {
            if let Some(field) = datagram.get_mut(FRAGMENT_AT..FRAGMENT_AT + 4) {
                field[..2].copy_from_slice(&fragment.to_le_bytes());
                field[2..].copy_from_slice(&count.to_le_bytes());
            }
        }
    }
}
