//! [`Tables`]: what was told on a lane, by kind of table. In: a table to code, or room for one to read. Out: its bits, by what
//! is remembered. Why one path for both: what is coded stands once, so the two ends cannot come apart.

use super::coder::{Chance, Coder, Number};
use super::grid::{Grid, KeySlots, MAX_COLUMNS, MAX_VALUES};
use super::names::Names;
use super::store::{KEY_COLUMNS, Key, NOWHERE, Next, Store, key_columns};
use super::texts::UNKNOWN;
use crate::v2::columns::{Column, Kind, UNITS, is_text, section};

/// Kinds of tables, and one more.
const KINDS: usize = section::DELAYS as usize + 1;
/// Descriptions are compared with those of the table that had the same place among those of its kind in the snapshot before.
const LAYOUTS: usize = 3;

/// The bytes are none that a packer makes, or what they stand for is too long.
#[derive(Debug)]
pub(super) struct Malformed;

/// How descriptions of columns change.
#[derive(Debug, Default)]
struct Shape {
    is_next: Chance,
    is_same: Chance,
    is_same_kind: Chance,
    prefix: Number,
    min: Number,
    count: Number,
    groups: Number,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Tables {
    stores: [Store; KINDS],
    layouts: [[Vec<Column>; LAYOUTS]; KINDS],
    /// Tables of each kind in this snapshot so far.
    seen: [usize; KINDS],
    shape: Shape,
    names: Names,
    /// Number of the snapshot on the lane.
    now: u32,
    is_full: bool,
    places: Vec<usize>,
    over: Vec<Key>,
}

impl Default for Tables {
    fn default() -> Self {
        Self {
            stores: std::array::from_fn(Store::new),
            layouts: Default::default(),
            seen: [0; KINDS],
            shape: Shape::default(),
            names: Names::default(),
            now: 0,
            is_full: false,
            places: Vec::new(),
            over: Vec::new(),
        }
    }
}

impl Tables {
    /// The next snapshot.
    pub(super) fn begin(&mut self, is_full: bool) {
        self.now = self.now.wrapping_add(1);
        self.is_full = is_full;
        self.seen = [0; KINDS];
    }

    /// The snapshot is over. A full one told everything that lives.
    pub(super) fn end(&mut self) {
        if !self.is_full {
            return;
        }
        let now = self.now;
        for kind in [section::PROCESSES, section::THREADS, section::DELAYS] {
            self.stores[usize::from(kind)].forget_rows(|row| row.told != now);
        }
        let texts = &mut self.names.texts;
        if texts.is_half_full() {
            let mut used = vec![false; texts.len()];
            self.stores.iter_mut().for_each(|store| {
                store.change(is_text, |number| {
                    if let Some(used) = place(&mut used, *number) {
                        *used = true;
                    }
                });
            });
            let mut moved = texts.retain(&used);
            self.stores.iter_mut().for_each(|store| {
                store.change(is_text, |number| {
                    *number = place(&mut moved, *number).map_or(UNKNOWN, |new| *new);
                });
            });
        }
    }

    /// Rows that are remembered.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.stores.iter().map(|store| store.rows.len()).sum()
    }

    /// Codes a table. A reader passes an empty one.
    pub(super) fn code(
        &mut self,
        coder: &mut impl Coder,
        kind: u8,
        grid: &mut Grid,
    ) -> Result<(), Malformed> {
        let at = usize::from(kind);
        self.code_shape(coder, at, grid)?;
        let mut store = std::mem::take(&mut self.stores[at]);
        let keys = key_columns(kind);
        let mut slots: KeySlots = [None; KEY_COLUMNS];
        for (slot, id) in slots.iter_mut().zip(keys) {
            *slot = grid.columns.iter().position(|column| column.id == *id && column.kind != Kind::Text);
        }
        let others = grid.columns.iter().enumerate().filter(|(slot, _)| !slots.contains(&Some(*slot)));
        store.place_columns(others.map(|(_, column)| column.id), &mut self.places);
        let coded = self.code_rows(coder, kind, grid, &mut store, &slots);
        store.take_fresh();
        self.stores[at] = store;
        if !self.over.is_empty() {
            self.over.sort_unstable();
            let over = &self.over;
            self.stores[usize::from(section::THREADS)]
                .forget_rows(|row| over.binary_search(&row.key).is_ok());
        }
        coded
    }

    /// Columns and their descriptions.
    fn code_shape(&mut self, coder: &mut impl Coder, kind: usize, grid: &mut Grid) -> Result<(), Malformed> {
        let (shape, seen) = (&mut self.shape, &mut self.seen[kind]);
        let layout = &mut self.layouts[kind][(*seen).min(LAYOUTS - 1)];
        *seen += 1;
        let count = i64::try_from(grid.columns.len()).unwrap_or(0) - i64::try_from(layout.len()).unwrap_or(0);
        let count =
            shape.count.code_signed(coder, count).wrapping_add(i64::try_from(layout.len()).unwrap_or(0));
        let count = usize::try_from(count).ok().filter(|count| (1..=MAX_COLUMNS).contains(count));
        let count = count.ok_or(Malformed)?;
        let groups = shape.groups.code(coder, grid.groups as u64);
        grid.groups = usize::try_from(groups).ok().filter(|&groups| groups <= count).ok_or(Malformed)?;
        let mut next = 0;
        let mut columns: Vec<Column> = Vec::with_capacity(count);
        for at in 0..count {
            let wanted = grid.columns.get(at).copied();
            let column = shape.code_column(coder, wanted, layout, &mut next).ok_or(Malformed)?;
            if columns.iter().any(|known| known.id == column.id) {
                return Err(Malformed);
            }
            columns.push(column);
        }
        grid.columns.clone_from(&columns);
        *layout = columns;
        Ok(())
    }

    fn code_rows<C: Coder>(
        &mut self,
        coder: &mut C,
        kind: u8,
        grid: &mut Grid,
        store: &mut Store,
        slots: &KeySlots,
    ) -> Result<(), Malformed> {
        self.over.clear();
        let is_over = matches!(kind, section::EXITS | section::GONE);
        let rows = grid.rows();
        let (mut cursor, mut last, mut before): (usize, usize, Key) = (0, 0, Key::default());
        for at in 0.. {
            let key = if at < rows { row_key(grid, at, slots, kind) } else { Key::default() };
            let next = match at < rows {
                true if is_over => Next::New,
                true => store.next_of(&key, cursor, self.now),
                false => Next::End,
            };
            let next = store.code_next(coder, next, &mut last, cursor, self.now).ok_or(Malformed)?;
            let (known, key) = match next {
                Next::End => break,
                Next::Lively(row) | Next::Known(row) => {
                    cursor = row + 1;
                    (Some(row), store.rows.get(row).ok_or(Malformed)?.key)
                }
                Next::New => {
                    let key = code_key(coder, store, grid, slots, (kind, at), (&key, &before));
                    (store.rows.binary_search_by_key(&key, |row| row.key).ok().filter(|_| !is_over), key)
                }
            };
            if (at + 1) * grid.columns.len() > MAX_VALUES || at >= usize::from(u16::MAX) {
                return Err(Malformed);
            }
            before = key;
            self.code_row(coder, grid, store, slots, (at, known, &key, is_over))?;
        }
        Ok(())
    }

    /// One row, whose key is known by now.
    fn code_row<C: Coder>(
        &mut self,
        coder: &mut C,
        grid: &mut Grid,
        store: &mut Store,
        slots: &KeySlots,
        (at, known, key, is_over): (usize, Option<usize>, &Key, bool),
    ) -> Result<(), Malformed> {
        if C::READS {
            grid.add_row(slots, key);
        }
        let place = match known {
            Some(row) => store.rows.get(row).ok_or(Malformed)?.place,
            None if is_over => NOWHERE,
            None => store.remember(key, self.now),
        };
        if is_over {
            self.over.push(*key);
        }
        if let Some(row) = known {
            let is_same = self.code_same(coder, grid, store, slots, (at, place))?;
            store.rows.get_mut(row).ok_or(Malformed)?.tell(self.now, !is_same);
            if is_same {
                return Ok(());
            }
        }
        let (cells, columns) = store.cells(place);
        if is_over {
            // A thread that ended went on as it did.
            self.stores[usize::from(section::THREADS)].recall(key, cells, columns);
        }
        let mut places = self.places.iter();
        for slot in (0..grid.columns.len()).filter(|slot| !slots.contains(&Some(*slot))) {
            let place = places.next().copied().ok_or(Malformed)?;
            let (cell, model) = cells.get_mut(place).zip(columns.get_mut(place)).ok_or(Malformed)?;
            let column = grid.columns[slot];
            let value = grid.row(at)[slot];
            let value = if column.kind == Kind::Text {
                self.names.code(coder, grid, cell, (at, slot))?
            } else {
                model.1.code(coder, cell, value, UNITS[column.unit])
            };
            grid.set(at, slot, value);
        }
        Ok(())
    }

    /// Whether a row that is remembered is told again as it was.
    fn code_same<C: Coder>(
        &mut self,
        coder: &mut C,
        grid: &mut Grid,
        store: &mut Store,
        slots: &KeySlots,
        (at, place): (usize, usize),
    ) -> Result<bool, Malformed> {
        let has_names = grid.columns.iter().any(|column| column.kind == Kind::Text);
        let mut chance = store.is_same[usize::from(has_names)][usize::from(self.is_full)];
        let (cells, _) = store.cells(place);
        let others = (0..grid.columns.len()).filter(|slot| !slots.contains(&Some(*slot)));
        let is_same = !C::READS
            && others.clone().zip(&self.places).all(|(slot, &place)| {
                let value = grid.row(at)[slot];
                cells.get(place).is_some_and(|cell| match grid.columns[slot].kind {
                    _ if cell.is_new() => false,
                    Kind::Text => self.names.texts.get(cell.value) == grid.text(value),
                    _ => cell.value == value,
                })
            });
        let is_same = coder.bit(&mut chance, is_same);
        if C::READS && is_same {
            for (slot, &place) in others.zip(&self.places) {
                let told = cells.get(place).map_or(0, |cell| cell.value);
                let value = match grid.columns[slot].kind {
                    Kind::Text => grid.put_text(self.names.texts.get(told), (at, slot)).ok_or(Malformed)?,
                    _ => told,
                };
                grid.set(at, slot, value);
            }
        }
        store.is_same[usize::from(has_names)][usize::from(self.is_full)] = chance;
        Ok(is_same)
    }
}

impl Shape {
    /// One column. `next`: where the layout of before goes on.
    fn code_column(
        &mut self,
        coder: &mut impl Coder,
        wanted: Option<Column>,
        layout: &[Column],
        next: &mut usize,
    ) -> Option<Column> {
        let nothing =
            Column { id: 0, kind: Kind::Prefixed, prefix: 0, min: 0, zero_is_apart: false, unit: 0 };
        let wanted = wanted.unwrap_or(nothing);
        let expected = layout.get(*next).map(|column| column.id);
        let is_next =
            expected.is_some() && coder.bit(&mut self.is_next, expected.is_some_and(|id| id == wanted.id));
        let id = match expected.filter(|_| is_next) {
            Some(id) => id,
            None => u8::try_from(coder.plain(u64::from(wanted.id), 8)).ok()?,
        };
        let at = layout.iter().position(|column| column.id == id);
        *next = at.map_or(*next, |at| at + 1);
        let before = at.and_then(|at| layout.get(at)).copied().unwrap_or(Column { id, ..nothing });
        if coder.bit(&mut self.is_same, wanted == before) {
            return Some(before);
        }
        let [_, low, high] = wanted.to_bytes();
        let kept = |column: Column| (column.kind, column.zero_is_apart, column.unit);
        let described = if coder.bit(&mut self.is_same_kind, kept(wanted) == kept(before)) {
            before
        } else {
            let bits = coder.plain(u64::from(u16::from_le_bytes([low, high])), 16);
            let [low, high, ..] = bits.to_le_bytes();
            return Column::from_bytes([id, low, high]);
        };
        let mut changed = |number: &mut Number, wanted: u32, before: u32| {
            let difference = number.code_signed(coder, i64::from(wanted) - i64::from(before));
            u32::try_from(difference.wrapping_add(i64::from(before))).ok()
        };
        let prefix = changed(&mut self.prefix, wanted.prefix, before.prefix).filter(|&prefix| prefix < 8)?;
        let min = changed(&mut self.min, wanted.min, before.min).filter(|&min| min <= 64)?;
        Column::from_bytes(Column { prefix, min, ..described }.to_bytes())
    }
}

fn place<T>(list: &mut [T], number: u64) -> Option<&mut T> {
    usize::try_from(number).ok().and_then(|at| list.get_mut(at))
}

/// A row's key; where the kind of table has none, its place.
fn row_key(grid: &Grid, at: usize, slots: &KeySlots, kind: u8) -> Key {
    if key_columns(kind).is_empty() {
        return place_key(at);
    }
    let row = grid.row(at);
    slots.map(|slot| slot.and_then(|slot| row.get(slot)).copied().unwrap_or(0))
}

fn place_key(at: usize) -> Key {
    let mut key = Key::default();
    key[0] = at as u64;
    key
}

/// The key of a row that is not remembered, by the row before.
fn code_key(
    coder: &mut impl Coder,
    store: &mut Store,
    grid: &Grid,
    slots: &KeySlots,
    (kind, at): (u8, usize),
    (wanted, before): (&Key, &Key),
) -> Key {
    if key_columns(kind).is_empty() {
        return place_key(at);
    }
    let is_thread = matches!(kind, section::THREADS..=section::GONE);
    let mut key = Key::default();
    for (part, slot) in slots.iter().enumerate() {
        let Some(column) = slot.and_then(|slot| grid.columns.get(slot)) else { continue };
        // The first thread of a process often is the process.
        let begins_process = is_thread && part >= 2 && key[..2] != before[..2];
        let base = if begins_process { key[part - 2] } else { before[part] };
        let unit = UNITS[column.unit];
        let difference = (wanted[part] / unit).wrapping_sub(base / unit).cast_signed();
        let difference = store.keys[part].code_signed(coder, difference).cast_unsigned();
        key[part] = (base / unit).wrapping_add(difference).wrapping_mul(unit);
    }
    key
}
