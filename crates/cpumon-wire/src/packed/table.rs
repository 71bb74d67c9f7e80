//! [`TableMemory`]: codes a table by what the channel sent before: first which rows it has, then column by column,
//! because zstd finds more in values of one kind than in rows.

use super::coder::Coder;
use super::grid::{Grid, KeySlots, MAX_VALUES};
use super::memory::{KEY_COLUMNS, RowKey, RowMemory, key_columns};
use crate::v2::columns::{ColumnDescription, ColumnKind, properties, section};
use crate::v2::read::MAX_COLUMNS;

/// Kinds of tables, and one more because they count from 1.
const KINDS: usize = section::DELAYS as usize + 1;
/// Descriptions of a column that are remembered: of tables with texts, and of those without.
const LAYOUTS: usize = 2;

/// What a channel remembers of tables.
#[derive(Debug)]
pub(super) struct TableMemory {
    memories: [RowMemory; KINDS],
    /// The description of each column as the channel sent it last.
    described: Box<[[[u16; 256]; LAYOUTS]; KINDS]>,
    /// Number of the record on the channel.
    record: u32,
    /// Remembered rows that the end of the last record visited.
    pub(super) rows_visited: usize,
    /// For each row of the current table, its index among the remembered rows if its key is not sent.
    known: Vec<Option<usize>>,
    /// For each row of the current table, the place of its cells.
    places: Vec<Option<usize>>,
    text: Vec<u8>,
}

struct TableJob<'a> {
    kind: u8,
    grid: &'a mut Grid,
    memory: &'a mut RowMemory,
    slots: KeySlots,
    rows: usize,
}

impl Default for TableMemory {
    fn default() -> Self {
        Self {
            memories: std::array::from_fn(RowMemory::new),
            described: Box::new([[[0; 256]; LAYOUTS]; KINDS]),
            record: 0,
            rows_visited: 0,
            known: Vec::new(),
            places: Vec::new(),
            text: Vec::new(),
        }
    }
}

impl TableMemory {
    pub(super) fn begin_record(&mut self) {
        self.record = self.record.wrapping_add(1);
    }

    /// A full record has every task that lives: the others are forgotten.
    pub(super) fn end_record(&mut self, is_full: bool) {
        let record = self.record;
        self.rows_visited = 0;
        for (kind, memory) in (0..).zip(&mut self.memories) {
            let has_all = is_full && matches!(kind, section::PROCESSES | section::THREADS | section::DELAYS);
            self.rows_visited += memory.end_record(has_all.then_some(record));
        }
    }

    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.memories.iter().map(|memory| memory.rows.len()).sum()
    }

    /// Codes a table; a reader passes an empty one. `None`: the packed bytes are malformed.
    pub(super) fn code<C: Coder>(&mut self, coder: &mut C, kind: u8, grid: &mut Grid) -> Option<()> {
        let rows = code_shape(coder, grid, self.described.get_mut(usize::from(kind))?)?;
        if C::READS {
            grid.values.resize(rows * grid.columns.len(), 0);
        }
        let mut slots: KeySlots = [None; KEY_COLUMNS];
        for (slot, id) in slots.iter_mut().zip(key_columns(kind)) {
            let is_key = |column: ColumnDescription| column.id == *id && column.kind != ColumnKind::Text;
            *slot = grid.columns.iter().position(|planned| is_key(planned.column));
        }
        // The last counters of a thread that ended are close to those that the thread had before.
        let memory_kind = usize::from(if is_end(kind) { section::THREADS } else { kind });
        let mut memory = std::mem::replace(self.memories.get_mut(memory_kind)?, RowMemory::new(memory_kind));
        let coded = self.code_table(coder, TableJob { kind, grid, memory: &mut memory, slots, rows });
        self.memories[memory_kind] = memory;
        coded
    }

    fn code_table<C: Coder>(&mut self, coder: &mut C, mut job: TableJob<'_>) -> Option<()> {
        let slots = job.slots;
        let is_value = |slot: usize, column: &ColumnDescription| {
            column.kind != ColumnKind::Text && !slots.contains(&Some(slot))
        };
        if !is_end(job.kind) {
            let columns = job.grid.columns.iter().map(|planned| planned.column).enumerate();
            let values = columns.filter(|(slot, column)| is_value(*slot, column));
            job.memory.add_columns(values.map(|(_, column)| column.id));
        }
        self.code_rows(coder, &mut job)?;
        for slot in 0..job.grid.columns.len() {
            let column = job.grid.columns[slot].column;
            if column.kind == ColumnKind::Text {
                self.code_texts(coder, &mut job, slot)?;
            } else if is_value(slot, &column) {
                self.code_column(coder, &mut job, slot)?;
            }
        }
        Some(())
    }

    /// Which rows these are. First for each row how many remembered rows are skipped since the one before, or that its key follows;
    /// then those keys.
    fn code_rows<C: Coder>(&mut self, coder: &mut C, job: &mut TableJob<'_>) -> Option<()> {
        self.known.clear();
        let mut cursor = 0;
        for at in 0..job.rows {
            // A reader's keys are not filled in yet: it learns the row's index from the symbol.
            let found = if C::READS { None } else { job.memory.find(&job.key(at)) };
            // A remembered row before the cursor is out of order; its key is sent instead.
            let skipped = found.and_then(|found| found.checked_sub(cursor));
            let symbol = coder.number(skipped.map_or(0, |skipped| skipped as u64 + 1))?;
            let found = match symbol.checked_sub(1) {
                Some(skipped) => Some(cursor.checked_add(usize::try_from(skipped).ok()?)?),
                None => None,
            };
            if let Some(found) = found.filter(|&found| found < job.memory.rows.len()) {
                cursor = found + 1;
            } else if found.is_some() {
                return None;
            }
            self.known.push(found);
        }
        self.places.clear();
        let mut before = RowKey::default();
        for at in 0..job.rows {
            let row = if let Some(row) = self.known[at] {
                Some(row)
            } else {
                before = code_key(coder, job, at, &before)?;
                // Rows out of order are remembered too.
                job.memory.find(&before)
            };
            let place = if let Some(row) = row.and_then(|row| job.memory.rows.get_mut(row)) {
                row.record = self.record;
                // Forgotten at the record's end only: removing it now would shift the indices of the rows
                // that follow.
                row.has_ended |= is_end(job.kind);
                before = row.key;
                let place = row.place;
                job.memory.has_ended |= is_end(job.kind);
                Some(place)
            } else if is_end(job.kind) {
                None
            } else {
                job.memory.insert(&before, self.record)
            };
            self.places.push(place);
            if C::READS {
                job.set_key(at, &before);
            }
        }
        Some(())
    }

    /// The differences of one column's values to what was expected.
    fn code_column<C: Coder>(&mut self, coder: &mut C, job: &mut TableJob<'_>, slot: usize) -> Option<()> {
        let (id, unit) = (job.grid.columns[slot].column.id, job.grid.columns[slot].unit);
        let width = job.grid.columns.len();
        let mut column = job.memory.column(id);
        let values = job.grid.values.iter_mut().skip(slot).step_by(width);
        for (value, &place) in values.zip(&self.places) {
            let expected = column.as_ref().map(|column| column.expected(place, unit)).unwrap_or_default();
            let units = if unit == 1 { *value } else { *value / unit };
            let difference = coder.signed(units.wrapping_sub(expected.value).cast_signed())?;
            let coded = expected.value.wrapping_add(difference.cast_unsigned());
            *value = coded.wrapping_mul(unit);
            if let Some(column) = &mut column {
                column.learn(place, expected, coded, unit);
            }
        }
        Some(())
    }

    /// Texts as they are: zstd finds those of the records before.
    fn code_texts<C: Coder>(&mut self, coder: &mut C, job: &mut TableJob<'_>, slot: usize) -> Option<()> {
        for at in 0..job.rows {
            let text = job.grid.text(*job.grid.row(at).get(slot)?);
            let is_before =
                !C::READS && job.grid.text_before(at, slot).is_some_and(|before| before.1 == text);
            let length = coder.number(if is_before { 0 } else { text.len() as u64 + 1 })?;
            let value = if let Some(length) = length.checked_sub(1) {
                self.text.clear();
                for at in 0..usize::try_from(length).ok()? {
                    // A reader has no text here; its coder ignores the value that it is given.
                    let byte = text.get(at).copied().unwrap_or(0);
                    self.text.push(coder.symbol(byte)?);
                }
                if !C::READS {
                    continue;
                }
                job.grid.put_text(&self.text, at, slot)?
            } else {
                job.grid.text_before(at, slot)?.0
            };
            if C::READS {
                job.grid.set(at, slot, value);
            }
        }
        Some(())
    }
}

impl TableJob<'_> {
    /// A row's key; where the kind of table has none, its position.
    fn key(&self, at: usize) -> RowKey {
        if key_columns(self.kind).is_empty() {
            return position_key(at);
        }
        let row = self.grid.row(at);
        self.slots.map(|slot| slot.and_then(|slot| row.get(slot)).copied().unwrap_or(0))
    }

    fn set_key(&mut self, at: usize, key: &RowKey) {
        for (slot, &value) in self.slots.iter().zip(key) {
            if let Some(slot) = slot {
                self.grid.set(at, *slot, value);
            }
        }
    }
}

fn is_end(kind: u8) -> bool {
    matches!(kind, section::EXITS | section::GONE)
}

fn position_key(at: usize) -> RowKey {
    let mut key = RowKey::default();
    key[0] = at as u64;
    key
}

/// The key of a row that is new, or out of order, by that of the row before.
fn code_key<C: Coder>(coder: &mut C, job: &TableJob<'_>, at: usize, before: &RowKey) -> Option<RowKey> {
    let wanted = job.key(at);
    if key_columns(job.kind).is_empty() {
        return Some(wanted);
    }
    let is_thread = matches!(job.kind, section::THREADS..=section::GONE);
    let mut key = RowKey::default();
    for (part, slot) in job.slots.iter().enumerate() {
        let Some(planned) = slot.and_then(|slot| job.grid.columns.get(slot)) else { continue };
        // The first thread of a process often has the process's id and start.
        let begins_process = is_thread && part >= 2 && key[..2] != before[..2];
        let base = if begins_process { key[part - 2] } else { before[part] };
        let unit = planned.unit;
        let difference = (wanted[part] / unit).wrapping_sub(base / unit).cast_signed();
        let difference = coder.signed(difference)?.cast_unsigned();
        key[part] = (base / unit).wrapping_add(difference).wrapping_mul(unit);
    }
    Some(key)
}

/// Columns and their descriptions; gives the count of rows.
fn code_shape<C: Coder>(
    coder: &mut C,
    grid: &mut Grid,
    described: &mut [[u16; 256]; LAYOUTS],
) -> Option<usize> {
    let count = usize::from(coder.symbol(u8::try_from(grid.columns.len()).ok()?)?);
    grid.groups = usize::from(coder.symbol(u8::try_from(grid.groups).ok()?)?);
    if count == 0 || count > MAX_COLUMNS || grid.groups > count {
        return None;
    }
    let [low, high] = u16::try_from(grid.rows()).ok()?.to_le_bytes();
    let mut columns: Vec<[u8; 3]> = grid.columns.iter().map(|planned| planned.column.to_bytes()).collect();
    columns.resize(count, [0; 3]);
    // All ids first: they are the same from record to record, while widths change.
    for column in &mut columns {
        column[0] = coder.symbol(column[0])?;
    }
    let described = &mut described[usize::from(columns.iter().any(|column| properties(column[0]).is_text))];
    grid.columns.clear();
    for [id, low, high] in columns {
        let before = &mut described[usize::from(id)];
        *before = code_description(coder, u16::from_le_bytes([low, high]), *before)?;
        let [low, high] = before.to_le_bytes();
        grid.add_column(ColumnDescription::from_bytes([id, low, high])?)?;
    }
    let rows = usize::from(u16::from_le_bytes([coder.symbol(low)?, coder.symbol(high)?]));
    (rows * count <= MAX_VALUES).then_some(rows)
}

/// Turned so that a width that grows by 1 is a difference of 1.
fn code_description(coder: &mut impl Coder, now: u16, before: u16) -> Option<u16> {
    const MIN_AT: u32 = 5;
    let difference = now.rotate_right(MIN_AT).wrapping_sub(before.rotate_right(MIN_AT)).cast_signed();
    let difference = i16::try_from(coder.signed(difference.into())?).ok()?;
    Some(before.rotate_right(MIN_AT).wrapping_add(difference.cast_unsigned()).rotate_left(MIN_AT))
}
