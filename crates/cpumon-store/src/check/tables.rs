//! The tables of a store, as its version defines them: the schema in a damaged file may be damaged too.

use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, Result as Sql};

use crate::error::{At, Result};
use crate::schema;

/// A table, and how its rows are found in order.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) name: String,
    /// All columns; of a table whose rows have a number that is no column, `rowid` before them.
    pub(super) columns: Vec<String>,
    /// The columns that rows are in order of. Only numbers, unless it is one name.
    pub(super) keys: Vec<String>,
}

impl Table {
    fn at<'a>(&self, row: &'a [Value], name: &str) -> Option<&'a Value> {
        self.columns.iter().position(|column| column == name).and_then(|at| row.get(at))
    }

    /// A copy of a row with another value in a column.
    pub(super) fn with(&self, row: &[Value], name: &str, value: Value) -> Vec<Value> {
        let mut row = row.to_vec();
        if let Some(cell) =
            self.columns.iter().position(|column| column == name).and_then(|at| row.get_mut(at))
        {
            *cell = value;
        }
        row
    }

    /// The number in a column of a row.
    pub(super) fn integer(&self, row: &[Value], name: &str) -> Option<i64> {
        match self.at(row, name) {
            Some(Value::Integer(number)) => Some(*number),
            _ => None,
        }
    }

    /// The bytes in a column of a row; none if it has none.
    pub(super) fn blob<'a>(&self, row: &'a [Value], name: &str) -> Option<&'a [u8]> {
        match self.at(row, name) {
            Some(Value::Blob(bytes)) => Some(bytes),
            _ => None,
        }
    }
}

/// The tables of a schema version; hosts and boots first, because the others refer to them.
pub(super) fn of_version(version: i32) -> Result<Vec<Table>> {
    let path = Path::new(":memory:");
    let mut model = Connection::open_in_memory().at("open", path)?;
    schema::create(&mut model, path, version)?;
    read(&model).at("read the schema of", path)
}

fn read(model: &Connection) -> Sql<Vec<Table>> {
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
        tables.push(Table { name, columns, keys });
    }
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::VERSION;

    #[test]
    fn each_table_of_each_version_has_an_order() {
        let mut last = 0;
        for version in 1..=VERSION {
            let tables = of_version(version).unwrap();
            assert!(tables.len() >= last && tables[0].name == "host" && tables[1].name == "boot");
            last = tables.len();
            for table in &tables {
                assert!(table.keys.iter().all(|key| table.columns.contains(key)) && !table.keys.is_empty());
            }
        }
        let tables = of_version(VERSION).unwrap();
        let keys = |name: &str| tables.iter().find(|table| table.name == name).unwrap().keys.join(" ");
        assert_eq!((keys("chunk"), keys("gap")), ("id".to_owned(), "rowid".to_owned()));
        assert_eq!(keys("process_minute"), "host_id minute process_id");
    }
}
