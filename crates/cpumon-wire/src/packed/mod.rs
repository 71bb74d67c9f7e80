//! [`Packer`] and [`Unpacker`]: records of a spool, by what the channel of a connection sent before. In: a record. Out: fewer bytes,
//! and from them the same record again, bit by bit. The spool has its own format, because a record on a disk must be readable
//! alone; on a connection nothing is lost and nothing overtakes, so only differences travel. Layout: docs/packed-format.md, why so:
//! docs/adr/0011-connection-packing.md.
//!
//! What a device can make a receiver remember or compute is bounded: rows and cells by kind of table, zstd's window, symbols, values
//! and bytes of a record. A device sends records unpacked if it cannot pack them.

mod coder;
mod grid;
mod memory;
mod table;

use cpumon_model::varint;

use self::coder::{
    Coder, Compressor, Decompressor, SymbolReader, SymbolWriter, code_header, header_of, wall_ns,
};
use crate::connection::MAX_MESSAGE_BYTES;
use crate::spool::{Frames, RECORD_HEADER_BYTES, SnapshotHead};
use crate::v2::columns::section;

/// Longest record that is packed, bytes: sent as it is, the same record fits a message as well.
const MAX_RECORD_BYTES: usize = MAX_MESSAGE_BYTES - 64;
/// Most values in the tables of a record: those of 100,000 threads.
const MAX_RECORD_VALUES: usize = 1 << 21;
/// Most symbols of a record: two for each value (the row, the value), and the bytes of texts and of sections that are no table.
const MAX_SYMBOLS: usize = MAX_RECORD_BYTES + 2 * MAX_RECORD_VALUES;
/// Buffers are no longer than this between records: a full record of 10,000 threads comes once in many.
const BUFFER_BYTES: usize = 128 << 10;

/// Marks of the parts of a frame.
mod form {
    /// Nothing: the frame ends; instead of a frame: there is none any more.
    pub(super) const END: u8 = 0;
    /// A section that is a table; instead of a frame: a frame.
    pub(super) const TABLE: u8 = 1;
    /// A section that is coded byte by byte.
    pub(super) const BYTES: u8 = 2;
}

/// State that both ends of a channel keep.
#[derive(Debug, Default)]
struct ChannelState {
    tables: table::TableMemory,
    /// Header of the previous frame.
    header: Vec<u8>,
    /// Number of the previous record.
    number: u64,
    grid: grid::Grid,
}

/// Whether sections of this type are tables whose columns mean something here.
fn is_known(kind: u8) -> bool {
    matches!(kind, section::HOST..=section::DELAYS)
}

/// The first of several sections, and the sections behind it.
struct SplitSection<'a> {
    kind: u8,
    /// The section with its type and length.
    whole: &'a [u8],
    body: &'a [u8],
    rest: &'a [u8],
}

impl<'a> SplitSection<'a> {
    fn of(sections: &'a [u8]) -> Option<Self> {
        let (&[kind, low, high], behind) = sections.split_first_chunk()?;
        let (body, rest) = behind.split_at_checked(usize::from(u16::from_le_bytes([low, high])))?;
        Some(Self { kind, whole: sections.get(..3 + body.len())?, body, rest })
    }

    /// How many values it has, if it is a table.
    fn values(&self) -> usize {
        let Some(&columns) = self.body.first() else { return 0 };
        // Read from the table's head alone: limits are checked before the rows are taken apart.
        let rows_at = 2 + usize::from(columns) * 3;
        let rows = self.body.get(rows_at..rows_at + 2).and_then(|rows| rows.try_into().ok());
        usize::from(columns) * rows.map_or(0, |rows| usize::from(u16::from_le_bytes(rows)))
    }
}

/// The device's end of a channel, at first from its beginning: every packed record of the channel goes through it, in the order of
/// sending.
#[derive(Debug)]
pub struct Packer {
    state: ChannelState,
    writer: SymbolWriter,
    /// `None`: zstd could not begin, or failed, and nothing is packed.
    compressor: Option<Compressor>,
    scratch: Vec<u8>,
}

impl Default for Packer {
    fn default() -> Self {
        Self {
            state: ChannelState::default(),
            writer: SymbolWriter::default(),
            compressor: Compressor::new(),
            scratch: Vec::new(),
        }
    }
}

impl Packer {
    /// Appends the packed record. False, and nothing is appended: it must be sent as it is. Such records do not matter to those
    /// that are packed.
    pub fn pack(&mut self, record: &[u8], out: &mut Vec<u8>) -> bool {
        if self.compressor.is_none() || !self.can_pack(record) {
            return false;
        }
        let packed = self.write(record, out);
        if packed.is_none() {
            // The state is ahead of the receiver's now: this channel packs nothing any more.
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
    fn writer_bytes(&self) -> usize {
        self.writer.symbols.capacity() + self.writer.bits.capacity() + self.scratch.capacity()
    }

    /// Whether a record is sound and within the limits. Checked before the state changes.
    fn can_pack(&self, record: &[u8]) -> bool {
        let Some((head, payload)) = SnapshotHead::of(record) else { return false };
        let (mut bytes, mut values) = (0, 0);
        for frame in Frames::of(payload) {
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
        for frame in Frames::of(payload) {
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
        varint::push(out, self.scratch.len() as u64);
        out.extend_from_slice(&self.scratch);
        out.extend_from_slice(&self.writer.bits);
        Some(())
    }
}

fn write_section(
    state: &mut ChannelState,
    writer: &mut SymbolWriter,
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

/// Packed bytes that are malformed, out of order, over a limit, or give another record than the one that was packed.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unpacking a record: the packed bytes are damaged or out of order")]
pub struct PackedError;

/// The receiver's end of a channel, at first from its beginning.
#[derive(Debug)]
pub struct Unpacker {
    state: ChannelState,
    /// `None`: there was no memory for it, and everything is refused.
    decompressor: Option<Decompressor>,
    symbols: Vec<u8>,
    header: Vec<u8>,
    /// Number of values in the current record.
    values: usize,
}

impl Default for Unpacker {
    fn default() -> Self {
        Self {
            state: ChannelState::default(),
            decompressor: Decompressor::new(),
            symbols: Vec::new(),
            header: Vec::new(),
            values: 0,
        }
    }
}

impl Unpacker {
    /// [`Unpacker::unpack_while`] without an end before its end.
    ///
    /// # Errors
    /// As there.
    pub fn unpack(&mut self, packed: &[u8], record: &mut Vec<u8>) -> Result<u64, PackedError> {
        self.unpack_while(packed, record, &mut || true)
    }

    /// Replaces `record` by what was packed, as long as `goes_on`, which is asked before each section. Gives what that cost: the
    /// bytes of the record, one for each value in it, and one for each remembered row that was visited.
    ///
    /// # Errors
    /// The bytes are malformed, the channel's packed records came in another order, or it was not to go on. The channel must not be
    /// used any more.
    pub fn unpack_while(
        &mut self,
        packed: &[u8],
        record: &mut Vec<u8>,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<u64, PackedError> {
        record.clear();
        let mut symbols = std::mem::take(&mut self.symbols);
        let read = self.read(packed, &mut symbols, record, goes_on);
        symbols.clear();
        symbols.shrink_to(BUFFER_BYTES);
        self.symbols = symbols;
        self.state.grid.trim();
        read.ok_or(PackedError)?;
        Ok((self.values + record.len() + self.state.tables.rows_visited) as u64)
    }

    fn read(
        &mut self,
        packed: &[u8],
        symbols: &mut Vec<u8>,
        record: &mut Vec<u8>,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Option<()> {
        let (sum, mut rest) = packed.split_first_chunk::<4>()?;
        let length = usize::try_from(varint::take(&mut rest)?).ok()?;
        let (compressed, bits) = rest.split_at_checked(length)?;
        self.decompressor.as_mut()?.decompress(compressed, symbols, MAX_SYMBOLS)?;
        let mut reader = SymbolReader::new(symbols, bits);
        let head = self.read_record(&mut reader, record, goes_on)?;
        let payload = record.get(RECORD_HEADER_BYTES..)?;
        // Damage that decompresses all the same, and an end of the channel that remembers something else.
        if !reader.is_at_end() || crc32c::crc32c(payload) != u32::from_le_bytes(*sum) {
            return None;
        }
        head.write_before(record);
        Some(())
    }

    fn read_record(
        &mut self,
        reader: &mut SymbolReader<'_>,
        record: &mut Vec<u8>,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Option<SnapshotHead> {
        record.resize(RECORD_HEADER_BYTES, 0);
        self.values = 0;
        self.state.tables.begin_record();
        let number = self.state.number.checked_add(reader.number(0)?)?;
        self.state.number = number;
        let flags = reader.symbol(0)?;
        while reader.symbol(0)? != form::END {
            self.read_frame(reader, record, goes_on)?;
        }
        let wall_ns = wall_ns(&self.state.header).wrapping_add(reader.signed(0)?);
        let head = SnapshotHead { flags, number, wall_ns };
        self.state.tables.end_record(head.is_full());
        Some(head)
    }

    fn read_frame(
        &mut self,
        reader: &mut SymbolReader<'_>,
        record: &mut Vec<u8>,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Option<()> {
        let begin = record.len();
        record.extend_from_slice(&[0; 4]);
        self.header.clear();
        code_header(reader, &mut self.header, &mut self.state.header)?;
        record.extend_from_slice(&self.header);
        loop {
            // Few packed bytes can become long work.
            if !goes_on() {
                return None;
            }
            match reader.symbol(0)? {
                form::END => break,
                form::TABLE => self.read_table(reader, record)?,
                form::BYTES => read_bytes(reader, record)?,
                _ => return None,
            }
            // Checked after each section: few packed bytes can become many, and the record's end would be too
            // late.
            if record.len() > MAX_RECORD_BYTES {
                return None;
            }
        }
        let length = u32::try_from(record.len() - begin - 4).ok()?;
        record.get_mut(begin..begin + 4)?.copy_from_slice(&length.to_le_bytes());
        (record.len() <= MAX_RECORD_BYTES).then_some(())
    }

    fn read_table(&mut self, reader: &mut SymbolReader<'_>, record: &mut Vec<u8>) -> Option<()> {
        let kind = reader.symbol(0).filter(|&kind| is_known(kind))?;
        let grid = &mut self.state.grid;
        grid.clear();
        self.state.tables.code(reader, kind, grid)?;
        // The device checks this limit too, but it is not trusted: the limit bounds the receiver's work.
        self.values += grid.values.len();
        if self.values > MAX_RECORD_VALUES {
            return None;
        }
        grid.write(kind, record)
    }
}

/// Reads a section that is no table: type, length, and as many bytes as the length says.
fn read_bytes(reader: &mut SymbolReader<'_>, record: &mut Vec<u8>) -> Option<()> {
    let head = [reader.symbol(0)?, reader.symbol(0)?, reader.symbol(0)?];
    record.extend_from_slice(&head);
    for _ in 0..u16::from_le_bytes([head[1], head[2]]) {
        record.push(reader.symbol(0)?);
    }
    Some(())
}

#[cfg(test)]
mod tests;
