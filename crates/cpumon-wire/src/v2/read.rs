//! [`TableReader`]: reads a section row by row. A table describes its columns, so columns that are not known
//! here are read and left out.

use std::borrow::Cow;

use super::bits::BitReader;
use super::columns::{
    COMM, ColumnDescription, ColumnKind, ID_LIMIT, Relative, UNITS, Unreadable, add_difference, relative,
};
use super::table::MIN_ROW_BITS;
use crate::{DecodeError, Reason};

pub(crate) const MAX_COLUMNS: usize = 64;
/// Index for values of unknown columns.
const UNKNOWN: usize = ID_LIMIT;

/// A text's place in the frame's text buffer. It is UTF-8, but for names of threads.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TextSpan {
    pub(crate) begin: u32,
    pub(crate) len: u32,
}

/// A set of known columns, 128 in each word.
#[derive(Copy, Clone, Debug, Default)]
struct Present([u128; ID_LIMIT.div_ceil(128)]);

impl Present {
    /// Adds a column; false if it is there already.
    fn add(&mut self, id: usize) -> bool {
        let is_new = !self.has(id);
        self.0[id / 128] |= 1 << (id % 128);
        is_new
    }

    fn has(&self, id: usize) -> bool {
        self.0[id / 128] >> (id % 128) & 1 != 0
    }
}

/// A column made ready for reading.
#[derive(Copy, Clone, Debug)]
struct PreparedColumn {
    /// Index into `values`.
    to: usize,
    column: ColumnDescription,
    unit: u64,
    relative: Relative,
}

const NO_COLUMN: PreparedColumn = PreparedColumn {
    to: UNKNOWN,
    column: ColumnDescription {
        id: 0,
        kind: ColumnKind::Fixed,
        prefix: 0,
        min: 0,
        zero_is_apart: false,
        unit: 0,
    },
    unit: 1,
    relative: Relative::No,
};

/// Reads the rows of one table; the values of a row stay until the next one.
#[derive(Debug)]
pub(crate) struct TableReader<'a> {
    bits: BitReader<'a>,
    /// Offset in the datagram at which the bits begin.
    bits_at: usize,
    /// Columns that a row may change.
    columns: [PreparedColumn; MAX_COLUMNS],
    count: usize,
    /// Number of `columns` that begin a group.
    groups: usize,
    has_groups: bool,
    /// Number of columns, including those that no row changes.
    described: usize,
    rows_left: u16,
    is_first: bool,
    values: [u64; ID_LIMIT + 1],
    spans: [TextSpan; ID_LIMIT + 1],
    present: Present,
    /// Whether the row read last begins a group.
    pub(crate) begins_group: bool,
}

impl<'a> TableReader<'a> {
    /// `body`: a section without its type and length; `offset`: where it begins in the datagram.
    pub(crate) fn new(body: &'a [u8], offset: usize) -> Result<Self, DecodeError> {
        let cut = DecodeError::new(offset + body.len(), Reason::Truncated);
        let (&[count, groups], rest) = body.split_first_chunk().ok_or(cut)?;
        let (described, described_groups) = (usize::from(count), usize::from(groups));
        if described > MAX_COLUMNS || described_groups > described {
            return Err(DecodeError::new(offset, Reason::BadColumn));
        }
        let (mut columns, mut count, mut groups) = ([NO_COLUMN; MAX_COLUMNS], 0, 0);
        let mut values = [0; ID_LIMIT + 1];
        let mut present = Present::default();
        let (descriptions, rest) = rest.split_at_checked(described * ColumnDescription::BYTES).ok_or(cut)?;
        for (at, description) in descriptions.as_chunks::<{ ColumnDescription::BYTES }>().0.iter().enumerate()
        {
            let error = DecodeError::new(offset + 2 + at * ColumnDescription::BYTES, Reason::BadColumn);
            let column = ColumnDescription::from_bytes(*description).ok_or(error)?;
            let ready = ready(column);
            // Unknown columns share one place, so only a known one can be doubled.
            if ready.to != UNKNOWN && !present.add(ready.to) {
                return Err(error);
            }
            // A sender may describe many columns that take no bits: they must not cost time in each row.
            if let Some(value) = unchanged(column, &ready) {
                values[ready.to] = value;
                continue;
            }
            columns[count] = ready;
            count += 1;
            groups += usize::from(at < described_groups);
        }
        let (&rows, rest) = rest.split_first_chunk().ok_or(cut)?;
        let rows_left = u16::from_le_bytes(rows);
        let bits_at = offset + body.len() - rest.len();
        // Callers reserve memory for the rows: a forged count must not be more than the bytes can hold.
        if usize::from(rows_left) * MIN_ROW_BITS as usize > rest.len() * 8 + MIN_ROW_BITS as usize {
            return Err(DecodeError::new(bits_at - 2, Reason::TooManyRows));
        }
        Ok(Self {
            bits: BitReader::new(rest),
            bits_at,
            columns,
            count,
            groups,
            has_groups: described_groups > 0,
            described,
            rows_left,
            is_first: true,
            values,
            spans: [TextSpan::default(); ID_LIMIT + 1],
            present,
            begins_group: false,
        })
    }

    /// Values of rows that are still to come, those that take no bits included.
    pub(crate) fn cells_left(&self) -> usize {
        self.rows_left() * self.described.max(1)
    }

    pub(crate) fn rows_left(&self) -> usize {
        usize::from(self.rows_left)
    }

    pub(crate) fn has(&self, id: u8) -> bool {
        self.present.has(id.into())
    }

    /// Whether the table has one of these columns: bit n is column n, of the first 128.
    pub(crate) fn has_any(&self, columns: u128) -> bool {
        self.present.0[0] & columns != 0
    }

    /// The value of a column in the current row; 0 if the table has none.
    #[inline]
    pub(crate) fn value(&self, id: u8) -> u64 {
        self.values[usize::from(id)]
    }

    /// The text of a column in the current row; empty if the table has none.
    pub(crate) fn span(&self, id: u8) -> TextSpan {
        self.spans[usize::from(id)]
    }

    pub(crate) fn error(&self, reason: Reason) -> DecodeError {
        DecodeError::new(self.bits_at + self.bits.byte_offset(), reason)
    }

    pub(crate) fn out_of_range(&self, id: u8) -> DecodeError {
        self.error(Reason::OutOfRange).in_column(id)
    }

    /// Value of a column in a narrower type; an error if it does not fit.
    pub(crate) fn narrow<T: TryFrom<u64>>(&self, id: u8) -> Result<T, DecodeError> {
        T::try_from(self.value(id)).map_err(|_| self.out_of_range(id))
    }

    /// A folded signed value of a column that must fit its type.
    pub(crate) fn narrow_signed<T: TryFrom<i64>>(&self, id: u8, value: i64) -> Result<T, DecodeError> {
        T::try_from(value).map_err(|_| self.out_of_range(id))
    }

    /// Reads the next row; false if there is none. Texts are appended to `texts`.
    pub(crate) fn next_row(&mut self, texts: &mut Vec<u8>) -> Result<bool, DecodeError> {
        if self.rows_left == 0 {
            return Ok(false);
        }
        self.rows_left -= 1;
        self.begins_group = self.is_first;
        if self.has_groups {
            let flag = self.bits.take(1).ok_or_else(|| self.error(Reason::Truncated))?;
            self.begins_group |= flag == 1;
        }
        let from = if self.begins_group { 0 } else { self.groups };
        for at in from..self.count {
            let column = self.columns[at];
            if column.column.kind == ColumnKind::Text {
                self.text(column, texts)?;
            } else {
                self.number(column)?;
            }
        }
        self.is_first = false;
        Ok(true)
    }

    #[inline]
    fn coded(&mut self, column: PreparedColumn) -> Result<u64, DecodeError> {
        column.column.take(&mut self.bits).map_err(|reason| match reason {
            Unreadable::Overflow => self.overflow(column),
            Unreadable::Truncated => self.error(Reason::Truncated),
        })
    }

    fn overflow(&self, column: PreparedColumn) -> DecodeError {
        let error = self.error(Reason::Overflow);
        // The place of unknown columns is behind all numbers that are known.
        u8::try_from(column.to).ok().filter(|_| column.to != UNKNOWN).map_or(error, |id| error.in_column(id))
    }

    #[inline]
    fn number(&mut self, column: PreparedColumn) -> Result<(), DecodeError> {
        let coded = self.coded(column)?;
        let before = match column.relative {
            Relative::No => {
                let value = if column.unit == 1 { Some(coded) } else { coded.checked_mul(column.unit) };
                self.values[column.to] = value.ok_or_else(|| self.overflow(column))?;
                return Ok(());
            }
            Relative::ToGroup(base) if self.begins_group => self.values[usize::from(base)],
            _ => self.values[column.to],
        };
        let value = add_difference(before, coded, column.unit, column.column.kind == ColumnKind::Folded);
        self.values[column.to] = value.ok_or_else(|| self.overflow(column))?;
        Ok(())
    }

    fn text(&mut self, column: PreparedColumn, texts: &mut Vec<u8>) -> Result<(), DecodeError> {
        let coded = self.coded(column)?;
        if coded == 0 {
            // The text of the row before stays where it is.
            return if self.is_first { Err(self.error(Reason::NothingToRepeat)) } else { Ok(()) };
        }
        let len = coded - 1;
        // Checked before the first byte, so a forged length appends nothing to the texts.
        if len > (self.bits.bits_left() / 8) as u64 {
            return Err(self.error(Reason::Truncated));
        }
        let overflow = self.error(Reason::Overflow);
        let begin = u32::try_from(texts.len()).map_err(|_| overflow)?;
        let len = u32::try_from(len).map_err(|_| overflow)?;
        for _ in 0..len {
            let byte = self.bits.take(8).ok_or_else(|| self.error(Reason::Truncated))?;
            texts.push(byte.to_le_bytes()[0]);
        }
        // Once here, and not for each of the rows that repeat it. The kernel's own names of threads stay bytes.
        if column.to != usize::from(COMM) {
            make_utf8(texts, begin as usize);
        }
        let len = u32::try_from(texts.len()).unwrap_or(u32::MAX).saturating_sub(begin);
        self.spans[column.to] = TextSpan { begin, len };
        Ok(())
    }
}

/// Makes text of the bytes from `begin` on: bytes that are no UTF-8 become U+FFFD.
fn make_utf8(texts: &mut Vec<u8>, begin: usize) {
    let bytes = texts.get(begin..).unwrap_or_default();
    if let Cow::Owned(text) = String::from_utf8_lossy(bytes) {
        texts.truncate(begin);
        texts.extend_from_slice(text.as_bytes());
    }
}

/// The value of a column that is the same in each row and takes no bits.
fn unchanged(column: ColumnDescription, ready: &PreparedColumn) -> Option<u64> {
    let constant = column.constant()?;
    match (column.kind, ready.relative, constant) {
        // A text without bytes. One that is as in the row before has none to repeat in the first row.
        (ColumnKind::Text, _, 1) => Some(0),
        (ColumnKind::Text, ..) => None,
        (_, Relative::No, _) => Some(constant * ready.unit),
        (_, Relative::ToRowBefore, 0) => Some(0),
        // It grows with each row, or begins again with each group.
        _ => None,
    }
}

fn ready(column: ColumnDescription) -> PreparedColumn {
    let id = usize::from(column.id);
    PreparedColumn {
        to: if id < ID_LIMIT { id } else { UNKNOWN },
        column,
        unit: UNITS.get(column.unit).copied().unwrap_or(1),
        relative: relative(column.id),
    }
}
