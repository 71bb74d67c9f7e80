//! Protocol v2: frames of cumulative counters. In: a snapshot and its interval. Out: datagrams, each decodable alone;
//! and the way back. Layout: docs/wire-format.md.
//!
//! A datagram is a header and tables. A table describes its own columns, so a decoder skips columns, tables and header
//! fields that it does not know, and takes what is missing as not sent.

pub(crate) mod bits;
pub(crate) mod columns;
mod delays;
mod encoder;
mod frame;
mod frames;
mod header;
mod known;
mod read;
mod rows;
mod sched;
mod sent;
mod table;
mod tally;
mod text_budget;

use cpumon_model::Fields;

pub use delays::DelayRow;
pub use encoder::{EncodeReport, Encoder, EncoderOptions, MIN_DATAGRAM_BYTES};
pub use frame::{Frame, decode};
pub use header::{HEADER_BYTES, Header, MAX_FRAGMENTS, VERSION};
pub use sched::IrqRow;
pub use sent::{ExitRow, InfoText, ProcessRow, ThreadRow, Totals};

/// What frames carry; the rest of what a source measures is no data to a receiver.
const CARRIED: Fields = Fields::FIRST_RELEASE
    .union(Fields::SCHED)
    .union(Fields::WAITS)
    .union(Fields::IRQ)
    .union(Fields::HISTOGRAMS);

/// The first four bytes of each frame. As a v1 name length they are negative, so no v1 datagram begins like this.
pub const MAGIC: [u8; 4] = [0x63, 0xb5, 0x6d, 0x32];

/// The machine that a frame speaks for; `None` if the bytes do not begin with a header.
#[must_use]
pub fn host_of(frame: &[u8]) -> Option<cpumon_model::HostId> {
    Header::decode(frame).ok().map(|(header, _)| header.host)
}
