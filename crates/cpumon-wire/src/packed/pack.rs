//! [`Packer`]: the device's end of a channel. It packs records, each by those before it.

use super::coder::{Coder, Writer};
use super::compress::Compressor;
use super::header::{code_header, header_of, wall_ns};
use super::{
    ChannelState, MAX_RECORD_BYTES, MAX_RECORD_VALUES, MAX_SYMBOLS, SplitSection, form, frames_of, is_known,
};
use crate::spool::{RECORD_HEADER_BYTES, SnapshotHead};

/// Buffers are no longer than this between records: a full record of 10,000 threads comes once in many.
const BUFFER_BYTES: usize = 128 << 10;

/// The device's end of a channel.
#[derive(Debug)]
pub struct Packer {
    pub(super) state: ChannelState,
    writer: Writer,
    /// `None`: zstd could not begin, or failed, and nothing is packed.
    compressor: Option<Compressor>,
    scratch: Vec<u8>,
}

impl Default for Packer {
    fn default() -> Self {
        Self::new()
    }
}

impl Packer {
    /// For a channel from its beginning: every packed record of the channel goes through it, in the order of sending.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: ChannelState::default(),
            writer: Writer::default(),
            compressor: Compressor::new(),
            scratch: Vec::new(),
        }
    }

    /// Appends the packed record. False, and nothing is appended: it must be sent as it is. Such records do not matter to those
    /// that are packed.
    pub fn pack(&mut self, record: &[u8], out: &mut Vec<u8>) -> bool {
        if self.compressor.is_none() || !self.can_pack(record) {
            return false;
        }
        let packed = self.write(record, out);
        if packed.is_none() {
            // What is remembered is ahead of the receiver now: this channel packs nothing any more.
            self.compressor = None;
        }
        for buffer in [&mut self.writer.symbols, &mut self.writer.bits, &mut self.scratch] {
            buffer.clear();
            buffer.shrink_to(BUFFER_BYTES);
        }
        self.state.grid.trim();
        packed.is_some()
    }

    #[cfg(test)]
    pub(super) fn writer_bytes(&self) -> usize {
        self.writer.symbols.capacity() + self.writer.bits.capacity() + self.scratch.capacity()
    }

    /// Whether a record is sound and within the limits. Checked before anything of it is remembered.
    fn can_pack(&self, record: &[u8]) -> bool {
        let Some((head, payload)) = SnapshotHead::of(record) else { return false };
        let (mut bytes, mut values) = (0, 0);
        for frame in frames_of(payload) {
            bytes += 4 + frame.len();
            let Some(header) = header_of(frame) else { return false };
            let mut rest = &frame[header.len()..];
            while !rest.is_empty() {
                let Some(section) = SplitSection::of(rest) else { return false };
                values += if is_known(section.kind) { section.values() } else { 0 };
                rest = section.rest;
            }
        }
        record.len() <= MAX_RECORD_BYTES
            && head.number > self.state.number
            && bytes == payload.len()
            && values <= MAX_RECORD_VALUES
    }

    fn write(&mut self, record: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let (head, payload) = SnapshotHead::of(record)?;
        let (state, writer) = (&mut self.state, &mut self.writer);
        writer.clear();
        state.tables.begin_record();
        writer.number(head.number - state.number)?;
        state.number = head.number;
        writer.symbol(head.flags)?;
        for frame in frames_of(payload) {
            writer.symbol(form::TABLE)?;
            let mut header = header_of(frame)?.to_vec();
            code_header(writer, &mut header, &mut state.header)?;
            let mut rest = frame.get(header.len()..)?;
            while !rest.is_empty() {
                let section = SplitSection::of(rest)?;
                write_section(state, writer, &section, &mut self.scratch)?;
                rest = section.rest;
            }
            writer.symbol(form::END)?;
        }
        writer.symbol(form::END)?;
        // The record's time is close to the wall clock of its snapshot, so the difference is short.
        writer.signed(head.wall_ns.wrapping_sub(wall_ns(&state.header)))?;
        writer.finish();
        state.tables.end_record(head.is_full());
        // The receiver would refuse it. The state is ahead by now, so `pack` gives the channel up.
        if writer.symbols.len() > MAX_SYMBOLS {
            return None;
        }
        self.compressor.as_mut()?.compress(&writer.symbols, &mut self.scratch)?;
        let sum = crc32c::crc32c(record.get(RECORD_HEADER_BYTES..)?);
        out.extend_from_slice(&sum.to_le_bytes());
        push_length(out, self.scratch.len());
        out.extend_from_slice(&self.scratch);
        out.extend_from_slice(&self.writer.bits);
        Some(())
    }
}

fn write_section(
    state: &mut ChannelState,
    writer: &mut Writer,
    section: &SplitSection<'_>,
    scratch: &mut Vec<u8>,
) -> Option<()> {
    scratch.clear();
    let grid = &mut state.grid;
    // The receiver builds the section from its values: only if that gives the same bytes is it sent as a table.
    let is_table = is_known(section.kind)
        && grid.read(section.body).is_some()
        && grid.write(section.kind, scratch).is_some()
        && *scratch == section.whole;
    if is_table {
        writer.symbol(form::TABLE)?;
        writer.symbol(section.kind)?;
        return state.tables.code(writer, section.kind, grid);
    }
    writer.symbol(form::BYTES)?;
    writer.symbols.extend_from_slice(section.whole);
    Some(())
}

/// Seven bits a byte, the lowest first; the topmost bit says that more follow.
pub(super) fn push_length(out: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        out.push((length & 0x7f | 0x80).to_le_bytes()[0]);
        length >>= 7;
    }
    out.push(length.to_le_bytes()[0]);
}
