//! LZNT1: chunks of 4,096 bytes, in which a match has the more bits of distance the further the chunk is.

use super::output::{Output, byte, input};

const CHUNK_BYTES: usize = 4096;
const IS_PACKED: u16 = 0x8000;
const LENGTH: u16 = 0x0fff;

pub(super) fn unpack(from: &[u8], out: &mut Output<'_>) -> Option<()> {
    let mut input = input(from);
    while !out.is_full() {
        let header = input.u16()?;
        if header == 0 {
            return None;
        }
        // A chunk that ended early is filled with zeros.
        while !out.bytes.len().is_multiple_of(CHUNK_BYTES) && !out.is_full() {
            out.push(0);
        }
        // No more is there where only the begin is wanted.
        let chunk = input.take(input.rest.len().min(usize::from(header & LENGTH) + 1))?;
        if header & IS_PACKED == 0 {
            for byte in chunk {
                out.push(*byte);
            }
        } else {
            unpack_chunk(chunk, out)?;
        }
    }
    Some(())
}

fn unpack_chunk(chunk: &[u8], out: &mut Output<'_>) -> Option<()> {
    let (mut input, begin) = (input(chunk), out.bytes.len());
    while !input.rest.is_empty() && !out.is_full() {
        let flags = byte(&mut input)?;
        for bit in 0..8 {
            let done = out.bytes.len() - begin;
            if input.rest.is_empty() || out.is_full() {
                break;
            }
            if flags >> bit & 1 == 0 {
                out.push(byte(&mut input)?);
                continue;
            }
            let token = usize::from(input.u16()?);
            let length_bits = 16 - distance_bits(done);
            let (distance, length) = ((token >> length_bits) + 1, (token & ((1 << length_bits) - 1)) + 3);
            if distance > done || done + length > CHUNK_BYTES {
                return None;
            }
            out.repeat(distance, length)?;
        }
        if out.bytes.len() - begin > CHUNK_BYTES {
            return None;
        }
    }
    Some(())
}

/// So many are needed for the largest distance behind `done` bytes, at least 4 and at most 12.
fn distance_bits(done: usize) -> usize {
    let mut bits = 4;
    while bits < 12 && 1 << bits < done {
        bits += 1;
    }
    bits
}
