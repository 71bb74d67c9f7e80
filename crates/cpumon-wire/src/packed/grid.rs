//! [`Grid`]: a section of a frame as columns of absolute values, from which the same bytes can be written
//! again. The types of the frame decoder cannot do this: they leave out columns that this program does not
//! know.

use super::memory::KEY_COLUMNS;
use crate::v2::bits::{BitReader, BitWriter};
use crate::v2::columns::{ColumnDescription, ColumnKind, Relative, add_difference, relative};
use crate::v2::read::MAX_COLUMNS;
use crate::v2::table::{PlannedColumn, RowWriter, Texts};

/// Most values of a table: 4 MiB while it is taken apart.
pub(super) const MAX_VALUES: usize = 1 << 19;
/// Index of each of the kind's key columns among a table's columns.
pub(super) type KeySlots = [Option<usize>; KEY_COLUMNS];
/// Values that stay allotted between records: a record of 200,000 values comes seldom.
const BUFFER_VALUES: usize = 1 << 14;
/// Longest section, bytes, its type and length not counted.
pub(super) const MAX_BODY: usize = 0xffff;

/// A table, reused from section to section.
#[derive(Debug, Default)]
pub(super) struct Grid {
    pub(super) columns: Vec<PlannedColumn>,
    /// Number of leading columns, written once for each group of rows.
    pub(super) groups: usize,
    /// A value for each row and column. A text is its start and length in `texts`.
    pub(super) values: Vec<u64>,
    pub(super) texts: Texts,
}

impl Grid {
    pub(super) fn clear(&mut self) {
        self.columns.clear();
        self.groups = 0;
        self.values.clear();
        self.texts.clear();
    }

    /// Frees memory that only few records need.
    pub(super) fn trim(&mut self) {
        self.clear();
        self.values.shrink_to(BUFFER_VALUES);
    }

    /// Adds a column. `None`: the grid has it already; the memory has one column for each id.
    pub(super) fn add_column(&mut self, column: ColumnDescription) -> Option<()> {
        let place = |id: u8| self.columns.iter().position(|known| known.column.id == id);
        if place(column.id).is_some() {
            return None;
        }
        let base = if let Relative::ToGroup(base) = relative(column.id) { place(base) } else { None };
        self.columns.push(PlannedColumn::new(column, self.columns.len(), base));
        Some(())
    }

    pub(super) fn rows(&self) -> usize {
        self.values.len() / self.columns.len().max(1)
    }

    pub(super) fn row(&self, at: usize) -> &[u64] {
        let width = self.columns.len();
        self.values.get(at * width..(at + 1) * width).unwrap_or_default()
    }

    pub(super) fn text(&self, value: u64) -> &[u8] {
        self.texts.of(value)
    }

    pub(super) fn set(&mut self, at: usize, slot: usize, value: u64) {
        if let Some(place) = self.values.get_mut(at * self.columns.len() + slot) {
            *place = value;
        }
    }

    /// The text of the row before in this column.
    pub(super) fn text_before(&self, at: usize, slot: usize) -> Option<(u64, &[u8])> {
        let value = *self.row(at.checked_sub(1)?).get(slot)?;
        Some((value, self.text(value)))
    }

    /// The value that represents this text in a row; `None`: more than a section holds.
    pub(super) fn put_text(&mut self, text: &[u8], at: usize, slot: usize) -> Option<u64> {
        if let Some((value, _)) = self.text_before(at, slot).filter(|before| before.1 == text) {
            return Some(value);
        }
        // A section's texts cannot be longer than its body: a device must not make a receiver store more.
        if self.texts.len() + text.len() > MAX_BODY {
            return None;
        }
        Some(self.texts.push(&[text]))
    }

    /// Takes a section apart. `None`: it is no table, or one that would not come back as it was.
    pub(super) fn read(&mut self, body: &[u8]) -> Option<()> {
        self.clear();
        let (&[count, groups], rest) = body.split_first_chunk()?;
        let (count, groups) = (usize::from(count), usize::from(groups));
        let (descriptions, rest) = rest.split_at_checked(count * ColumnDescription::BYTES)?;
        if count == 0 || count > MAX_COLUMNS || groups > count {
            return None;
        }
        for description in descriptions.as_chunks::<{ ColumnDescription::BYTES }>().0 {
            // A section with a column twice is sent byte by byte.
            self.add_column(ColumnDescription::from_bytes(*description)?)?;
        }
        self.groups = groups;
        let (&rows, rest) = rest.split_first_chunk()?;
        let rows = usize::from(u16::from_le_bytes(rows));
        if rows * count > MAX_VALUES {
            return None;
        }
        let mut bits = BitReader::new(rest);
        for at in 0..rows {
            self.read_row(at, &mut bits)?;
        }
        // `write` fills up the last byte only: whole bytes behind the last row would not come back.
        (bits.bits_left() < 8).then_some(())
    }

    fn read_row(&mut self, at: usize, bits: &mut BitReader<'_>) -> Option<()> {
        let width = self.columns.len();
        let begins_group = (self.groups > 0 && bits.take(1)? == 1) || at == 0;
        let begin = self.values.len();
        for slot in 0..width {
            // `row` has the values of this row before `slot`: a value may refer to no later one.
            let (known, row) = self.values.split_at(begin);
            let before = known.len().checked_sub(width).map(|from| &known[from..]);
            let of_before = before.map(|before| before[slot]);
            let value = if slot < self.groups && !begins_group {
                of_before?
            } else {
                let planned = self.columns[slot];
                let base = planned.base(row, before, begins_group);
                self.read_value(planned, base, of_before, bits)?
            };
            self.values.push(value);
        }
        Some(())
    }

    /// `base`: what a number is the difference to; `before`: the value of the row before, which a text may repeat.
    fn read_value(
        &mut self,
        planned: PlannedColumn,
        base: Option<u64>,
        before: Option<u64>,
        bits: &mut BitReader<'_>,
    ) -> Option<u64> {
        let (column, unit) = (planned.column, planned.unit);
        let coded = column.take(bits).ok()?;
        if column.kind == ColumnKind::Text {
            if coded == 0 {
                return before;
            }
            let len = usize::try_from(coded - 1).ok().filter(|&len| len <= bits.bits_left() / 8)?;
            return self.texts.take(len, bits);
        }
        let Some(base) = base else { return coded.checked_mul(unit) };
        let value = add_difference(base, coded, unit, column.kind == ColumnKind::Folded)?;
        // `write` divides by the unit, so a value between two units would not come back.
        value.is_multiple_of(unit).then_some(value)
    }

    /// Appends the section, with its type and length. `None`: a value does not fit its column, or it is too long.
    pub(super) fn write(&self, kind: u8, out: &mut Vec<u8>) -> Option<()> {
        let (begin, rows) = (out.len(), self.rows());
        let writer = RowWriter { columns: &self.columns, groups: self.groups, texts: &self.texts };
        writer.head(kind, out);
        out.extend_from_slice(&u16::try_from(rows).ok()?.to_le_bytes());
        let mut bits = BitWriter::default();
        for at in 0..rows {
            let (row, before) = (self.row(at), at.checked_sub(1).map(|before| self.row(before)));
            // The flag is not remembered: it follows from the values. A section where it does not is sent byte by
            // byte.
            let begins_group = before.is_none_or(|before| before[..self.groups] != row[..self.groups]);
            writer.row(row, before, begins_group, &mut bits, out)?;
            if out.len() - begin > MAX_BODY {
                return None;
            }
        }
        bits.finish(out);
        let body = u16::try_from(out.len() - begin - 3).ok()?;
        out.get_mut(begin + 1..begin + 3)?.copy_from_slice(&body.to_le_bytes());
        Some(())
    }
}
