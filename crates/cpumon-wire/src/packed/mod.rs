//! [`Packer`] and [`Unpacker`]: records of a spool, told by what the stream told before. In: a record. Out: fewer bytes, and
//! from them the same record again, bit by bit. Why beside the spool's format: a record on a disk must be readable alone; on a
//! stream, where nothing is lost and nothing overtakes, only what was not expected has to travel. Layout: docs/packed-format.md.
//!
//! What a sender can make a receiver remember or put out is bounded: 6 MiB of numbers a kind of table, 1 MiB of texts, and no
//! record longer than a message. What it cannot pack, a sender tells as it is.

mod cell;
mod coder;
mod grid;
mod head;
mod names;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod texts;

use coder::{Chance, Coder, Number, Reader, Writer, tree};
use grid::{Grid, MAX_BODY};
use head::{Heads, head_of};
use table::{Malformed, Tables};

use crate::spool::{RECORD_HEADER_BYTES, SnapshotHead};
use crate::stream::MAX_MESSAGE_BYTES;
use crate::v2::columns::section;

/// Longest record that is packed, bytes: a plain one of the same length fits a message as well.
const MAX_RECORD_BYTES: usize = MAX_MESSAGE_BYTES - 64;
/// Length of the checksum before the packed bytes.
const SUM_BYTES: usize = 4;
/// Follows the last section of a frame, where another one's type would stand.
const NO_SECTION: u16 = 256;

/// Packed bytes that stand for no record.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("packed bytes that stand for no record")]
pub struct PackedError;

impl From<Malformed> for PackedError {
    fn from(_: Malformed) -> Self {
        Self
    }
}

/// What both ends know of a lane.
#[derive(Debug)]
struct Known {
    heads: Heads,
    tables: Tables,
    number: u64,
    flags: u8,
    has_other_flags: Chance,
    skipped: Number,
    wall: Number,
    frames: Number,
    sections: [Chance; 2],
    /// The section that followed one of this type last.
    follower: Box<[u16; NO_SECTION as usize + 1]>,
    length: Number,
    letters: Box<[Chance; 256]>,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            heads: Heads::default(),
            tables: Tables::default(),
            number: 0,
            flags: 0,
            has_other_flags: Chance::default(),
            skipped: Number::default(),
            wall: Number::default(),
            frames: Number::default(),
            sections: [Chance::default(); 2],
            follower: Box::new([NO_SECTION; NO_SECTION as usize + 1]),
            length: Number::default(),
            letters: Box::new([Chance::default(); 256]),
        }
    }
}

impl Known {
    /// What stands before the frames.
    fn code_begin(&mut self, coder: &mut impl Coder, head: &mut SnapshotHead, frames: u64) -> u64 {
        let expected = self.number.wrapping_add(1);
        let skipped = self.skipped.code(coder, head.number.wrapping_sub(expected));
        head.number = expected.wrapping_add(skipped);
        self.number = head.number;
        if coder.bit(&mut self.has_other_flags, head.flags != self.flags) {
            self.flags = coder.plain(u64::from(head.flags), 8).to_le_bytes()[0];
        }
        head.flags = self.flags;
        self.tables.begin(head.is_full());
        self.frames.code(coder, frames)
    }

    /// What stands behind them.
    fn code_end(&mut self, coder: &mut impl Coder, head: &mut SnapshotHead) {
        let expected = self.heads.wall();
        let difference = head.wall_ns.cast_unsigned().wrapping_sub(expected).cast_signed();
        let difference = self.wall.code_signed(coder, difference);
        head.wall_ns = expected.cast_signed().wrapping_add(difference);
        self.tables.end();
    }

    /// The type of a section, by the one before; `None` is the end.
    fn code_kind(&mut self, coder: &mut impl Coder, before: u16, kind: Option<u8>) -> Option<u8> {
        let wanted = kind.map_or(NO_SECTION, u16::from);
        let expected = &mut self.follower[usize::from(before)];
        if coder.bit(&mut self.sections[0], wanted != *expected) {
            let other = coder.plain(u64::from(wanted), 9).min(u64::from(NO_SECTION));
            *expected = u16::try_from(other).unwrap_or(NO_SECTION);
        }
        u8::try_from(*expected).ok()
    }

    /// Bytes that are no table that is known here. `None`: more than a section holds.
    fn code_bytes(&mut self, coder: &mut impl Coder, bytes: &[u8], told: &mut Vec<u8>) -> Option<()> {
        let length = usize::try_from(self.length.code(coder, bytes.len() as u64)).ok();
        told.clear();
        for at in 0..length.filter(|&length| length <= MAX_BODY)? {
            let letter = u64::from(bytes.get(at).copied().unwrap_or(0));
            told.push(u8::try_from(tree(coder, &mut self.letters[..], letter, 8)).unwrap_or(0));
        }
        Some(())
    }
}

/// The device's end of a lane.
#[derive(Debug, Default)]
pub struct Packer {
    known: Known,
    grid: Grid,
    head: Vec<u8>,
    scratch: Vec<u8>,
    /// For each section of the record at hand whether it is a table that comes back as it was.
    is_table: Vec<bool>,
}

impl Packer {
    /// For a lane from its beginning: every packed record of the lane goes through it, in the order of sending.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the packed record. False, and nothing is appended: it must be told as it is. Such records do not matter to those
    /// that are packed.
    pub fn pack(&mut self, record: &[u8], out: &mut Vec<u8>) -> bool {
        let Some((head, frames)) = self.look_through(record) else { return false };
        let payload = record.get(RECORD_HEADER_BYTES..).unwrap_or_default();
        out.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
        let mut writer = Writer::new(out);
        let mut is_table = std::mem::take(&mut self.is_table).into_iter();
        let mut head = head;
        self.known.code_begin(&mut writer, &mut head, frames);
        for (at, frame) in (0..).zip(frames_of(payload)) {
            // Looked through already: nothing here can fail.
            let _ = self.pack_frame(&mut writer, frame, (at, frames), &mut is_table);
        }
        self.known.code_end(&mut writer, &mut head);
        writer.finish();
        true
    }

    /// Whether a record can be packed: how many frames it has; which sections are tables is kept.
    fn look_through(&mut self, record: &[u8]) -> Option<(SnapshotHead, u64)> {
        if record.len() > MAX_RECORD_BYTES {
            return None;
        }
        let (head, payload) = SnapshotHead::of(record)?;
        if head.number <= self.known.number {
            return None;
        }
        self.is_table.clear();
        let (mut frames, mut bytes) = (0, 0);
        for frame in frames_of(payload) {
            frames += 1;
            bytes += 4 + frame.len();
            let mut rest = frame.get(head_of(frame)?.len()..)?;
            while !rest.is_empty() {
                let (kind, body, behind) = section_of(rest)?;
                let section = rest.get(..rest.len() - behind.len())?;
                let is_table = is_known(kind) && self.grid.read(body).is_some() && {
                    self.scratch.clear();
                    self.grid.write(kind, &mut self.scratch).is_some() && self.scratch == section
                };
                self.is_table.push(is_table);
                rest = behind;
            }
        }
        (bytes == payload.len()).then_some((head, frames))
    }

    fn pack_frame(
        &mut self,
        writer: &mut Writer<'_>,
        frame: &[u8],
        place: (u64, u64),
        is_table: &mut impl Iterator<Item = bool>,
    ) -> Option<()> {
        self.head.clear();
        self.head.extend_from_slice(head_of(frame)?);
        let mut rest = frame.get(self.head.len()..)?;
        self.known.heads.code(writer, &mut self.head, place).ok()?;
        let mut before = NO_SECTION;
        while !rest.is_empty() {
            let (kind, body, behind) = section_of(rest)?;
            self.known.code_kind(writer, before, Some(kind));
            before = u16::from(kind);
            rest = behind;
            let is_table = is_table.next()?;
            if is_known(kind) {
                writer.bit(&mut self.known.sections[1], is_table);
            }
            if is_table {
                self.grid.read(body)?;
                self.known.tables.code(writer, kind, &mut self.grid).ok()?;
            } else {
                self.known.code_bytes(writer, body, &mut self.scratch)?;
            }
        }
        self.known.code_kind(writer, before, None);
        Some(())
    }
}

/// The receiver's end of a lane.
#[derive(Debug, Default)]
pub struct Unpacker {
    known: Known,
    grid: Grid,
    head: Vec<u8>,
    scratch: Vec<u8>,
}

impl Unpacker {
    /// For a lane from its beginning.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces `record` by what these bytes stand for. What that cost, in bytes: those of the record, and one for each number
    /// in it.
    ///
    /// # Errors
    /// They stand for nothing, or the lane's packed records came in another order. The lane is of no use any more.
    pub fn unpack(&mut self, packed: &[u8], record: &mut Vec<u8>) -> Result<u64, PackedError> {
        let (sum, bits) = packed.split_first_chunk::<SUM_BYTES>().ok_or(PackedError)?;
        let mut reader = Reader::new(bits);
        let mut head = SnapshotHead::default();
        record.clear();
        record.resize(RECORD_HEADER_BYTES, 0);
        let frames = self.known.code_begin(&mut reader, &mut head, 0);
        let mut values = 0;
        for at in 0..frames {
            values += self.unpack_frame(&mut reader, record, (at, frames))?;
        }
        self.known.code_end(&mut reader, &mut head);
        let payload = record.get(RECORD_HEADER_BYTES..).unwrap_or_default();
        if crc32c::crc32c(payload) != u32::from_le_bytes(*sum) {
            return Err(PackedError);
        }
        head.seal(record);
        Ok(values + record.len() as u64)
    }

    fn unpack_frame(
        &mut self,
        reader: &mut Reader<'_>,
        record: &mut Vec<u8>,
        place: (u64, u64),
    ) -> Result<u64, PackedError> {
        let begin = record.len();
        self.head.clear();
        self.known.heads.code(reader, &mut self.head, place)?;
        record.extend_from_slice(&[0; 4]);
        record.extend_from_slice(&self.head);
        let (mut before, mut values) = (NO_SECTION, 0);
        while let Some(kind) = self.known.code_kind(reader, before, None) {
            before = u16::from(kind);
            let is_table = is_known(kind) && reader.bit(&mut self.known.sections[1], false);
            if is_table {
                self.grid.clear();
                self.known.tables.code(reader, kind, &mut self.grid)?;
                values += self.grid.values.len() as u64;
                self.grid.write(kind, record).ok_or(PackedError)?;
            } else {
                self.known.code_bytes(reader, &[], &mut self.scratch).ok_or(PackedError)?;
                let length = u16::try_from(self.scratch.len()).map_err(|_| PackedError)?.to_le_bytes();
                record.extend_from_slice(&[kind, length[0], length[1]]);
                record.extend_from_slice(&self.scratch);
            }
            if record.len() > MAX_RECORD_BYTES {
                return Err(PackedError);
            }
        }
        let length = u32::try_from(record.len() - begin - 4).map_err(|_| PackedError)?;
        record.get_mut(begin..begin + 4).ok_or(PackedError)?.copy_from_slice(&length.to_le_bytes());
        if record.len() > MAX_RECORD_BYTES {
            return Err(PackedError);
        }
        Ok(values)
    }
}

fn is_known(kind: u8) -> bool {
    matches!(kind, section::HOST..=section::DELAYS)
}

/// The frames of a payload; ends at a length that leads out of it.
fn frames_of(payload: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = payload;
    std::iter::from_fn(move || {
        let (length, behind) = rest.split_first_chunk::<4>()?;
        let (frame, behind) = behind.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
        rest = behind;
        Some(frame)
    })
}

/// The first section: its type and body, and what is behind it.
fn section_of(sections: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[kind, low, high], rest) = sections.split_first_chunk()?;
    let (body, behind) = rest.split_at_checked(usize::from(u16::from_le_bytes([low, high])))?;
    Some((kind, body, behind))
}
