//! Integers of variable length (LEB128, 7 bits a byte, low bits first) and zigzag. In: numbers or bytes. Out: the other.
//! Why: most counters of one second fit in one to four bytes.

/// Bytes ended, or made no sense, at this offset.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed at byte {offset}: {what}")]
pub(crate) struct Malformed {
    /// Where in the section.
    pub(crate) offset: usize,
    /// What did not fit.
    pub(crate) what: &'static str,
}

/// Appends `value`.
#[inline]
pub(crate) fn write(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

/// Maps small negative and positive numbers to small positive ones.
#[inline]
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// The reverse of [`zigzag`].
#[inline]
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// Appends a signed value.
#[inline]
pub(crate) fn write_signed(out: &mut Vec<u8>, value: i64) {
    write(out, zigzag(value));
}

/// Reads numbers off a byte slice.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Names the present offset in an error.
    pub(crate) fn malformed(&self, what: &'static str) -> Malformed {
        Malformed { offset: self.at, what }
    }

    /// Bytes not yet read.
    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// One byte.
    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        let byte = *self.bytes.get(self.at).ok_or_else(|| self.malformed("ends early"))?;
        self.at += 1;
        Ok(byte)
    }

    /// One varint.
    #[inline]
    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        let first = self.u8()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        let mut value = u64::from(first & 0x7f);
        let mut shift = 7;
        loop {
            let byte = self.u8()?;
            if shift == 63 && byte > 1 {
                return Err(self.malformed("number above 64 bits"));
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
            shift += 7;
        }
    }

    /// One zigzag varint.
    #[inline]
    pub(crate) fn i64(&mut self) -> Result<i64, Malformed> {
        self.u64().map(unzigzag)
    }

    /// A varint that must fit the smaller type.
    pub(crate) fn narrow<T: TryFrom<u64>>(&mut self) -> Result<T, Malformed> {
        let value = self.u64()?;
        T::try_from(value).map_err(|_| self.malformed("number out of range"))
    }

    /// A count of things that take at least `each` bytes: more than can be there is refused, so that a damaged count
    /// reserves no memory.
    pub(crate) fn count(&mut self, each: usize) -> Result<usize, Malformed> {
        let count: usize = self.narrow()?;
        if count.saturating_mul(each) > self.remaining() {
            return Err(self.malformed("count beyond the data"));
        }
        Ok(count)
    }

    /// The next `len` bytes.
    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let end = self.at.checked_add(len).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or_else(|| self.malformed("ends early"))?;
        let slice = &self.bytes[self.at..end];
        self.at = end;
        Ok(slice)
    }

    /// A section that [`write_section`] wrote.
    pub(crate) fn section(&mut self) -> Result<Cursor<'a>, Malformed> {
        let len = self.count(1)?;
        self.bytes(len).map(Cursor::new)
    }
}

/// Appends `section` with its length in front.
pub(crate) fn write_section(out: &mut Vec<u8>, section: &[u8]) {
    write(out, section.len() as u64);
    out.extend_from_slice(section);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(values in proptest::collection::vec(any::<i64>(), 0..50)) {
            let mut bytes = Vec::new();
            for &value in &values {
                write_signed(&mut bytes, value);
                write(&mut bytes, value.cast_unsigned());
            }
            let mut cursor = Cursor::new(&bytes);
            for &value in &values {
                prop_assert_eq!(cursor.i64().unwrap(), value);
                prop_assert_eq!(cursor.u64().unwrap(), value.cast_unsigned());
            }
            prop_assert_eq!(cursor.remaining(), 0);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut cursor = Cursor::new(&bytes);
            while cursor.u64().is_ok() {}
            prop_assert!(cursor.remaining() <= bytes.len());
        }
    }

    #[test]
    fn a_number_above_64_bits_is_refused() {
        assert!(Cursor::new(&[0xff; 11]).u64().is_err());
        assert_eq!(
            Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).u64(),
            Ok(u64::MAX)
        );
    }
}
