//! Protocol v2: frames of cumulative counters, each datagram decodable alone. Layout: docs/wire-format.md.
//!
//! A datagram is a header and tables. A table describes its own columns, so a decoder skips columns, tables and header
//! fields that it does not know, and takes what is missing as not sent. The rows of a decoded [`Frame`] are types without dependencies, so
//! that decoder, receiver and tests can share them.

pub(crate) mod bits;
pub(crate) mod columns;
mod encoder;
mod frame;
mod header;
mod known;
pub(crate) mod read;
mod rows;
mod sections;
pub(crate) mod table;

pub use self::encoder::{EncodeReport, Encoder, EncoderOptions, MIN_DATAGRAM_BYTES};
pub use self::frame::{ExitRow, Frame, FrameProcessRow, FrameThreadRow, InfoText, SnapshotTotals, decode};
pub use self::header::{HEADER_BYTES, Header, MAGIC, MAX_FRAGMENTS, VERSION, host_of};
pub use self::rows::IrqRow;
pub use self::sections::{AboutCgroup, CgroupRow, DelayRow};
