//! Numbers of variable length ([`cpumon_model::varint`]): [`VarintPacker`] writes rows fast, [`VarintCursor`] reads them and reports
//! malformed places. Most counters of one second fit in one to four bytes.

pub(crate) use cpumon_model::varint::{push as write, unzigzag, zigzag};

#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed at byte {offset}: {what}")]
pub(crate) struct Malformed {
    /// Offset in the section, bytes.
    pub(crate) offset: usize,
    pub(crate) what: &'static str,
}

#[inline]
pub(crate) fn write_signed(out: &mut Vec<u8>, value: i64) {
    write(out, zigzag(value));
}

/// Writes a mask of the numbers that are not 0, with more bits above, and then these numbers in a unit.
#[inline]
pub(crate) fn write_known(out: &mut Vec<u8>, more_bits: u64, numbers: &[u64], unit: u64) {
    let known = || numbers.iter().enumerate().filter(|(_, number)| **number != 0);
    write(out, known().fold(more_bits, |mask, (bit, _)| mask | 1 << bit));
    known().for_each(|(_, number)| write(out, number / unit));
}

/// Values below it fit four bytes.
const FOUR_BYTES: u64 = 1 << 28;

/// Most bytes of a row: what a [`VarintRow`] may hold.
const ROW_BYTES: usize = 128;

/// Writes rows of varints into memory that is reused and never shrinks.
#[derive(Debug, Default)]
pub(crate) struct VarintPacker {
    bytes: Vec<u8>,
    at: usize,
}

/// One row being written, in space reserved beforehand. At most 11 numbers and a few bytes; bytes beyond [`ROW_BYTES`] are cut off.
#[derive(Debug)]
pub(crate) struct VarintRow<'a> {
    bytes: &'a mut [u8; ROW_BYTES],
    at: usize,
}

impl VarintPacker {
    /// Begins again with no rows, in the same memory.
    pub(crate) fn clear(&mut self) {
        // The old bytes stay: `as_bytes` ends at `at`, and the next rows overwrite them.
        self.at = 0;
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.at).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn row(&mut self, write: impl FnOnce(&mut VarintRow<'_>)) {
        // Reserved for the largest row, so that the numbers of a row need no check for growth.
        if self.bytes.len() < self.at + ROW_BYTES {
            self.bytes.resize((self.at + ROW_BYTES).next_power_of_two().max(4096), 0);
        }
        if let Some(bytes) = self.bytes.get_mut(self.at..).and_then(<[u8]>::first_chunk_mut) {
            let mut row = VarintRow { bytes, at: 0 };
            write(&mut row);
            // A row that was cut off has counted on beyond its end.
            self.at += row.at.min(ROW_BYTES);
        }
    }
}

impl VarintRow<'_> {
    /// Appends `value`. The processor predicts the branches well: a field's numbers are mostly of one size.
    #[inline]
    pub(crate) fn put(&mut self, value: u64) {
        if value < 0x80 {
            self.put_byte((value & 0x7f) as u8);
        } else if value < FOUR_BYTES {
            self.put_short((value & 0x0fff_ffff) as u32);
        } else {
            self.put_long(value);
        }
    }

    #[inline]
    pub(crate) fn put_signed(&mut self, value: i64) {
        self.put(zigzag(value));
    }

    /// Appends one byte and returns its position.
    #[inline]
    pub(crate) fn put_byte(&mut self, byte: u8) -> usize {
        let at = self.at;
        self.set_byte(at, byte);
        self.at += 1;
        at
    }

    #[inline]
    pub(crate) fn set_byte(&mut self, at: usize, byte: u8) {
        if let Some(place) = self.bytes.get_mut(at) {
            *place = byte;
        }
    }

    /// Two to four bytes: seven bits are spread to each byte of a word, which is stored whole.
    #[inline]
    fn put_short(&mut self, value: u32) {
        let spread = (value & 0x3fff) | (value & 0x0fff_c000) << 2;
        let spread = (spread & 0x007f_007f) | (spread & 0x3f80_3f80) << 1;
        let len = 2 + usize::from(value >= 1 << 14) + usize::from(value >= 1 << 21);
        // Every byte but the last says that more follow.
        let more = 0x0080_8080 >> (8 * (4 - len));
        // Four bytes even where the number is shorter: the next number overwrites the rest.
        if let Some(place) = self.bytes.get_mut(self.at..self.at + 4) {
            place.copy_from_slice(&(spread | more).to_le_bytes());
        }
        self.at += len;
    }

    fn put_long(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.put_byte((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.put_byte((value & 0x7f) as u8);
    }
}

#[derive(Copy, Clone, Debug)]
pub(crate) struct VarintCursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> VarintCursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Behind the first byte, which is that of a format.
    pub(crate) fn open(bytes: &'a [u8], format: u8) -> Result<Self, Malformed> {
        let mut cursor = Self::new(bytes);
        if cursor.u8()? == format { Ok(cursor) } else { Err(cursor.malformed("unknown format")) }
    }

    pub(crate) fn malformed(&self, what: &'static str) -> Malformed {
        Malformed { offset: self.at, what }
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Reads one byte; an error at the end of the section.
    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        let byte = *self.bytes.get(self.at).ok_or_else(|| self.malformed("ends early"))?;
        self.at += 1;
        Ok(byte)
    }

    /// Reads one varint; a number above 64 bits is an error.
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
            // Nine bytes hold 63 bits, so the tenth may only add the last bit, and no byte may follow it.
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

    #[inline]
    pub(crate) fn i64(&mut self) -> Result<i64, Malformed> {
        self.u64().map(unzigzag)
    }

    /// A varint that must fit the smaller type.
    pub(crate) fn narrow<T: TryFrom<u64>>(&mut self) -> Result<T, Malformed> {
        let value = self.u64()?;
        T::try_from(value).map_err(|_| self.malformed("number out of range"))
    }

    /// Reads a number in a unit for each bit that is set in `mask`.
    pub(crate) fn known(&mut self, mask: u64, unit: u64, numbers: &mut [u64]) -> Result<(), Malformed> {
        for (_, number) in numbers.iter_mut().enumerate().filter(|(bit, _)| mask & 1 << bit != 0) {
            *number = self.u64()?.wrapping_mul(unit);
        }
        Ok(())
    }

    /// Steps over `count` numbers: bytes that end one are counted, eight at a time. The numbers themselves are not decoded.
    pub(crate) fn skip(&mut self, mut count: usize) -> Result<(), Malformed> {
        const MORE: u64 = 0x8080_8080_8080_8080;
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        for word in rest.chunks_exact(8).filter_map(|word| word.try_into().ok().map(u64::from_le_bytes)) {
            // One bit for each byte that ends a number; the highest byte of the product is their sum.
            let ends = (!word & MORE) >> 7;
            let ended = (ends.wrapping_mul(0x0101_0101_0101_0101) >> 56) as usize;
            // The last number may end inside this word: the rest is counted byte by byte.
            if ended >= count {
                break;
            }
            (count, self.at) = (count - ended, self.at + 8);
        }
        while count > 0 {
            count -= usize::from(self.u8()? < 0x80);
        }
        Ok(())
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

    /// [`VarintCursor::count`] with a limit of `most`; the error is `what`.
    pub(crate) fn count_to(
        &mut self,
        each: usize,
        most: usize,
        what: &'static str,
    ) -> Result<usize, Malformed> {
        let count = self.count(each)?;
        if count <= most { Ok(count) } else { Err(self.malformed(what)) }
    }

    /// How many numbers there are up to the end, where nothing else follows.
    pub(crate) fn numbers(&self) -> usize {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        rest.iter().filter(|byte| **byte < 0x80).count()
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        // `len` is read from the file and may be anything.
        let end = self.at.checked_add(len).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or_else(|| self.malformed("ends early"))?;
        let slice = &self.bytes[self.at..end];
        self.at = end;
        Ok(slice)
    }

    pub(crate) fn section_bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.count(1)?;
        self.bytes(len)
    }

    pub(crate) fn section(&mut self) -> Result<VarintCursor<'a>, Malformed> {
        self.section_bytes().map(VarintCursor::new)
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
            let mut packer = VarintPacker::default();
            for &value in &values {
                packer.row(|row| {
                    row.put_signed(value);
                    row.put(value.cast_unsigned());
                });
            }
            prop_assert_eq!(packer.as_bytes(), &bytes[..]);
            let mut cursor = VarintCursor::new(&bytes);
            prop_assert_eq!(cursor.numbers(), 2 * values.len());
            for &value in &values {
                prop_assert_eq!(cursor.i64().unwrap(), value);
                prop_assert_eq!(cursor.u64().unwrap(), value.cast_unsigned());
            }
            prop_assert_eq!(cursor.remaining(), 0);
        }

        #[test]
        fn numbers_are_stepped_over(values in proptest::collection::vec(any::<u64>(), 0..60), small in any::<u64>(), count in 0_usize..70) {
            let mut bytes = Vec::new();
            for (at, value) in values.iter().enumerate() {
                write(&mut bytes, if small >> (at % 64) & 1 == 1 { value % 200 } else { *value });
            }
            let (mut skipped, mut read) = (VarintCursor::new(&bytes), VarintCursor::new(&bytes));
            let done = skipped.skip(count);
            prop_assert_eq!(done.is_ok(), count <= values.len());
            if done.is_ok() {
                for _ in 0..count {
                    read.u64().unwrap();
                }
                prop_assert_eq!(skipped.remaining(), read.remaining());
            }
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut cursor = VarintCursor::new(&bytes);
            while cursor.u64().is_ok() {}
            prop_assert!(cursor.remaining() <= bytes.len());
        }
    }

    #[test]
    fn numbers_of_every_length_are_packed_alike() {
        let (mut packer, mut bytes) = (VarintPacker::default(), Vec::new());
        for bits in 0..64 {
            for value in [1_u64 << bits, (1 << bits) - 1, u64::MAX >> bits] {
                write(&mut bytes, value);
                packer.row(|row| row.put(value));
            }
        }
        assert_eq!(packer.as_bytes(), bytes);
        packer.row(|row| {
            let at = row.put_byte(7);
            row.set_byte(at, 9);
        });
        assert_eq!(packer.as_bytes().last(), Some(&9));
        packer.clear();
        assert!(packer.as_bytes().is_empty());
    }

    #[test]
    fn the_longest_row_fits() {
        let mut packer = VarintPacker::default();
        packer.row(|row| (0..11).for_each(|_| row.put(u64::MAX)));
        assert_eq!(packer.as_bytes().len(), 110);
        packer.row(|row| (0..20).for_each(|_| row.put(u64::MAX)));
        assert_eq!(packer.as_bytes().len(), 110 + ROW_BYTES);
    }

    #[test]
    fn a_number_above_64_bits_is_refused() {
        assert!(VarintCursor::new(&[0xff; 11]).u64().is_err());
        assert_eq!(
            VarintCursor::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).u64(),
            Ok(u64::MAX)
        );
    }
}
