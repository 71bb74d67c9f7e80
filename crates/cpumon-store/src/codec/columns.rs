//! Columns of a chunk as sections of varints. Numbers of one kind side by side compress twice as well as rows do.

use cpumon_model::Delta;

use super::meta::{COLUMNS, COUNT, Coding as MetaCoding, IN_EVERY_CHUNK, MetaRow};
use super::values::{Coding, PARTS};
use super::varint::{self, Cursor, Malformed, write_section};

/// Writes the six parts of `rows` as six sections, after a byte for the coding and one for which are signed.
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
            varint::write(column, if is_signed { varint::zigzag(part) } else { part.cast_unsigned() });
        }
    }
    out.extend([coding.bits(), signed]);
    for column in &columns {
        write_section(out, column);
    }
}

/// Reads rows of values one after the other.
#[derive(Debug)]
pub(crate) struct Values<'a> {
    coding: Coding,
    signed: u8,
    columns: [Cursor<'a>; PARTS],
}

impl<'a> Values<'a> {
    /// Finds the sections that [`write_values`] wrote.
    pub(crate) fn open(cursor: &mut Cursor<'a>) -> Result<Self, Malformed> {
        let (coding, signed) = (Coding::from_bits(cursor.u8()?), cursor.u8()?);
        let mut columns = [Cursor::new(&[]); PARTS];
        for column in &mut columns {
            *column = cursor.section()?;
        }
        Ok(Self { coding, signed, columns })
    }

    /// Steps over as many rows without decoding them.
    pub(crate) fn skip(&mut self, rows: usize) -> Result<(), Malformed> {
        self.columns.iter_mut().try_for_each(|column| column.skip(rows))
    }

    /// Decodes the next row; an error where a column has ended.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Delta, Malformed> {
        let mut parts = [0_i64; PARTS];
        for (bit, (part, column)) in parts.iter_mut().zip(&mut self.columns).enumerate() {
            let raw = column.u64()?;
            *part = if self.signed & 1 << bit == 0 { raw.cast_signed() } else { varint::unzigzag(raw) };
        }
        Ok(self.coding.delta(&parts))
    }
}

/// What a column's value is written as the difference to.
#[inline]
fn expected(coding: MetaCoding, at: usize, row: &MetaRow, before: &MetaRow) -> i64 {
    match coding {
        MetaCoding::Plain => 0,
        MetaCoding::Delta => before[at],
        MetaCoding::Continues(other) => before[other],
        MetaCoding::Alongside(other) => before[at].wrapping_add(row[other].wrapping_sub(before[other])),
        MetaCoding::Minus(other) => row[other],
    }
}

/// Writes the numbers of all intervals, column by column.
pub(crate) fn write_meta(rows: &[MetaRow], out: &mut Vec<u8>) {
    let mut column = Vec::new();
    // The last columns are written by `write_optional`, behind what older versions wrote.
    for (at, (_, coding)) in COLUMNS.iter().take(IN_EVERY_CHUNK).enumerate() {
        column.clear();
        let mut before = &[0; COUNT];
        for row in rows {
            varint::write_signed(&mut column, row[at].wrapping_sub(expected(*coding, at, row, before)));
            before = row;
        }
        write_section(out, &column);
    }
}

/// Reads what [`write_meta`] wrote into `rows`, which has the right length.
pub(crate) fn read_meta(cursor: &mut Cursor<'_>, rows: &mut [MetaRow]) -> Result<(), Malformed> {
    // Column by column: `expected` uses columns of the same row that were read before.
    for (at, (_, coding)) in COLUMNS.iter().take(IN_EVERY_CHUNK).enumerate() {
        let mut column = cursor.section()?;
        let mut before = [0; COUNT];
        for row in rows.iter_mut() {
            row[at] = column.i64()?.wrapping_add(expected(*coding, at, row, &before));
            before = *row;
        }
    }
    Ok(())
}

/// Writes the columns that a chunk may leave out, up to the last one that is not zero somewhere.
pub(crate) fn write_optional(rows: &[MetaRow], out: &mut Vec<u8>) {
    let is_needed = |at: &usize| rows.iter().any(|row| row[*at] != 0);
    let end = (IN_EVERY_CHUNK..COUNT).rfind(is_needed).map_or(IN_EVERY_CHUNK, |last| last + 1);
    for at in IN_EVERY_CHUNK..end {
        let (mut column, mut before) = (Vec::new(), 0_i64);
        for row in rows {
            varint::write_signed(&mut column, row[at].wrapping_sub(before));
            before = row[at];
        }
        write_section(out, &column);
    }
}

/// Reads what [`write_optional`] wrote; columns that are not there are zero.
pub(crate) fn read_optional(cursor: &mut Cursor<'_>, rows: &mut [MetaRow]) -> Result<(), Malformed> {
    for at in IN_EVERY_CHUNK..COUNT {
        // Chunks of stores before schema version 7 have none of them, those before version 10 the first at most.
        if cursor.remaining() == 0 {
            return Ok(());
        }
        let (mut column, mut before) = (cursor.section()?, 0_i64);
        for row in rows.iter_mut() {
            before = before.wrapping_add(column.i64()?);
            row[at] = before;
        }
    }
    Ok(())
}
