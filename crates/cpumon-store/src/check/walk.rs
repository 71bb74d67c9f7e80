//! Reads all rows of a table, in order of its key, around what cannot be read.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Result as Sql, Row, params_from_iter};

use super::tables::Table;
use crate::error::is_damage;

/// Keys that are tried one by one behind a page that cannot be read: more than rows fit in one.
const NEAR: i64 = 1_024;
/// The largest step behind it.
const FAR: i64 = i64::MAX / 4;

/// What a walk comes to.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) enum Found<'a> {
    /// A row, with its key.
    Row(&'a [i64], &'a [Value]),
    /// A row of which the key can be read, and the rest cannot.
    LostRow,
    /// An unknown number of rows that cannot be read.
    LostRange,
}

/// Takes what is found; false ends the walk.
type Visit<'a> = &'a mut dyn FnMut(Found<'_>) -> bool;

/// Gives each row that can be read to `visit`, and each place with rows that cannot.
///
/// # Errors
/// The table is not there, or reading fails for another reason than damage.
pub(super) fn walk(source: &Connection, table: &Table, visit: Visit<'_>) -> Sql<()> {
    let mut walk = Walk { source, table, after: vec![i64::MIN; table.keys.len()] };
    if table.name == "counter" {
        return walk.by_name(visit);
    }
    loop {
        match walk.stream(visit) {
            Ok(()) => return Ok(()),
            Err(error) if !is_damage(&error) => return Err(error),
            Err(_) => {}
        }
        let (found, next) = match walk.next(&walk.after)? {
            // Its key can be read, so it is the content that cannot.
            Next::Key(key) => (Found::LostRow, Some(key)),
            Next::End => (Found::LostRange, None),
            Next::Damaged => (Found::LostRange, walk.behind()?),
        };
        let goes_on = visit(found);
        match next {
            Some(key) if goes_on => walk.after = key,
            _ => return Ok(()),
        }
    }
}

/// What comes behind a key.
enum Next {
    Key(Vec<i64>),
    End,
    Damaged,
}

struct Walk<'a> {
    source: &'a Connection,
    table: &'a Table,
    /// The key of the last row that was read, or that is passed over.
    after: Vec<i64>,
}

impl Walk<'_> {
    fn text(&self, columns: &str, limit: &str) -> String {
        let keys = self.table.keys.join(", ");
        let places = vec!["?"; self.table.keys.len()].join(", ");
        let name = &self.table.name;
        format!("SELECT {columns} FROM {name} WHERE ({keys}) > ({places}) ORDER BY {keys}{limit}")
    }

    /// Reads on until the end, or the first row that cannot be read.
    fn stream(&mut self, visit: Visit<'_>) -> Sql<()> {
        let keys = self.table.keys.len();
        let columns = format!("{}, {}", self.table.keys.join(", "), self.table.columns.join(", "));
        let mut select = self.source.prepare_cached(&self.text(&columns, ""))?;
        let mut rows = select.query(params_from_iter(&self.after))?;
        let mut values = Vec::with_capacity(self.table.columns.len());
        while let Some(row) = rows.next()? {
            let key = key_of(row, keys)?;
            values.clear();
            for at in 0..self.table.columns.len() {
                values.push(row.get(keys + at)?);
            }
            let goes_on = visit(Found::Row(&key, &values));
            self.after = key;
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// The key of the first row behind a key.
    fn next(&self, after: &[i64]) -> Sql<Next> {
        let keys = self.table.keys.join(", ");
        let mut select = self.source.prepare_cached(&self.text(&keys, " LIMIT 1"))?;
        let found = select.query_row(params_from_iter(after), |row| key_of(row, self.table.keys.len()));
        match found.optional() {
            Ok(Some(key)) => Ok(Next::Key(key)),
            Ok(None) => Ok(Next::End),
            Err(error) if is_damage(&error) => Ok(Next::Damaged),
            Err(error) => Err(error),
        }
    }

    /// A key from which on rows can be read again; `None`: there is no such row.
    fn behind(&self) -> Sql<Option<Vec<i64>>> {
        // Of a host's rows the time, which comes second.
        let at = usize::from(self.after.len() > 1);
        for at in (0..=at).rev() {
            match self.behind_by(at)? {
                // The row itself is to be read next.
                Next::Key(key) => return Ok(Some(before(key))),
                Next::End => return Ok(None),
                Next::Damaged => {}
            }
        }
        Ok(None)
    }

    /// [`Walk::behind`] by steps of the key's part `at`; damaged: no step helps.
    fn behind_by(&self, at: usize) -> Sql<Next> {
        let seek = |step: i64| {
            let mut from: Vec<i64> = self.after.iter().map(|&part| part.max(0)).collect();
            from[at] = from[at].saturating_add(step);
            from[at + 1..].fill(i64::MIN);
            self.next(&from)
        };
        for step in 1..=NEAR {
            match seek(step)? {
                Next::Damaged => {}
                found => return Ok(found),
            }
        }
        let (mut bad, mut good, mut found) = (NEAR, 2 * NEAR, Next::Damaged);
        while good < FAR {
            found = seek(good)?;
            if !matches!(found, Next::Damaged) {
                break;
            }
            (bad, good) = (good, good.saturating_mul(2));
        }
        // Between the two, the first step from which on it can be read.
        while !matches!(found, Next::Damaged) && good - bad > 1 {
            let middle = bad + (good - bad) / 2;
            match seek(middle)? {
                Next::Damaged => bad = middle,
                nearer => (good, found) = (middle, nearer),
            }
        }
        Ok(found)
    }

    /// The rows of a table whose key is a name; there are few of them.
    fn by_name(&self, visit: Visit<'_>) -> Sql<()> {
        let text = format!("SELECT {} FROM {}", self.table.columns.join(", "), self.table.name);
        let mut select = self.source.prepare(&text)?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let values: Vec<Value> =
                (0..self.table.columns.len()).map(|at| row.get(at)).collect::<Sql<_>>()?;
            if !visit(Found::Row(&[], &values)) {
                break;
            }
        }
        Ok(())
    }
}

fn key_of(row: &Row<'_>, keys: usize) -> Sql<Vec<i64>> {
    (0..keys).map(|at| row.get(at)).collect()
}

/// The greatest key that is less.
fn before(mut key: Vec<i64>) -> Vec<i64> {
    if let Some(last) = key.last_mut() {
        *last = last.saturating_sub(1);
    }
    key
}
