//! The counters of rows as numbers: those of a row behind each other in a blob, or those of many rows in columns of a chunk.
//!
//! Run time is the sum of user and system time where the source scales them (the usual case), so only the difference is stored, which is
//! mostly 0. All arithmetic wraps: any numbers come back as they were.

use cpumon_model::Delta;

use super::varint::{self, Malformed, VarintCursor, VarintRow, unzigzag, write_section, zigzag};

/// Clock tick of /proc in ns: sources that split by ticks give whole ticks.
pub(crate) const TICK_NS: i64 = 10_000_000;

/// Parts of a row, one for each counter of [`Delta`] and in their order. The part of run time is its excess over user and system time.
pub(crate) const PARTS: usize = Delta::NAMES.len();

/// Parts of a section that is not wide: those of the first format. Sections without page faults are written so.
const NARROW_PARTS: usize = 6;

/// How the values of a section are written; one for all its rows.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Coding {
    /// User and system time are multiples of [`TICK_NS`] and written divided by it.
    pub(crate) in_ticks: bool,
    /// Run time is 0 in every row and not written.
    pub(crate) no_run: bool,
    /// Rows have all parts, not only [`NARROW_PARTS`].
    pub(crate) is_wide: bool,
}

impl Coding {
    /// The coding that fits rows of zeros.
    pub(crate) const TIGHTEST: Self = Self { in_ticks: true, no_run: true, is_wide: false };

    /// The coding that fits all these rows.
    pub(crate) fn of<'a>(rows: impl Iterator<Item = &'a Delta>) -> Self {
        let mut coding = Self::TIGHTEST;
        rows.for_each(|row| coding.widen(row));
        coding
    }

    #[inline]
    pub(crate) fn widen(&mut self, row: &Delta) {
        self.no_run &= row.run_ns == 0;
        self.is_wide |= row.to_array()[NARROW_PARTS..].iter().any(|part| *part != 0);
        // A row that does not fit decides for all: the divisions of later rows are saved.
        if self.in_ticks {
            self.in_ticks = is_small_tick(row.user_ns) && is_small_tick(row.system_ns);
        }
    }

    /// The coding byte in front of a section's values.
    pub(crate) fn bits(self) -> u8 {
        u8::from(self.in_ticks) | u8::from(self.no_run) << 1 | u8::from(self.is_wide) << 2
    }

    /// The reverse of [`Coding::bits`]; other bits have no meaning.
    pub(crate) fn from_bits(bits: u8) -> Self {
        Self { in_ticks: bits & 1 != 0, no_run: bits & 2 != 0, is_wide: bits & 4 != 0 }
    }

    fn part_count(self) -> usize {
        if self.is_wide { PARTS } else { NARROW_PARTS }
    }

    #[inline]
    fn parts(self, row: &Delta) -> [i64; PARTS] {
        let mut parts = row.to_array();
        let [user, system, run, ..] = &mut parts;
        // Without run time the difference would be −user − system in every row.
        *run = if self.no_run { 0 } else { run.wrapping_sub(*user).wrapping_sub(*system) };
        if self.in_ticks {
            (*user, *system) = (*user / TICK_NS, *system / TICK_NS);
        }
        parts
    }

    /// The reverse of [`Coding::parts`].
    #[inline]
    fn delta(self, mut parts: [i64; PARTS]) -> Delta {
        let [user, system, run, ..] = &mut parts;
        if self.in_ticks {
            (*user, *system) = (user.wrapping_mul(TICK_NS), system.wrapping_mul(TICK_NS));
        }
        *run = if self.no_run { 0 } else { run.wrapping_add(*user).wrapping_add(*system) };
        Delta::from_array(parts)
    }
}

/// A multiple of [`TICK_NS`] so small (below 18 minutes) that sums of four million such rows cannot wrap, so that they
/// are multiples too.
#[inline]
fn is_small_tick(ns: i64) -> bool {
    ns % TICK_NS == 0 && ns.unsigned_abs() < 1 << 40
}

/// `a + b`, wrapping: the reverse of [`difference`] for any values.
#[inline]
pub(crate) fn sum(a: &Delta, b: &Delta) -> Delta {
    a.zip_with(b, i64::wrapping_add)
}

/// `a − b`, wrapping.
#[inline]
pub(crate) fn difference(a: &Delta, b: &Delta) -> Delta {
    a.zip_with(b, i64::wrapping_sub)
}

/// Bit of a row's mask, whose lower bits are which parts follow. In a wide section: a second byte follows; in others: some part is
/// negative.
const MORE: u8 = 1 << NARROW_PARTS;
/// Bit of the second byte of a mask: some part is negative. The higher bits are which of the other parts follow.
const SIGNED: u8 = 1;

/// A mask of one or two bytes, then the parts that are not zero.
#[inline]
pub(super) fn put_values(out: &mut VarintRow<'_>, coding: Coding, row: &Delta, mut mask: u8) {
    let mut parts = coding.parts(row);
    let mut more = 0;
    // The sign bit of the OR is set if any part is negative. Otherwise zigzag would only cost a bit in each
    // number.
    if parts.iter().fold(0, |all, part| all | part) < 0 {
        more = SIGNED;
        parts = parts.map(|part| zigzag(part).cast_signed());
    }
    for (bit, part) in parts[NARROW_PARTS..].iter().enumerate() {
        more |= u8::from(*part != 0) << (bit + 1);
    }
    // The mask comes before the parts, but is complete only after them: its byte is reserved here.
    let at = out.put_byte(0);
    if more != 0 {
        mask |= MORE;
        if coding.is_wide {
            out.put_byte(more);
        }
    }
    for (bit, part) in parts.into_iter().enumerate() {
        if part != 0 {
            mask |= if bit < NARROW_PARTS { 1 << bit } else { 0 };
            out.put(part.cast_unsigned());
        }
    }
    out.set_byte(at, mask);
}

#[inline]
pub(super) fn decode_values(coding: Coding, cursor: &mut VarintCursor<'_>) -> Result<(Delta, u8), Malformed> {
    let mask = cursor.u8()?;
    let more = match (mask & MORE != 0, coding.is_wide) {
        (false, _) => 0,
        (true, true) => cursor.u8()?,
        (true, false) => SIGNED,
    };
    let present = u16::from(mask & (MORE - 1)) | u16::from(more >> 1) << NARROW_PARTS;
    let mut parts = [0_i64; PARTS];
    for (bit, part) in parts.iter_mut().enumerate() {
        if present & 1 << bit != 0 {
            let raw = cursor.u64()?;
            *part = if more & SIGNED == 0 { raw.cast_signed() } else { unzigzag(raw) };
        }
    }
    Ok((coding.delta(parts), mask))
}

#[derive(Debug)]
pub(crate) struct DeltaReader<'a> {
    coding: Coding,
    signed: u8,
    columns: [VarintCursor<'a>; PARTS],
}

impl<'a> DeltaReader<'a> {
    pub(crate) fn open(cursor: &mut VarintCursor<'a>) -> Result<Self, Malformed> {
        let (coding, signed) = (Coding::from_bits(cursor.u8()?), cursor.u8()?);
        let mut columns = [VarintCursor::new(&[]); PARTS];
        for column in columns.iter_mut().take(coding.part_count()) {
            *column = cursor.section()?;
        }
        Ok(Self { coding, signed, columns })
    }

    /// Steps over as many rows without decoding them.
    pub(crate) fn skip(&mut self, rows: usize) -> Result<(), Malformed> {
        self.columns.iter_mut().take(self.coding.part_count()).try_for_each(|column| column.skip(rows))
    }

    /// Decodes the next row; an error where a column has ended.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Delta, Malformed> {
        let mut parts = [0_i64; PARTS];
        let columns = self.columns.iter_mut().take(self.coding.part_count());
        for (bit, (part, column)) in parts.iter_mut().zip(columns).enumerate() {
            let raw = column.u64()?;
            *part = if self.signed & 1 << bit == 0 { raw.cast_signed() } else { unzigzag(raw) };
        }
        Ok(self.coding.delta(parts))
    }
}

/// Writes the parts of `rows`, a section each, after a byte for the coding and one for which are signed.
pub(crate) fn write_values(rows: &[Delta], coding: Coding, out: &mut Vec<u8>) {
    let mut columns: [Vec<u8>; PARTS] = Default::default();
    // Found in a pass of its own: a column is zigzag as a whole, which costs a bit in each of its numbers.
    let mut signed = 0_u8;
    for row in rows {
        for (bit, part) in coding.parts(row).into_iter().enumerate() {
            signed |= u8::from(part < 0) << bit;
        }
    }
    for row in rows {
        for (bit, (part, column)) in coding.parts(row).into_iter().zip(&mut columns).enumerate() {
            let is_signed = signed & 1 << bit != 0;
            varint::write(column, if is_signed { zigzag(part) } else { part.cast_unsigned() });
        }
    }
    out.extend([coding.bits(), signed]);
    for column in columns.iter().take(coding.part_count()) {
        write_section(out, column);
    }
}
