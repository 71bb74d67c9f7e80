//! [`Store`]: the rows of one kind of table as they were told last on a lane. In: keys of rows. Out: which rows come next, and
//! what is remembered of each. Bounded: what has no room is told without help.

use super::cell::{Cell, ColumnModel};
use super::coder::{Chance, Coder, Number};
use crate::v2::columns::section;

/// Key columns of a row, in the order of [`key_columns`].
pub(super) const KEY_COLUMNS: usize = 6;
/// See [`KEY_COLUMNS`].
pub(super) type Key = [u64; KEY_COLUMNS];
/// The place of a row that is not remembered.
pub(super) const NOWHERE: usize = usize::MAX;
/// Most rows and numbers remembered of one kind of table, of 88 and 24 bytes.
fn limits(kind: u8) -> (usize, usize) {
    match kind {
        section::THREADS => (1 << 15, 1 << 18),
        section::PROCESSES | section::DELAYS => (1 << 15, 1 << 17),
        _ => (1 << 11, 1 << 15),
    }
}

/// Most columns remembered of one kind of table.
const MAX_COLUMNS: usize = 64;

/// A row that is remembered.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) key: Key,
    /// Which place it has in the cells.
    pub(super) place: usize,
    /// The snapshot that told it last.
    pub(super) told: u32,
    /// The snapshot that told it last because it had changed,
    changed: u32,
    /// and whether those before did: bit n for n snapshots before that one.
    history: u8,
}

impl Row {
    /// Bit n: it was told n + 1 snapshots ago, because it had changed.
    fn lately(&self, now: u32) -> u8 {
        let ago = now.wrapping_sub(self.changed).wrapping_sub(1);
        u8::try_from(u32::from(self.history).checked_shl(ago).unwrap_or(0) & 0xff).unwrap_or(0)
    }

    /// The snapshot `now` tells it.
    pub(super) fn tell(&mut self, now: u32, has_changed: bool) {
        self.told = now;
        if has_changed && now != self.changed {
            self.history = self.lately(now) << 1 | 1;
            self.changed = now;
        }
    }
}

/// Where the next row of a table comes from.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// One that changed lately, at this place of the rows.
    Lively(usize),
    /// Another one that is remembered.
    Known(usize),
    /// One that is not, or is out of order: its key follows.
    New,
    /// There is none.
    End,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Store {
    max_rows: usize,
    max_cells: usize,
    /// Ascending by key.
    pub(super) rows: Vec<Row>,
    /// Rows that came with the table at hand.
    pub(super) fresh: Vec<Row>,
    cells: Vec<Cell>,
    free: Vec<usize>,
    /// Columns that were told so far; each row has so many cells.
    columns: Vec<(u8, ColumnModel)>,
    /// What stands for rows that have no room.
    spare: Vec<Cell>,
    is_end_or_new: [Chance; 4],
    is_second: [[Chance; 2]; 4],
    comes: Box<Chances>,
    skipped: Number,
    pub(super) keys: [Number; KEY_COLUMNS],
    /// By whether names are told, and the snapshot is a full one.
    pub(super) is_same: [[Chance; 2]; 2],
}

#[derive(Debug)]
struct Chances([Chance; 256]);

impl Default for Chances {
    fn default() -> Self {
        Self([Chance::default(); 256])
    }
}

impl Store {
    /// Empty, for one kind of table.
    pub(super) fn new(kind: usize) -> Self {
        let (max_rows, max_cells) = limits(u8::try_from(kind).unwrap_or(0));
        Self { max_rows, max_cells, ..Self::default() }
    }

    /// The place of each of these columns among the cells of a row. Columns that are new are added; without room all is forgotten.
    pub(super) fn place_columns(&mut self, ids: impl Iterator<Item = u8> + Clone, places: &mut Vec<usize>) {
        let missing = ids.clone().filter(|id| !self.columns.iter().any(|column| column.0 == *id)).count();
        if missing > 0 {
            if self.columns.len() + missing > MAX_COLUMNS {
                self.columns.clear();
                self.forget();
            }
            let before = self.columns.len();
            for id in ids.clone() {
                if !self.columns.iter().any(|column| column.0 == id) {
                    self.columns.push((id, ColumnModel::default()));
                }
            }
            self.widen(before);
        }
        places.clear();
        let place = |id| self.columns.iter().position(|column| column.0 == id).unwrap_or(0);
        places.extend(ids.map(place));
    }

    fn forget(&mut self) {
        self.rows.clear();
        self.cells.clear();
        self.free.clear();
    }

    fn widen(&mut self, before: usize) {
        let width = self.columns.len();
        let places = self.cells.len().checked_div(before).unwrap_or(0);
        if places * width > self.max_cells {
            return self.forget();
        }
        let mut cells = Vec::with_capacity(places * width);
        for row in self.cells.chunks_exact(before.max(1)) {
            cells.extend_from_slice(row);
            cells.resize(cells.len() + width - before, Cell::default());
        }
        self.cells = cells;
    }

    /// A remembered row's cells; those that stand in for a row without room are new each time.
    pub(super) fn cells(&mut self, place: usize) -> (&mut [Cell], &mut [(u8, ColumnModel)]) {
        let width = self.columns.len();
        let range = place.checked_mul(width).and_then(|at| Some(at..at.checked_add(width)?));
        let cells = if let Some(cells) = range.and_then(|range| self.cells.get_mut(range)) {
            cells
        } else {
            self.spare.clear();
            self.spare.resize(width, Cell::default());
            &mut self.spare[..]
        };
        (cells, &mut self.columns)
    }

    /// Remembers a row if there is room; its place.
    pub(super) fn remember(&mut self, key: &Key, now: u32) -> usize {
        let Some(place) = self.allot() else { return NOWHERE };
        self.fresh.push(Row { key: *key, place, told: now, changed: now, history: 1 });
        place
    }

    /// What is remembered of a row, for the same columns of another kind of table.
    pub(super) fn recall(&self, key: &Key, cells: &mut [Cell], columns: &[(u8, ColumnModel)]) {
        let Ok(at) = self.rows.binary_search_by_key(key, |row| row.key) else { return };
        let first = self.rows[at].place * self.columns.len();
        for (cell, column) in cells.iter_mut().zip(columns) {
            let known = self.columns.iter().position(|known| known.0 == column.0);
            if let Some(known) = known.and_then(|known| self.cells.get(first + known)) {
                *cell = *known;
            }
        }
    }

    fn allot(&mut self) -> Option<usize> {
        let width = self.columns.len();
        if let Some(place) = self.free.pop() {
            return Some(place);
        }
        let is_full = self.rows.len() + self.fresh.len() >= self.max_rows;
        if width == 0 || is_full || self.cells.len() + width > self.max_cells {
            return None;
        }
        self.cells.resize(self.cells.len() + width, Cell::default());
        Some(self.cells.len() / width - 1)
    }

    /// Where this key's row is, from `cursor` on, if this snapshot did not tell it yet.
    pub(super) fn next_of(&self, key: &Key, cursor: usize, now: u32) -> Next {
        match self.rows.get(cursor..).unwrap_or_default().binary_search_by_key(key, |row| row.key) {
            Ok(at) => match &self.rows[cursor + at] {
                row if row.told == now => Next::New,
                row if row.lately(now) != 0 => Next::Lively(cursor + at),
                _ => Next::Known(cursor + at),
            },
            Err(_) => Next::New,
        }
    }

    /// Codes where the next row is. `last`: what the row before was, 0 for the first. `None`: there is no such row.
    pub(super) fn code_next(
        &mut self,
        coder: &mut impl Coder,
        next: Next,
        last: &mut usize,
        cursor: usize,
        now: u32,
    ) -> Option<Next> {
        let is_end_or_new = matches!(next, Next::End | Next::New);
        let is_second = matches!(next, Next::End | Next::Known(_));
        let is_end_or_new = coder.bit(&mut self.is_end_or_new[*last & 3], is_end_or_new);
        let is_second = coder.bit(&mut self.is_second[*last & 3][usize::from(is_end_or_new)], is_second);
        *last = match (is_end_or_new, is_second) {
            (false, false) => 1,
            (false, true) => 2,
            (true, _) => 3,
        };
        Some(match (is_end_or_new, is_second) {
            (true, true) => Next::End,
            (true, false) => Next::New,
            (false, false) => Next::Lively(self.code_lively(coder, next, cursor, now)?),
            (false, true) => Next::Known(self.code_known(coder, next, cursor, now)?),
        })
    }

    /// For each row that changed lately whether it does again, up to the first one that does.
    fn code_lively(&mut self, coder: &mut impl Coder, next: Next, cursor: usize, now: u32) -> Option<usize> {
        for (at, row) in self.rows.iter().enumerate().skip(cursor) {
            let lately = row.lately(now);
            if lately == 0 || row.told == now {
                continue;
            }
            if coder.bit(&mut self.comes.0[usize::from(lately)], next == Next::Lively(at)) {
                return Some(at);
            }
        }
        None
    }

    /// How many of the others are skipped.
    fn code_known(&mut self, coder: &mut impl Coder, next: Next, cursor: usize, now: u32) -> Option<usize> {
        let is_other = |row: &Row| row.told != now && row.lately(now) == 0;
        let skipped = match next {
            Next::Known(at) => self.rows.get(cursor..at)?.iter().filter(|row| is_other(row)).count(),
            _ => 0,
        };
        let skipped = usize::try_from(self.skipped.code(coder, skipped as u64)).ok()?;
        let mut others = self.rows.iter().enumerate().skip(cursor).filter(|(_, row)| is_other(row));
        others.nth(skipped).map(|(at, _)| at)
    }

    /// Takes the rows of the table at hand in.
    pub(super) fn take_fresh(&mut self) {
        if self.fresh.is_empty() {
            return;
        }
        self.rows.append(&mut self.fresh);
        // Two runs that ascend: a merge.
        self.rows.sort_by_key(|row| row.key);
        let before = self.free.len();
        let free = &mut self.free;
        self.rows.dedup_by(|second, first| {
            let is_double = second.key == first.key;
            if is_double {
                free.push(second.place);
            }
            is_double
        });
        self.clear_free(before);
    }

    /// Forgets rows.
    pub(super) fn forget_rows(&mut self, mut is_over: impl FnMut(&Row) -> bool) {
        let before = self.free.len();
        let free = &mut self.free;
        self.rows.retain(|row| {
            let is_over = is_over(row);
            if is_over {
                free.push(row.place);
            }
            !is_over
        });
        self.clear_free(before);
    }

    /// Empties the cells of places that are free now.
    fn clear_free(&mut self, from: usize) {
        let width = self.columns.len();
        for &place in self.free.get(from..).unwrap_or_default() {
            if let Some(cells) = self.cells.get_mut(place * width..(place + 1) * width) {
                cells.fill(Cell::default());
            }
        }
    }

    /// Changes the numbers of texts that are remembered in these columns.
    pub(super) fn change(&mut self, is_one: impl Fn(u8) -> bool, mut change: impl FnMut(&mut u64)) {
        let columns = &self.columns;
        for row in self.cells.chunks_exact_mut(columns.len().max(1)) {
            for (cell, _) in row.iter_mut().zip(columns).filter(|(_, column)| is_one(column.0)) {
                if !cell.is_new() {
                    change(&mut cell.value);
                }
            }
        }
    }
}

/// The columns that make up a row's key, by the kind of table; none: its place among the rows.
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
