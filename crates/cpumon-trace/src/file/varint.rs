//! Unsigned numbers in LEB128: seven bits a byte, the lowest first.

/// Bytes of the largest number.
pub(super) const MAX_BYTES: usize = 10;

/// Adds a number.
pub fn push(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        #[expect(clippy::cast_possible_truncation, reason = "the lowest seven bits")]
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    #[expect(clippy::cast_possible_truncation, reason = "less than 0x80")]
    out.push(value as u8);
}

/// Takes a number from the front of `bytes`; `None` if there is none, or one beyond 64 bits.
#[inline]
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    // Most numbers have one byte or two: tasks, and times below 16 us.
    match **bytes {
        [first, ref rest @ ..] if first < 0x80 => {
            *bytes = rest;
            Some(first.into())
        }
        [first, second, ref rest @ ..] if second < 0x80 => {
            *bytes = rest;
            Some(u64::from(first & 0x7f) | u64::from(second) << 7)
        }
        _ => take_long(bytes),
    }
}

fn take_long(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for at in 0..MAX_BYTES {
        let byte = *bytes.get(at)?;
        let part = u64::from(byte & 0x7f);
        // The tenth byte has one bit left.
        if at == MAX_BYTES - 1 && part > 1 {
            return None;
        }
        value |= part << (7 * at);
        if byte < 0x80 {
            *bytes = bytes.get(at + 1..)?;
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_number_comes_back(value: u64, shift in 0_u32..64) {
            let (value, mut bytes) = (value >> shift, Vec::new());
            push(&mut bytes, value);
            let mut rest = bytes.as_slice();
            prop_assert_eq!((take(&mut rest), rest.len()), (Some(value), 0));
            for short in 0..bytes.len() {
                prop_assert_eq!(take(&mut &bytes[..short]), None);
            }
        }
    }

    #[test]
    fn more_than_64_bits_are_refused() {
        let mut bytes = vec![0xff; 9];
        bytes.push(2);
        assert_eq!(take(&mut bytes.as_slice()), None);
        assert_eq!(take(&mut [0x80; 11].as_slice()), None);
    }
}
