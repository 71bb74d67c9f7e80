//! Protocol v2: frames of cumulative counters. In: a snapshot and its interval. Out: datagrams, each decodable alone.
//! Layout: docs/wire-format.md.

mod encoder;

pub use encoder::{Encoder, EncoderOptions};

/// The first four bytes of each frame. As a v1 name length they are negative, so no v1 datagram begins like this.
pub const MAGIC: [u8; 4] = [0x63, 0xb5, 0x6d, 0x32];
