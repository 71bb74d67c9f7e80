//! [`Packer`] and [`Unpacker`]: records of a spool, by what the channel of a connection sent before. In: a record. Out: fewer bytes,
//! and from them the same record again, bit by bit. The spool has its own format, because a record on a disk must be readable
//! alone; on a connection nothing is lost and nothing overtakes, so only differences travel. Layout: docs/packed-format.md, why so:
//! docs/adr/0011-connection-packing.md.
//!
//! What a device can make a receiver remember or compute is bounded: rows and cells by kind of table, zstd's window, symbols, values
//! and bytes of a record. A device sends as it is what it cannot pack.

mod coder;
mod compress;
mod grid;
mod header;
mod memory;
mod pack;
mod table;
#[cfg(test)]
mod tests;
mod unpack;

pub use pack::Packer;
pub use unpack::{PackedError, Unpacker};

use crate::connection::MAX_MESSAGE_BYTES;
use crate::v2::columns::section;

/// Longest record that is packed, bytes: sent as it is, the same record fits a message as well.
const MAX_RECORD_BYTES: usize = MAX_MESSAGE_BYTES - 64;
/// Most values in the tables of a record: those of 100,000 threads.
const MAX_RECORD_VALUES: usize = 1 << 21;
/// Most symbols of a record: two for each value (the row, the value), and the bytes of texts and of what is no table.
const MAX_SYMBOLS: usize = MAX_RECORD_BYTES + 2 * MAX_RECORD_VALUES;

/// What follows in a frame.
mod form {
    /// Nothing: the frame ends; instead of a frame: there is none any more.
    pub(super) const END: u8 = 0;
    /// A section that is a table; instead of a frame: a frame.
    pub(super) const TABLE: u8 = 1;
    /// A section, byte by byte.
    pub(super) const BYTES: u8 = 2;
}

/// What both ends of a channel remember.
#[derive(Debug, Default)]
struct ChannelState {
    tables: table::Tables,
    /// The header of the frame before.
    header: Vec<u8>,
    /// Number of the record before.
    number: u64,
    grid: grid::Grid,
}

/// Whether sections of this type are tables whose columns mean something here.
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

/// The first section of some, and what is behind it.
struct SplitSection<'a> {
    kind: u8,
    /// With its type and length.
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
