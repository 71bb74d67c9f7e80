//! XPRESS without Huffman codes: 32 flags, then 32 bytes or matches.

use super::output::{Output, byte, input, long_length};

const SHORT: usize = 7;
const HALF: usize = 15;

pub(super) fn unpack(from: &[u8], out: &mut Output<'_>) -> Option<()> {
    let mut input = input(from);
    // The upper half of a byte whose lower half was a length.
    let mut half: Option<u8> = None;
    while !out.is_full() {
        let flags = input.u32()?;
        for bit in (0..32).rev() {
            if out.is_full() {
                break;
            }
            if flags >> bit & 1 == 0 {
                out.push(byte(&mut input)?);
                continue;
            }
            let token = usize::from(input.u16()?);
            let mut length = token % 8;
            if length == SHORT {
                let next = if let Some(upper) = half.take() {
                    upper
                } else {
                    let both = byte(&mut input)?;
                    half = Some(both >> 4);
                    both & 0x0f
                };
                length += usize::from(next);
                if usize::from(next) == HALF {
                    length = match byte(&mut input)? {
                        u8::MAX => long_length(&mut input, SHORT + HALF)? + SHORT + HALF,
                        more => SHORT + HALF + usize::from(more),
                    };
                }
            }
            out.repeat(token / 8 + 1, length.saturating_add(3))?;
        }
    }
    Some(())
}
