//! Numbers of variable length (LEB128: seven bits a byte, the lowest first, and a bit that says that more follow), as wire, store and
//! traces write them; and zigzag, which makes small negative numbers small positive ones.

/// Bytes of the largest number.
pub const MAX_BYTES: usize = 10;

/// Appends a number, one to ten bytes.
#[inline]
pub fn push(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

/// Takes a number from the front of `bytes`; `None` if they end inside it, or it is beyond 64 bits.
#[inline]
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    // Most numbers have one byte or two.
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

/// A signed number as an unsigned one: 0, −1, 1, −2, … become 0, 1, 2, 3, …
#[inline]
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// The inverse of [`zigzag`].
#[inline]
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn signs_fold_small() {
        for (signed, unsigned) in [(0, 0), (-1, 1), (1, 2), (i64::MAX, u64::MAX - 1), (i64::MIN, u64::MAX)] {
            assert_eq!((zigzag(signed), unzigzag(unsigned)), (unsigned, signed));
        }
    }

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
