//! Unpacks a buffer: the three algorithms of [MS-XCA], each up to a limit.
//!
//! They are our own because the crates that exist have no limit: `lznt1` 0.1.3 makes up to 8 MB of 4 kB and `xpress-huffman` 0.1.3
//! up to 4 GB of one match, `rust-lzxpress` 0.7.1 can panic and is not maintained, `ms-compress` 0.2.1 is LGPL.

mod huffman;
mod lznt1;
mod output;
mod xpress;

use output::Output;

const LZNT1: u16 = 2;
const XPRESS: u16 = 3;
const XPRESS_HUFFMAN: u16 = 4;

/// Unpacks the first `limit` bytes. False if there are fewer, if the bytes are damaged, or if the algorithm is unknown; `out` then has
/// what is in front of that.
pub(super) fn unpack(packing: u16, from: &[u8], limit: usize, out: &mut Vec<u8>) -> bool {
    let mut output = Output { bytes: out, limit };
    output.bytes.clear();
    let is_sound = match packing {
        LZNT1 => lznt1::unpack(from, &mut output),
        XPRESS => xpress::unpack(from, &mut output),
        XPRESS_HUFFMAN => huffman::unpack(from, &mut output),
        _ => None,
    };
    is_sound.is_some() && output.is_full()
}

#[cfg(test)]
mod tests;
