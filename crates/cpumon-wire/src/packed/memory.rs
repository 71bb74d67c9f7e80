//! [`RowMemory`]: the last values of the rows of one kind of table, which predict their next values. It is
//! bounded: a row without space is coded as new each time.

use cpumon_model::varint::zigzag;

use crate::v2::bits::bit_len;
use crate::v2::columns::section;

/// Key columns of a row, in the order of [`key_columns`].
pub(super) const KEY_COLUMNS: usize = 6;
/// The values of the key columns; 0 for those that a table lacks.
pub(super) type RowKey = [u64; KEY_COLUMNS];
const MAX_COLUMNS: usize = 64;
/// Columns grow by this number of places at once: doubling them would waste up to half of a channel's memory.
const PLACES_STEP: usize = 256;
/// Fractional bits of [`CellMemory::trend`].
const TREND_BITS: u32 = 4;
/// The trend follows by a quarter of the difference.
const TREND_SHIFT: u32 = 2;
/// Bounds of [`ColumnMemory::score`]: a column changes its mind within some hundred rows.
const MAX_SCORE: i32 = 512;

/// Most rows (64 bytes each) and cells (16 bytes each) remembered of one kind of table.
fn limits(kind: u8) -> (usize, usize) {
    match kind {
        section::THREADS => (1 << 15, 1 << 18),
        section::PROCESSES | section::DELAYS => (1 << 15, 1 << 17),
        _ => (1 << 11, 1 << 15),
    }
}

#[derive(Clone, Debug)]
pub(super) struct KnownRow {
    pub(super) key: RowKey,
    /// Index of its cells in each column.
    pub(super) place: usize,
    /// The record of the channel that sent it last.
    pub(super) record: u32,
    /// What the row describes has ended.
    pub(super) has_ended: bool,
}

#[derive(Copy, Clone, Debug, Default)]
struct CellMemory {
    value: u64,
    /// Recent growth, in sixteenths.
    trend: i64,
}

#[derive(Debug, Default)]
pub(super) struct ColumnMemory {
    id: u8,
    cells: Vec<CellMemory>,
    /// By how many bits the trend was the better guess than no change, lately.
    score: i32,
}

/// Predictions of a cell's next value, in units.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Expected {
    /// Value from which the difference is coded.
    pub(super) value: u64,
    stays: u64,
    grows: u64,
}

impl ColumnMemory {
    /// What a row's value is expected to be, in units of `unit`.
    pub(super) fn expected(&self, place: Option<usize>, unit: u64) -> Expected {
        let Some(cell) = place.and_then(|place| self.cells.get(place)) else { return Expected::default() };
        // Most units are 1, and dividing takes time.
        let units = |value: u64| if unit == 1 { value } else { value / unit };
        let stays = units(cell.value);
        let grows = units(cell.value.wrapping_add((cell.trend >> TREND_BITS).cast_unsigned()));
        Expected { value: if self.score >= 0 { grows } else { stays }, stays, grows }
    }

    /// Updates a row's cell with a value, which is `coded` units.
    pub(super) fn learn(&mut self, place: Option<usize>, expected: Expected, coded: u64, unit: u64) {
        let Some(cell) = place.and_then(|place| self.cells.get_mut(place)) else { return };
        let bits = |expected: u64| bit_len(zigzag(coded.wrapping_sub(expected).cast_signed())).cast_signed();
        let gain = bits(expected.stays) - bits(expected.grows);
        self.score = (self.score + gain).clamp(-MAX_SCORE, MAX_SCORE);
        let value = coded.wrapping_mul(unit);
        // A counter's first value says nothing about how fast it grows: it may have counted for months.
        if cell.value != 0 {
            let grown = value.wrapping_sub(cell.value).cast_signed().wrapping_shl(TREND_BITS);
            cell.trend = match cell.trend {
                0 => grown,
                trend => trend.wrapping_add(grown.wrapping_sub(trend) >> TREND_SHIFT),
            };
        }
        cell.value = value;
    }
}

#[derive(Debug, Default)]
pub(super) struct RowMemory {
    max_rows: usize,
    max_cells: usize,
    /// Rows in ascending order of their keys.
    pub(super) rows: Vec<KnownRow>,
    /// Rows that are new in the current record: [`Self::find`] finds them from the next record on.
    fresh: Vec<KnownRow>,
    columns: Vec<ColumnMemory>,
    /// Number of places ever used; each column has this number of cells, rounded up to [`PLACES_STEP`].
    places: usize,
    free: Vec<usize>,
    /// A row ended with the current record.
    pub(super) has_ended: bool,
}

impl RowMemory {
    pub(super) fn new(kind: usize) -> Self {
        let (max_rows, max_cells) = limits(u8::try_from(kind).unwrap_or(0));
        Self { max_rows, max_cells, ..Self::default() }
    }

    /// Adds the columns that are not there yet. Without space for them everything is forgotten first.
    pub(super) fn add_columns(&mut self, ids: impl Iterator<Item = u8> + Clone) {
        let missing = ids.clone().filter(|&id| self.position(id).is_none()).count();
        let count = self.columns.len() + missing;
        // The limits are part of the format: both ends forget at the same point and still remember the same.
        if missing > 0 && (count > MAX_COLUMNS || count * self.allotted() > self.max_cells) {
            self.forget();
        }
        for id in ids {
            if self.position(id).is_none() {
                self.columns.push(ColumnMemory {
                    id,
                    cells: vec![CellMemory::default(); self.allotted()],
                    score: 0,
                });
            }
        }
    }

    fn forget(&mut self) {
        self.rows.clear();
        self.fresh.clear();
        self.columns.clear();
        self.free.clear();
        self.places = 0;
    }

    fn position(&self, id: u8) -> Option<usize> {
        self.columns.iter().position(|column| column.id == id)
    }

    fn allotted(&self) -> usize {
        self.places.next_multiple_of(PLACES_STEP)
    }

    pub(super) fn column(&mut self, id: u8) -> Option<&mut ColumnMemory> {
        self.position(id).and_then(|at| self.columns.get_mut(at))
    }

    pub(super) fn find(&self, key: &RowKey) -> Option<usize> {
        self.rows.binary_search_by_key(key, |row| row.key).ok()
    }

    /// Remembers a row if there is space; its place.
    pub(super) fn insert(&mut self, key: &RowKey, record: u32) -> Option<usize> {
        let place = self.allot()?;
        // A freed place still has the values and trends of the row that had it before.
        for cell in self.columns.iter_mut().filter_map(|column| column.cells.get_mut(place)) {
            *cell = CellMemory::default();
        }
        self.fresh.push(KnownRow { key: *key, place, record, has_ended: false });
        Some(place)
    }

    fn allot(&mut self) -> Option<usize> {
        if let Some(place) = self.free.pop() {
            return Some(place);
        }
        if self.places == self.allotted() {
            let allotted = self.places + PLACES_STEP;
            if allotted > self.max_rows || allotted * self.columns.len() > self.max_cells {
                return None;
            }
            for column in &mut self.columns {
                column.cells.reserve_exact(PLACES_STEP);
                column.cells.resize(allotted, CellMemory::default());
            }
        }
        self.places += 1;
        Some(self.places - 1)
    }

    /// Ends a record: its new rows can be found from now on, and rows that ended are forgotten; with `full`, the number of a record
    /// that had all, those that it did not have as well. Once a record rather than once a table, or a record of many small tables would
    /// cost a receiver a merge of all rows for each. Returns how many rows it visited: none where nothing can have changed.
    pub(super) fn end_record(&mut self, full: Option<u32>) -> usize {
        let has_ended = std::mem::take(&mut self.has_ended);
        if self.fresh.is_empty() && !has_ended && full.is_none() {
            return 0;
        }
        let visited = self.rows.len() + self.fresh.len();
        let free = &mut self.free;
        if !self.fresh.is_empty() {
            self.rows.append(&mut self.fresh);
            // The first of two with the same key stays: the sort is stable.
            self.rows.sort_by_key(|row| row.key);
            self.rows.dedup_by(|second, first| {
                let is_double = second.key == first.key;
                if is_double {
                    free.push(second.place);
                }
                is_double
            });
        }
        self.rows.retain(|row| {
            let is_over = row.has_ended || full.is_some_and(|record| row.record != record);
            if is_over {
                free.push(row.place);
            }
            !is_over
        });
        visited
    }
}

/// The columns that make up a row's key, by the kind of table; none: its position among the rows.
pub(super) fn key_columns(kind: u8) -> &'static [u8] {
    use section::{CPUS, DELAYS, GONE, IRQS, PROCESSES, THREADS};
    match kind {
        CPUS => &[5],
        PROCESSES => &[1, 2],
        THREADS..=GONE => &[1, 2, 3, 4],
        IRQS => &[112],
        DELAYS => &[119, 1, 2, 3, 4, 121],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_without_space_remembers_no_more_and_forgets_nothing() {
        let mut memory = RowMemory::new(usize::from(section::CPUS));
        memory.add_columns([6, 7].into_iter());
        let key = |at: u64| [at, 0, 0, 0, 0, 0];
        let inserted = (0..5_000).filter(|&at| memory.insert(&key(at), 1).is_some()).count();
        assert_eq!(inserted, 1 << 11);
        assert_eq!(memory.end_record(None), 2_048);
        assert_eq!((memory.find(&key(2_047)), memory.find(&key(2_048))), (Some(2_047), None));
        assert_eq!(memory.end_record(None), 0, "nothing new");
        memory.rows[7].has_ended = true;
        memory.has_ended = true;
        assert_eq!((memory.end_record(None), memory.rows.len()), (2_048, 2_047));
        assert!(memory.insert(&key(9_000), 2).is_some(), "places are used again");
    }

    #[test]
    fn too_many_columns_forget_the_rows() {
        let mut memory = RowMemory::new(usize::from(section::CPUS));
        memory.add_columns(0..40);
        assert!(memory.insert(&RowKey::default(), 1).is_some());
        memory.end_record(None);
        memory.add_columns(30..80);
        assert!(memory.rows.is_empty() && memory.column(0).is_none() && memory.column(79).is_some());
    }
}
