//! Protocol v2: frames of cumulative counters, each datagram decodable alone. Layout: docs/wire-format.md.
//!
//! A datagram is a header and tables. A table describes its own columns, so a decoder skips columns, tables and header
//! fields that it does not know, and takes what is missing as not sent.

pub(crate) mod bits;
mod cgroups;
pub(crate) mod columns;
mod delays;
mod encoder;
mod format;
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

pub use cgroups::{AboutCgroup, CgroupRow};
pub(crate) use columns::name as column_name;
pub use delays::DelayRow;
pub use encoder::{EncodeReport, Encoder, EncoderOptions, MIN_DATAGRAM_BYTES};
pub use format::MAGIC;
pub use frame::{Frame, decode};
pub use header::{HEADER_BYTES, Header, MAX_FRAGMENTS, VERSION, host_of};
pub use sched::IrqRow;
pub use sent::{ExitRow, InfoText, ProcessRow, ThreadRow, Totals};
