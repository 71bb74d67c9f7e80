//! [`Unpacker`]: the receiver's end of a channel. It rebuilds records from packed bytes, which it does not
//! trust.

use super::coder::{Coder, Reader};
use super::compress::Decompressor;
use super::header::{code_header, wall_ns};
use super::{ChannelState, MAX_RECORD_BYTES, MAX_RECORD_VALUES, MAX_SYMBOLS, form, is_known};
use crate::spool::{RECORD_HEADER_BYTES, SnapshotHead};

/// Symbols are no longer than this between records.
const BUFFER_BYTES: usize = 128 << 10;
/// Bits of the length of the compressed symbols.
const MAX_LENGTH_BITS: u32 = 28;

/// Packed bytes that are malformed, out of order, over a limit, or give another record than the one that was packed.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unpacking a record: the packed bytes are damaged or out of order")]
pub struct PackedError;

/// The receiver's end of a channel.
#[derive(Debug)]
pub struct Unpacker {
    pub(super) state: ChannelState,
    /// `None`: there was no memory for it, and everything is refused.
    decompressor: Option<Decompressor>,
    pub(super) symbols: Vec<u8>,
    header: Vec<u8>,
    /// Values of the record at hand.
    values: usize,
}

impl Default for Unpacker {
    fn default() -> Self {
        Self::new()
    }
}

impl Unpacker {
    /// For a channel from its beginning.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: ChannelState::default(),
            decompressor: Decompressor::new(),
            symbols: Vec::new(),
            header: Vec::new(),
            values: 0,
        }
    }

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
        Ok((self.values + record.len() + self.state.tables.rows_visited()) as u64)
    }

    fn read(
        &mut self,
        packed: &[u8],
        symbols: &mut Vec<u8>,
        record: &mut Vec<u8>,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Option<()> {
        let (sum, rest) = packed.split_first_chunk::<4>()?;
        let (length, rest) = take_length(rest)?;
        let (compressed, bits) = rest.split_at_checked(length)?;
        self.decompressor.as_mut()?.decompress(compressed, symbols, MAX_SYMBOLS)?;
        let mut reader = Reader::new(symbols, bits);
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
        reader: &mut Reader<'_>,
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
        reader: &mut Reader<'_>,
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

    fn read_table(&mut self, reader: &mut Reader<'_>, record: &mut Vec<u8>) -> Option<()> {
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

/// A section that is no table: type, length, and so many bytes.
fn read_bytes(reader: &mut Reader<'_>, record: &mut Vec<u8>) -> Option<()> {
    let head = [reader.symbol(0)?, reader.symbol(0)?, reader.symbol(0)?];
    record.extend_from_slice(&head);
    for _ in 0..u16::from_le_bytes([head[1], head[2]]) {
        record.push(reader.symbol(0)?);
    }
    Some(())
}

fn take_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut length = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let shift = u32::try_from(at * 7).ok().filter(|&shift| shift < MAX_LENGTH_BITS)?;
        length |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some((length, bytes.get(at + 1..)?));
        }
    }
    None
}
