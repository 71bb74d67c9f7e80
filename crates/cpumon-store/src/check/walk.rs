//! Reads all rows of a store's tables in order of their keys, around unreadable places, and decodes their packed columns. The tables
//! are those that the store's version defines: the schema in a damaged file may be damaged too.

use std::path::Path;

use cpumon_model::{DelayHistogram, Interval, Trust, Waits};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Result as Sql, Row, params_from_iter};

use super::source::Source;
use crate::codec::chunk::Chunk;
use crate::codec::host::Cgroups;
use crate::codec::lists::{self, ListedProcess};
use crate::codec::meta::{END_WALL, TRUST, is_trust_code, trust_code};
use crate::codec::sched::SchedRows;
use crate::codec::varint::Malformed;
use crate::codec::waits_for::WaitsFor;
use crate::codec::{Packed, PackedInterval, blob, host};
use crate::error::{At, Result, is_damage};
use crate::names::{ProcessName, ThreadName};
use crate::schema;

/// A table, and how its rows are found in order.
#[derive(Clone, Debug)]
pub(super) struct CheckedTable {
    pub(super) name: String,
    /// All columns; of a table whose rows have a number that is no column, `rowid` before them.
    pub(super) columns: Vec<String>,
    /// The columns that rows are in order of. Only numbers, unless it is one name.
    pub(super) keys: Vec<String>,
}

impl CheckedTable {
    fn place(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// A copy of a row with another value in a column.
    pub(super) fn with(&self, row: &[Value], name: &str, value: Value) -> Vec<Value> {
        let mut row = row.to_vec();
        if let Some(cell) = self.place(name).and_then(|at| row.get_mut(at)) {
            *cell = value;
        }
        row
    }

    /// The number in a column; `None` if the value is no integer.
    pub(super) fn integer(&self, row: &[Value], name: &str) -> Option<i64> {
        match row.get(self.place(name)?) {
            Some(Value::Integer(number)) => Some(*number),
            _ => None,
        }
    }

    /// The bytes in a column of a row; none if it has none.
    pub(super) fn blob<'a>(&self, row: &'a [Value], name: &str) -> Option<&'a [u8]> {
        match row.get(self.place(name)?) {
            Some(Value::Blob(bytes)) => Some(bytes),
            _ => None,
        }
    }
}

/// The tables of a schema version; hosts and boots first, because the others refer to them.
pub(super) fn tables_of_version(version: i32) -> Result<Vec<CheckedTable>> {
    tables_of(&schema::model(version)?).at("read the schema of", Path::new(":memory:"))
}

fn tables_of(model: &Connection) -> Sql<Vec<CheckedTable>> {
    let mut select = model.prepare(
        "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite_%'
         ORDER BY name <> 'host', name <> 'boot', name",
    )?;
    let names = select.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?)))?;
    let mut tables = Vec::new();
    for found in names {
        let (name, is_without_rowid) = found?;
        let mut info = model.prepare("SELECT name, pk FROM pragma_table_info(?1) ORDER BY cid")?;
        let columns: Vec<(String, u32)> =
            info.query_map([&name], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Sql<_>>()?;
        let mut keys: Vec<(u32, String)> =
            columns.iter().filter(|column| column.1 > 0).map(|(name, at)| (*at, name.clone())).collect();
        keys.sort_unstable();
        let mut keys: Vec<String> = keys.into_iter().map(|(_, name)| name).collect();
        let mut columns: Vec<String> = columns.into_iter().map(|(name, _)| name).collect();
        if keys.is_empty() && !is_without_rowid {
            columns.insert(0, "rowid".to_owned());
            keys.push("rowid".to_owned());
        }
        tables.push(CheckedTable { name, columns, keys });
    }
    Ok(tables)
}

/// Keys that are tried one by one behind a page that cannot be read: more than rows fit in one.
const NEAR: i64 = 1_024;
/// The largest step behind a page that cannot be read.
const FAR: i64 = i64::MAX / 4;

#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) enum RowFinding<'a> {
    /// Key and values of a row.
    Row(&'a [i64], &'a [Value]),
    /// A row with a readable key and unreadable content.
    LostRow,
    /// An unknown number of rows that cannot be read.
    LostRange,
}

/// Takes each finding; false ends the walk.
type Visit<'a> = &'a mut dyn FnMut(RowFinding<'_>) -> bool;

/// Gives each row that can be read to `visit`, and each place with rows that cannot.
///
/// # Errors
/// The table is not there, or reading fails for another reason than damage.
pub(super) fn walk(source: &Source, table: &CheckedTable, visit: Visit<'_>) -> Sql<()> {
    let mut walk = TableWalk { source, table, after: vec![i64::MIN; table.keys.len()] };
    let walked = if table.name == "counter" { walk.by_name(visit) } else { walk.by_number(visit) };
    if source.end_walk(walked.as_ref().err()) {
        // What else is in the table is not searched for: each search could take as long.
        visit(RowFinding::LostRange);
        return Ok(());
    }
    walked
}

enum NextKey {
    Key(Vec<i64>),
    End,
    Damaged,
}

struct TableWalk<'a> {
    source: &'a Source,
    table: &'a CheckedTable,
    /// The key of the last row that was read, or that is passed over.
    after: Vec<i64>,
}

impl TableWalk<'_> {
    fn text(&self, columns: &str, limit: &str) -> String {
        let keys = self.table.keys.join(", ");
        let places = vec!["?"; self.table.keys.len()].join(", ");
        let name = &self.table.name;
        format!("SELECT {columns} FROM {name} WHERE ({keys}) > ({places}) ORDER BY {keys}{limit}")
    }

    /// Visits the rows of a table whose keys are numbers.
    fn by_number(&mut self, visit: Visit<'_>) -> Sql<()> {
        loop {
            let is_in_order = match self.stream(visit) {
                Ok(true) => return Ok(()),
                Ok(false) => false,
                Err(error) if !is_damage(&error) => return Err(error),
                Err(_) => true,
            };
            let (found, next) = match self.next(&self.after)? {
                // The row can be read, but not by going on from the one before.
                NextKey::Key(key) if !is_in_order => (RowFinding::LostRange, Some(before(key))),
                // Its key can be read, so it is the content that cannot.
                NextKey::Key(key) => (RowFinding::LostRow, Some(key)),
                NextKey::End => (RowFinding::LostRange, None),
                NextKey::Damaged => (RowFinding::LostRange, self.behind()?),
            };
            let goes_on = visit(found);
            match next {
                Some(key) if goes_on => self.after = key,
                _ => return Ok(()),
            }
        }
    }

    /// Reads on until the end, or the first row that cannot be read. False: a row came that is not behind the one before, as where damaged
    /// pages lead to others that were read; that may have no end.
    fn stream(&mut self, visit: Visit<'_>) -> Sql<bool> {
        let keys = self.table.keys.len();
        let columns = format!("{}, {}", self.table.keys.join(", "), self.table.columns.join(", "));
        let mut select = self.source.prepare_cached(&self.text(&columns, ""))?;
        self.source.note_row();
        let mut rows = select.query(params_from_iter(&self.after))?;
        let mut values = Vec::with_capacity(self.table.columns.len());
        while let Some(row) = rows.next()? {
            self.source.note_row();
            let key = key_of(row, keys)?;
            if key <= self.after {
                return Ok(false);
            }
            values.clear();
            for at in 0..self.table.columns.len() {
                values.push(row.get(keys + at)?);
            }
            let goes_on = visit(RowFinding::Row(&key, &values));
            self.after = key;
            if !goes_on {
                break;
            }
        }
        Ok(true)
    }

    /// The key of the first row behind a key.
    fn next(&self, after: &[i64]) -> Sql<NextKey> {
        let keys = self.table.keys.join(", ");
        let mut select = self.source.prepare_cached(&self.text(&keys, " LIMIT 1"))?;
        self.source.note_row();
        let found = select.query_row(params_from_iter(after), |row| key_of(row, self.table.keys.len()));
        match found.optional() {
            Ok(Some(key)) if key.as_slice() > after => Ok(NextKey::Key(key)),
            Ok(Some(_)) => Ok(NextKey::Damaged),
            Ok(None) => Ok(NextKey::End),
            Err(error) if is_damage(&error) => Ok(NextKey::Damaged),
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
                NextKey::Key(key) => return Ok(Some(before(key))),
                NextKey::End => return Ok(None),
                NextKey::Damaged => {}
            }
        }
        Ok(None)
    }

    /// [`TableWalk::behind`] by steps of the key's part `at`; damaged: no step helps.
    fn behind_by(&self, at: usize) -> Sql<NextKey> {
        let seek = |step: i64| {
            let mut from: Vec<i64> = self.after.iter().map(|&part| part.max(0)).collect();
            from[at] = from[at].saturating_add(step);
            from[at + 1..].fill(i64::MIN);
            self.next(&from)
        };
        for step in 1..=NEAR {
            match seek(step)? {
                NextKey::Damaged => {}
                found => return Ok(found),
            }
        }
        let (mut bad, mut good, mut found) = (NEAR, 2 * NEAR, NextKey::Damaged);
        while good < FAR {
            found = seek(good)?;
            if !matches!(found, NextKey::Damaged) {
                break;
            }
            (bad, good) = (good, good.saturating_mul(2));
        }
        // Between the two, the first step from which on it can be read.
        while !matches!(found, NextKey::Damaged) && good - bad > 1 {
            let middle = bad + (good - bad) / 2;
            match seek(middle)? {
                NextKey::Damaged => bad = middle,
                nearer => (good, found) = (middle, nearer),
            }
        }
        Ok(found)
    }

    /// Visits the rows of a table whose key is a name; such a table is small.
    fn by_name(&self, visit: Visit<'_>) -> Sql<()> {
        let (columns, keys) = (self.table.columns.join(", "), self.table.keys.join(", "));
        let text = format!("SELECT {keys}, {columns} FROM {} ORDER BY {keys}", self.table.name);
        let mut select = self.source.prepare(&text)?;
        self.source.note_row();
        let mut rows = select.query([])?;
        let mut last: Option<String> = None;
        while let Some(row) = rows.next()? {
            self.source.note_row();
            let name: String = row.get(0)?;
            if last.as_ref().is_some_and(|last| *last >= name) {
                visit(RowFinding::LostRange);
                break;
            }
            last = Some(name);
            let values: Vec<Value> =
                (0..self.table.columns.len()).map(|at| row.get(1 + at)).collect::<Sql<_>>()?;
            if !visit(RowFinding::Row(&[], &values)) {
                break;
            }
        }
        Ok(())
    }
}

fn key_of(row: &Row<'_>, keys: usize) -> Sql<Vec<i64>> {
    (0..keys).map(|at| row.get(at)).collect()
}

/// The greatest key below this one.
fn before(mut key: Vec<i64>) -> Vec<i64> {
    if let Some(last) = key.last_mut() {
        *last = last.saturating_sub(1);
    }
    key
}

#[derive(Debug, Default)]
pub(super) struct Content {
    chunk: Chunk,
    packed: PackedInterval,
    sched: SchedRows,
    interval: Interval,
}

impl Content {
    /// Decodes all that is packed in a row.
    pub(super) fn check(&mut self, table: &CheckedTable, row: &[Value]) -> Result<(), Malformed> {
        let section = |name: &str| table.blob(row, name).unwrap_or_default();
        match table.name.as_str() {
            "chunk" => self.check_chunk(table, row),
            "interval" => {
                blob::decode(section("samples"), &mut self.packed)?;
                self.sched.read(section("sched"))?;
                host::decode(section("cpus"), &mut self.interval)
            }
            "thread_block" => lists::unpack::<ThreadName>(section("names")).map(|_| ()),
            "process_block" => lists::unpack::<ProcessName>(section("names")).map(|_| ()),
            "process_list" => lists::unpack::<ListedProcess>(section("processes")).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// A row of sums without the packed columns that cannot be decoded, if there are any: its numbers are good.
    pub(super) fn without_damage(table: &CheckedTable, row: &[Value]) -> Option<Vec<Value>> {
        if !table.name.ends_with("_minute") && !table.name.ends_with("_hour") {
            return None;
        }
        let damaged = [
            (DelayHistogram::COLUMN, is_damaged::<DelayHistogram>(table, row)),
            (Waits::COLUMN, is_damaged::<Waits>(table, row)),
            (Cgroups::COLUMN, is_damaged::<Cgroups>(table, row)),
            (WaitsFor::COLUMN, is_damaged::<WaitsFor>(table, row)),
        ];
        let mut rest: Option<Vec<Value>> = None;
        for (column, _) in damaged.into_iter().filter(|(_, is_damaged)| *is_damaged) {
            rest = Some(table.with(rest.as_deref().unwrap_or(row), column, Value::Null));
        }
        rest
    }

    /// A row with the trust that its content has, if it has another one; [`Content::check`] has decoded it. By a wrong one the data of
    /// strangers would count as that of an enrolled host.
    pub(super) fn corrected(&self, table: &CheckedTable, row: &[Value]) -> Option<Vec<Value>> {
        let trust = table.integer(row, "trust")?;
        let right = match table.name.as_str() {
            "chunk" if self.chunk.metas.iter().any(|meta| meta[TRUST] == trust) => trust,
            "chunk" => self.chunk.metas.first()?[TRUST],
            "interval" if is_trust_code(trust) => trust,
            // Of a fresh interval nothing else says it: no one vouches for it.
            "interval" => trust_code(Some(Trust::Unauthenticated)),
            _ => trust,
        };
        (right != trust).then(|| table.with(row, "trust", Value::Integer(right)))
    }

    fn check_chunk(&mut self, table: &CheckedTable, row: &[Value]) -> Result<(), Malformed> {
        let section = |name: &str| table.blob(row, name).unwrap_or_default();
        let chunk = &mut self.chunk;
        chunk.read_meta(section("meta"))?;
        let ends = || chunk.metas.iter().map(|meta| meta[END_WALL]);
        let span = (table.integer(row, "first_end_wall_ns"), table.integer(row, "last_end_wall_ns"));
        if (ends().min(), ends().max()) != span || chunk.metas.is_empty() {
            return Err(Malformed { offset: 0, what: "times of other intervals" });
        }
        chunk.read_processes(section("processes"), |ids| Ok::<_, Malformed>(vec![true; ids.len()]))?;
        chunk.read_sched(section("sched"))?;
        chunk.read_threads(section("threads"))?;
        for at in 0..chunk.metas.len() {
            self.sched.read(chunk.sched.of(at))?;
            host::decode(chunk.cpus.of(at), &mut self.interval)?;
        }
        Ok(())
    }
}

fn is_damaged<T: Packed>(table: &CheckedTable, row: &[Value]) -> bool {
    table.blob(row, T::COLUMN).is_some_and(|bytes| T::unpack(bytes).is_err())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::VERSION;

    #[test]
    fn each_table_of_each_version_has_an_order() {
        let mut last = 0;
        for version in 1..=VERSION {
            let tables = tables_of_version(version).unwrap();
            assert!(tables.len() >= last && tables[0].name == "host" && tables[1].name == "boot");
            last = tables.len();
            for table in &tables {
                assert!(table.keys.iter().all(|key| table.columns.contains(key)) && !table.keys.is_empty());
            }
        }
        let tables = tables_of_version(VERSION).unwrap();
        let keys = |name: &str| tables.iter().find(|table| table.name == name).unwrap().keys.join(" ");
        assert_eq!((keys("chunk"), keys("gap")), ("id".to_owned(), "rowid".to_owned()));
        assert_eq!(keys("process_minute"), "host_id minute process_id");
    }
}
