//! [`TableWriter`]: gathers rows of one kind and writes them as sections, each within one datagram. Widths and
//! units of columns are chosen for the gathered rows, once per snapshot. [`TextBudget`] cuts the texts of a row where it would not fit a
//! datagram.

use super::Frames;
use super::bits::{BitReader, BitWriter};
use super::columns::{
    ColumnDescription, ColumnKind, PID, PROCESS_START, Relative, SYSTEM, SYSTEM_REST, Tally, UNITS,
    average_bits, difference, properties, relative,
};

/// A row takes at least this many bits, so that a decoder can bound the number of rows by the bytes.
pub(crate) const MIN_ROW_BITS: u32 = 4;

/// Rows of a section that may have fewer bits than a decoder expects on average: all sections of a frame together stay below the
/// 4,096 rows that it allows.
const MAX_SHORT_ROWS: usize = 256;
/// Shorter datagrams have no space for more than it allows, bytes.
const ANY_ROWS_BYTES: usize = 2_048;

/// Which columns a table has.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Spec {
    /// Type of the section on the wire.
    pub(crate) section: u8,
    /// Columns that are the same for a group of rows; written when they change.
    pub(crate) group: &'static [u8],
    /// Columns of each row, in parts. Keys first.
    pub(crate) row: &'static [&'static [u8]],
}

impl Spec {
    pub(super) const fn alone(section: u8, row: &'static [&'static [u8]]) -> Self {
        Self { section, group: &[], row }
    }

    pub(super) const fn by_process(section: u8, row: &'static [&'static [u8]]) -> Self {
        Self { section, group: &[PID, PROCESS_START], row }
    }

    fn columns(self) -> impl Iterator<Item = u8> {
        self.group.iter().chain(self.row.iter().copied().flatten()).copied()
    }
}

/// A column of a table that is written.
#[derive(Copy, Clone, Debug)]
pub(crate) struct PlannedColumn {
    pub(crate) column: ColumnDescription,
    /// Index of its values in a row.
    slot: usize,
    /// Unit of the values, as a number of ns or of counts.
    pub(crate) unit: u64,
    relative: Relative,
    /// Slot of the column that the first row of a group is relative to; `usize::MAX`: the table has none.
    base_slot: usize,
}

impl PlannedColumn {
    pub(crate) fn new(column: ColumnDescription, slot: usize, base_slot: Option<usize>) -> Self {
        let (unit, relative) = (UNITS[column.unit], relative(column.id));
        Self { column, slot, unit, relative, base_slot: base_slot.unwrap_or(usize::MAX) }
    }

    /// The value that its number in a row is the difference to; `None`: it is the value itself.
    #[inline]
    pub(crate) fn base(&self, row: &[u64], before: Option<&[u64]>, begins_group: bool) -> Option<u64> {
        let of_group = match self.relative {
            Relative::No => return None,
            Relative::ToGroup(_) if begins_group => row.get(self.base_slot),
            _ => None,
        };
        let base = of_group.or_else(|| before?.get(self.slot));
        Some(base.copied().unwrap_or(0))
    }
}

/// Writes the rows of a section. The first `groups` columns are written for the first row of a group only.
pub(crate) struct RowWriter<'t> {
    pub(crate) columns: &'t [PlannedColumn],
    pub(crate) groups: usize,
    pub(crate) texts: &'t Texts,
}

impl RowWriter<'_> {
    /// Writes type and columns, with a length of 0.
    pub(crate) fn head(&self, kind: u8, out: &mut Vec<u8>) {
        out.extend_from_slice(&[kind, 0, 0, low_byte(self.columns.len()), low_byte(self.groups)]);
        for planned in self.columns {
            out.extend_from_slice(&planned.column.to_bytes());
        }
    }

    /// `before`: the row before in the section. `None`: a value does not fit its column.
    pub(crate) fn row(
        &self,
        row: &[u64],
        before: Option<&[u64]>,
        begins_group: bool,
        bits: &mut BitWriter,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        if self.groups > 0 {
            bits.put(out, u64::from(begins_group), 1);
        }
        for planned in &self.columns[if begins_group { 0 } else { self.groups }..] {
            let value = row[planned.slot];
            if planned.column.kind == ColumnKind::Text {
                let before = before.and_then(|before| before.get(planned.slot)).copied();
                self.texts.put(value, before, planned.column, bits, out)?;
                continue;
            }
            let coded = match planned.base(row, before, begins_group) {
                None if planned.unit == 1 => value,
                None => value / planned.unit,
                Some(base) => {
                    difference(value, base, planned.unit, planned.column.kind == ColumnKind::Folded)
                }
            };
            planned.column.put(coded, bits, out)?;
        }
        Some(())
    }
}

#[derive(Copy, Clone, Debug, Default)]
struct Written {
    rows: usize,
    /// The datagram must end here, though it has space: its rows are so short that a decoder would refuse more.
    is_full: bool,
}

/// Rows gathered for one section type. Kept and reused.
#[derive(Debug, Default)]
pub(crate) struct TableWriter {
    /// `stride` values per row: group columns, then row columns. A text is its start and length in `texts`.
    values: Vec<u64>,
    texts: Texts,
    stride: usize,
    tallies: Vec<Tally>,
    planned: Vec<PlannedColumn>,
    planned_groups: usize,
}

impl TableWriter {
    /// Adds a row: a value for each group and row column of the table's [`Spec`], in that order.
    pub(crate) fn push(&mut self, row: &[u64]) {
        self.values.extend_from_slice(row);
    }

    /// Adds a text, gives the value that represents it in a row.
    pub(crate) fn text(&mut self, text: &[u8]) -> u64 {
        self.texts.push(&[text])
    }

    /// Adds a text: `kept`, followed by `mark`.
    pub(crate) fn cut_text(&mut self, kept: &[u8], mark: &[u8]) -> u64 {
        self.texts.push(&[kept, mark])
    }

    /// Writes all rows into frames, and forgets them. Returns how many did not fit even an empty datagram.
    pub(crate) fn write(&mut self, spec: Spec, frames: &mut Frames<'_>) -> u64 {
        self.stride = spec.columns().count();
        let rows = self.values.len() / self.stride;
        if rows == 0 {
            return 0;
        }
        self.tally(spec, rows);
        self.plan(spec);
        let mut lost = 0;
        let mut at = 0;
        while at < rows {
            let written = self.write_section(spec, at, rows, frames);
            at += written.rows;
            if written.is_full && at < rows && !frames.next_datagram() {
                // The header cannot number more datagrams.
                lost += (rows - at) as u64;
                break;
            }
            // An empty datagram does not take this row either, or there are no more.
            if written.rows == 0 && !frames.next_datagram() {
                lost += 1;
                at += 1;
            }
        }
        self.values.clear();
        self.texts.clear();
        lost
    }

    fn row(&self, at: usize) -> &[u64] {
        self.values.get(at * self.stride..(at + 1) * self.stride).unwrap_or_default()
    }

    /// Whether a row begins a group: its group columns differ from the row's before.
    fn begins_group(&self, at: usize, groups: usize) -> bool {
        groups > 0 && (at == 0 || self.row(at)[..groups] != self.row(at - 1)[..groups])
    }

    /// Reads every value once for its unit and once for its width.
    fn tally(&mut self, spec: Spec, rows: usize) {
        let mut tallies = std::mem::take(&mut self.tallies);
        tallies.clear();
        tallies.extend(spec.columns().enumerate().map(|(slot, id)| Tally::new(id, slot)));
        for tally in tallies.iter_mut().filter(|tally| properties(tally.id).has_unit) {
            tally.unit = self.largest_unit(tally.slot);
        }
        for at in 0..tallies.len() {
            // A difference is a multiple of the smaller of both columns' units, as each unit is a multiple of all smaller ones.
            if let Relative::ToGroup(base) = relative(tallies[at].id)
                && let Some(base) = tallies.iter().find(|tally| tally.id == base)
            {
                tallies[at].unit = tallies[at].unit.min(base.unit);
            }
        }
        for tally in &mut tallies {
            self.measure(tally, spec, rows);
            // `measure` stops at the first negative difference, but folding changes the length of every
            // value.
            if tally.folded {
                *tally = Tally { unit: tally.unit, folded: true, ..Tally::new(tally.id, tally.slot) };
                self.measure(tally, spec, rows);
            }
        }
        self.tallies = tallies;
    }

    fn largest_unit(&self, slot: usize) -> usize {
        let mut unit = UNITS.len() - 1;
        for row in self.values.chunks_exact(self.stride) {
            // Differences of numbers above 2^63 wrap, and what wraps is no multiple.
            while unit > 0 && (row[slot] >> 63 != 0 || !row[slot].is_multiple_of(UNITS[unit])) {
                unit -= 1;
            }
            if unit == 0 {
                break;
            }
        }
        unit
    }

    fn measure(&self, tally: &mut Tally, spec: Spec, rows: usize) {
        let groups = spec.group.len();
        let base_slot = base_slot(tally.id, spec);
        let unit = UNITS[tally.unit];
        for at in 0..rows {
            let value = self.row(at)[tally.slot];
            let begins_group = self.begins_group(at, groups);
            if tally.slot < groups && !begins_group {
                continue;
            }
            if properties(tally.id).is_text {
                // A row that repeats the text of the row before is written as 0.
                tally.cover(0);
                tally.add((value & 0xffff_ffff) + 1);
                continue;
            }
            if relative(tally.id) == Relative::No {
                tally.add(if unit == 1 { value } else { value / unit });
                continue;
            }
            let first = base_slot.map_or(0, |slot| self.row(at)[slot]);
            let before = if at == 0 { 0 } else { self.row(at - 1)[tally.slot] };
            let before = if base_slot.is_some() && begins_group { first } else { before };
            // Any row may turn out to be the first of a datagram.
            if !tally.folded && (value < before || value < first) {
                tally.folded = true;
                return;
            }
            tally.add(difference(value, before, unit, tally.folded));
            tally.cover(difference(value, first, unit, tally.folded));
        }
    }

    fn plan(&mut self, spec: Spec) {
        let cost = |id: u8| self.tallies.iter().find(|tally| tally.id == id).map(Tally::cost);
        // System time is sent as it is, or as what run − user leaves if that is shorter.
        let unused = match (cost(SYSTEM), cost(SYSTEM_REST)) {
            (Some(plain), Some(rest)) if plain < rest => SYSTEM_REST,
            _ => SYSTEM,
        };
        let has_both = cost(SYSTEM_REST).is_some();
        self.planned.clear();
        self.planned_groups = 0;
        for tally in &self.tallies {
            let is_needed = if properties(tally.id).is_text {
                properties(tally.id).is_always_sent || tally.max_bits > 1
            } else {
                // Without its column system time is what run − user leaves, so zeros must be sent.
                // Likewise a key that is always its group's must not be taken for 0.
                tally.max_bits > 0
                    || (has_both && tally.id == SYSTEM)
                    || matches!(relative(tally.id), Relative::ToGroup(_))
            };
            if !is_needed || (has_both && tally.id == unused) {
                continue;
            }
            self.planned_groups += usize::from(tally.slot < spec.group.len());
            self.planned.push(PlannedColumn::new(tally.column(), tally.slot, base_slot(tally.id, spec)));
        }
        self.ensure_min_row_bits(spec);
    }

    /// Widens the rows' first column if rows were so short that a decoder would not believe their number.
    fn ensure_min_row_bits(&mut self, spec: Spec) {
        let row_columns = &self.planned[self.planned_groups..];
        let bits: u32 = row_columns
            .iter()
            .map(|planned| match planned.column.kind {
                ColumnKind::Fixed => planned.column.min,
                ColumnKind::Prefixed | ColumnKind::Text | ColumnKind::Folded => planned.column.prefix,
            })
            .sum();
        if bits >= MIN_ROW_BITS {
            return;
        }
        let Some(key) = self.tallies.get(spec.group.len()) else { return };
        let column = key.column();
        let column = match column.kind {
            ColumnKind::Fixed => ColumnDescription { min: column.min.max(MIN_ROW_BITS), ..column },
            _ => ColumnDescription { prefix: MIN_ROW_BITS, ..column },
        };
        let planned = PlannedColumn::new(column, key.slot, base_slot(key.id, spec));
        let at = self.planned_groups;
        match self.planned.get_mut(at) {
            Some(first) if first.column.id == key.id => *first = planned,
            _ => self.planned.insert(at, planned),
        }
    }

    /// Writes as many rows from `first` on as the current datagram takes; 0 if not even one.
    fn write_section(&self, spec: Spec, first: usize, rows: usize, frames: &mut Frames<'_>) -> Written {
        let limit = frames.limit();
        let out = frames.buffer();
        let begin = out.len();
        let writer = RowWriter { columns: &self.planned, groups: self.planned_groups, texts: &self.texts };
        writer.head(spec.section, out);
        let count_at = out.len();
        out.extend_from_slice(&[0, 0]);
        let mut bits = BitWriter::default();
        let (mut at, mut is_full) = (first, false);
        // The section counts its rows in 16 bits.
        while at < rows && at - first < usize::from(u16::MAX) && !is_full {
            let mark = bits.mark(out);
            // Each datagram must be readable alone: the first row of a section refers to no other row.
            let before = (at > first).then(|| self.row(at - 1));
            let begins_group = before.is_none_or(|before| self.differs_in_group(self.row(at), before));
            // The widths were chosen for these values, so each fits.
            let _ = writer.row(self.row(at), before, begins_group, &mut bits, out);
            // A row's length is known only when it is written, so one that is too long is taken back.
            if bits.byte_len(out) > limit {
                bits.go_back(out, &mark);
                break;
            }
            at += 1;
            let written = at - first;
            let least_bytes = written * average_bits(spec.section) / 8;
            is_full = limit > ANY_ROWS_BYTES && written > MAX_SHORT_ROWS && out.len() - begin < least_bytes;
        }
        if at == first {
            out.truncate(begin);
            return Written::default();
        }
        bits.finish(out);
        // A datagram has at most 65,000 bytes, so the length always fits.
        let body = u16::try_from(out.len() - begin - 3).unwrap_or(u16::MAX);
        out[begin + 1..begin + 3].copy_from_slice(&body.to_le_bytes());
        let count = u16::try_from(at - first).unwrap_or(u16::MAX);
        out[count_at..count_at + 2].copy_from_slice(&count.to_le_bytes());
        Written { rows: at - first, is_full }
    }

    fn differs_in_group(&self, row: &[u64], before: &[u64]) -> bool {
        self.planned[..self.planned_groups].iter().any(|planned| row[planned.slot] != before[planned.slot])
    }
}

fn base_slot(id: u8, spec: Spec) -> Option<usize> {
    let Relative::ToGroup(base) = relative(id) else { return None };
    spec.group.iter().position(|&group| group == base)
}

/// Counts of columns fit a byte by construction.
fn low_byte(count: usize) -> u8 {
    u8::try_from(count).unwrap_or(u8::MAX)
}

/// Texts of a table's rows; a value is the start and the length of one.
#[derive(Debug, Default)]
pub(crate) struct Texts(Vec<u8>);

impl Texts {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a text of these parts, gives the value that represents it in a row.
    pub(crate) fn push(&mut self, parts: &[&[u8]]) -> u64 {
        let begin = self.0.len();
        for part in parts {
            self.0.extend_from_slice(part);
        }
        (begin as u64) << 32 | (self.0.len() - begin) as u64
    }

    /// Adds a text of the next `len` bytes; `None` if `bits` ends before.
    pub(crate) fn take(&mut self, len: usize, bits: &mut BitReader<'_>) -> Option<u64> {
        let begin = self.0.len() as u64;
        for _ in 0..len {
            self.0.push(bits.take(8)?.to_le_bytes()[0]);
        }
        Some(begin << 32 | len as u64)
    }

    pub(crate) fn of(&self, value: u64) -> &[u8] {
        let begin = usize::try_from(value >> 32).unwrap_or(usize::MAX);
        let len = usize::try_from(value & 0xffff_ffff).unwrap_or(usize::MAX);
        begin.checked_add(len).and_then(|end| self.0.get(begin..end)).unwrap_or_default()
    }

    /// Writes a text, or that it is the one of the row before. `None`: its length does not fit the column.
    pub(crate) fn put(
        &self,
        value: u64,
        before: Option<u64>,
        column: ColumnDescription,
        bits: &mut BitWriter,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let text = self.of(value);
        if before.is_some_and(|before| before == value || self.of(before) == text) {
            return column.put(0, bits, out);
        }
        column.put(text.len() as u64 + 1, bits, out)?;
        for &byte in text {
            bits.put(out, u64::from(byte), 8);
        }
        Some(())
    }
}

/// Cuts texts so that a row fits one datagram, and counts the cuts.
#[derive(Copy, Clone, Debug)]
pub(crate) struct TextBudget {
    bytes: usize,
    pub(crate) cut: u64,
}

impl TextBudget {
    /// Allows `bytes` bytes of text for each row.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { bytes, cut: 0 }
    }

    /// Adds texts to `table` and returns their values. Each is cut (and marked with an ellipsis) to its own limit and the bytes left.
    pub(crate) fn put<const N: usize>(
        &mut self,
        texts: [(&str, usize); N],
        table: &mut TableWriter,
    ) -> [u64; N] {
        const MARK: &str = "…";
        let mut left = self.bytes;
        texts.map(|(text, most)| {
            let most = left.min(most);
            if text.len() <= most {
                left -= text.len();
                return table.text(text.as_bytes());
            }
            self.cut += 1;
            // The whole length counts as used, though a cut at a character may leave up to three bytes.
            left -= most;
            let kept = text.floor_char_boundary(most.saturating_sub(MARK.len()));
            table.cut_text(&text.as_bytes()[..kept], MARK.as_bytes())
        })
    }
}
