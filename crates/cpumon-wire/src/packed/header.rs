//! Codes the headers of frames by the header before: of 87 bytes, a snapshot changes its number and three
//! clocks.

use super::coder::Coder;
use crate::v2::HEADER_BYTES;

/// Where the length of the header is.
const LENGTH_AT: usize = 5;
/// Where the numbers are that change; 8 bytes each.
const SEQUENCE: usize = 44;
const MONO: usize = 56;
const BOOT: usize = 64;
const WALL: usize = 72;
/// Bytes that are neither of these.
const FIXED: [std::ops::Range<usize>; 2] = [0..SEQUENCE, SEQUENCE + 8..MONO];

/// The header at the beginning of a frame.
pub(super) fn header_of(frame: &[u8]) -> Option<&[u8]> {
    let length = usize::from(*frame.get(LENGTH_AT)?);
    frame.get(..length).filter(|header| header.len() >= HEADER_BYTES)
}

/// When the snapshot of this header ended, by the wall clock, ns since the UNIX epoch.
pub(super) fn wall_ns(header: &[u8]) -> i64 {
    get(header, WALL).cast_signed()
}

/// Codes a header; what was coded is in `header` and, for the next one, in `before`.
pub(super) fn code_header(coder: &mut impl Coder, header: &mut Vec<u8>, before: &mut Vec<u8>) -> Option<()> {
    let length = usize::from(coder.symbol(u8::try_from(header.len()).ok()?)?);
    // All offsets of numbers below lie within these bytes.
    if length < HEADER_BYTES {
        return None;
    }
    header.resize(length, 0);
    for at in FIXED.into_iter().flatten().chain(WALL + 8..length) {
        let byte = header.get_mut(at)?;
        *byte = coder.symbol(*byte)?;
    }
    // All clocks run on by about the same, so two of them are coded by what the first one did.
    let mut passed = 0_u64;
    for at in [SEQUENCE, MONO, BOOT, WALL] {
        let expected = get(before, at).wrapping_add(passed);
        let difference = coder.signed(get(header, at).wrapping_sub(expected).cast_signed())?;
        let value = expected.wrapping_add(difference.cast_unsigned());
        header.get_mut(at..at + 8)?.copy_from_slice(&value.to_le_bytes());
        if at == MONO {
            passed = value.wrapping_sub(get(before, MONO));
        }
    }
    before.clone_from(header);
    Some(())
}

fn get(header: &[u8], at: usize) -> u64 {
    header.get(at..at + 8).and_then(|field| field.try_into().ok()).map_or(0, u64::from_le_bytes)
}
