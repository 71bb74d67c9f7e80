//! [`BitWriter`] and [`BitReader`]: numbers of 0 to 64 bits, the least significant bit first. Counters of
//! active threads differ so much that whole bytes would waste a fifth of a frame.

#[derive(Debug, Default)]
pub(crate) struct BitWriter {
    /// Bits not yet in the buffer, the lowest first; fewer than 8 between calls.
    pending: u64,
    count: u32,
}

impl BitWriter {
    /// Appends the low `width` bits of `value`; the bits above must be 0.
    pub(crate) fn put(&mut self, out: &mut Vec<u8>, value: u64, width: u32) {
        if width > 32 {
            self.put_short(out, value & 0xffff_ffff, 32);
            self.put_short(out, value >> 32, width - 32);
        } else {
            self.put_short(out, value, width);
        }
    }

    /// At most 32 bits, so that with the 7 pending ones no more than 4 bytes are whole.
    fn put_short(&mut self, out: &mut Vec<u8>, value: u64, width: u32) {
        self.pending |= value << self.count;
        self.count += width;
        let whole = (self.count / 8) as usize;
        out.extend_from_slice(&self.pending.to_le_bytes()[..whole]);
        self.pending >>= whole * 8;
        self.count %= 8;
    }

    /// Pads the last byte with zero bits.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        if self.count > 0 {
            out.push(self.pending.to_le_bytes()[0]);
        }
        *self = Self::default();
    }

    /// Position of the writer, for [`BitWriter::go_back`].
    pub(crate) fn mark(&self, out: &[u8]) -> BitMark {
        BitMark { pending: self.pending, count: self.count, len: out.len() }
    }

    /// Discards everything written since `mark`.
    pub(crate) fn go_back(&mut self, out: &mut Vec<u8>, mark: &BitMark) {
        out.truncate(mark.len);
        self.pending = mark.pending;
        self.count = mark.count;
    }

    /// Bytes that [`BitWriter::finish`] would leave in `out`.
    pub(crate) fn byte_len(&self, out: &[u8]) -> usize {
        out.len() + usize::from(self.count > 0)
    }
}

#[derive(Debug)]
pub(crate) struct BitMark {
    pending: u64,
    count: u32,
    len: usize,
}

#[derive(Debug)]
pub(crate) struct BitReader<'a> {
    bytes: &'a [u8],
    /// Position in bits.
    at: usize,
}

impl<'a> BitReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next `width` bits (at most 64); `None` if there are fewer.
    #[inline]
    pub(crate) fn take(&mut self, width: u32) -> Option<u64> {
        if width <= 56 {
            return self.take_short(width);
        }
        if self.bits_left() < width as usize {
            return None;
        }
        let low = self.take_short(32)?;
        Some(low | self.take_short(width - 32)? << 32)
    }

    /// At most 56 bits: with up to 7 bits before them they lie within 8 bytes.
    #[inline]
    fn take_short(&mut self, width: u32) -> Option<u64> {
        let (byte, bit) = (self.at / 8, self.at % 8);
        let word = match self.bytes.get(byte..byte + 8) {
            Some(eight) => u64::from_le_bytes(eight.try_into().ok()?),
            None => self.last_word(byte, width)?,
        };
        self.at += width as usize;
        Some((word >> bit) & ((1_u64 << width) - 1))
    }

    /// The word at `byte` near the end, zeros behind the end; `None` if `width` bits are not there.
    #[cold]
    fn last_word(&self, byte: usize, width: u32) -> Option<u64> {
        if self.at + width as usize > self.bytes.len() * 8 {
            return None;
        }
        let mut word = [0_u8; 8];
        let rest = self.bytes.get(byte..).unwrap_or_default();
        word[..rest.len()].copy_from_slice(rest);
        Some(u64::from_le_bytes(word))
    }

    /// Offset of the byte that contains the next bit.
    pub(crate) fn byte_offset(&self) -> usize {
        self.at / 8
    }

    pub(crate) fn bits_left(&self) -> usize {
        self.bytes.len() * 8 - self.at
    }
}

/// Number of significant bits of `value`; 0 for 0.
#[inline]
pub(crate) fn bit_len(value: u64) -> u32 {
    64 - value.leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_width_come_back() {
        let mut out = Vec::new();
        let mut writer = BitWriter::default();
        let value =
            |width: u32| if width == 0 { 0 } else { (0xdead_beef_0bad_f00d_u64 | 1 << 63) >> (64 - width) };
        for width in 0..=64 {
            writer.put(&mut out, value(width), width);
        }
        assert_eq!(writer.byte_len(&out), 260);
        writer.finish(&mut out);
        assert_eq!(out.len(), (64 * 65 / 2_usize).div_ceil(8));
        let mut reader = BitReader::new(&out);
        for width in 0..=64 {
            assert_eq!(reader.take(width), Some(value(width)), "{width}");
        }
        assert_eq!((reader.bits_left(), reader.take(1)), (0, None));
    }

    #[test]
    fn going_back_leaves_no_trace() {
        let (mut out, mut writer) = (Vec::new(), BitWriter::default());
        writer.put(&mut out, 5, 3);
        let mark = writer.mark(&out);
        writer.put(&mut out, u64::MAX, 64);
        writer.go_back(&mut out, &mark);
        writer.put(&mut out, 1, 1);
        writer.finish(&mut out);
        assert_eq!(out, [0b1101]);
    }
}
