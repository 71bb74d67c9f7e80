//! Compares the list of tables of a file with that of a store. In: an open database. Out: the object that is not a store's. Why: a file from
//! elsewhere may have a view in place of a table, a trigger or an index of its own, and reading or writing would run them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use rusqlite::{Connection, Result as Sql};

use super::steps::{VERSION, create};
use crate::error::{At, Result, StoreError};

/// Tables, indexes, views and triggers by their names, which SQLite compares without case.
type Objects = BTreeMap<String, Object>;

#[derive(Debug, PartialEq, Eq)]
struct Object {
    /// `table`, `index`, `view` or `trigger`.
    kind: String,
    /// The table that it belongs to.
    table: String,
    /// Its definition; `None`: an index that a table's definition implies.
    text: Option<String>,
}

/// Checks that each object of a store of this version is as cpumon made it, and that nothing of others acts on its tables. Tables and views
/// beside them, which nothing here reads, may be anybody's.
pub(crate) fn compare(connection: &Connection, path: &Path, version: i32) -> Result<()> {
    let found = compare_found(connection, path, version)?;
    match of_version(version)?.iter().find(|(name, _)| !found.contains_key(*name)) {
        Some((name, object)) => Err(StoreError::Corrupt {
            path: path.into(),
            detail: format!("{} \"{name}\" is missing", object.kind),
        }),
        None => Ok(()),
    }
}

/// [`compare`] of a list that may be damaged: what is there is checked.
#[cfg(feature = "bundled")]
pub(crate) fn compare_damaged(connection: &Connection, path: &Path, version: i32) -> Result<()> {
    compare_found(connection, path, version).map(|_| ())
}

fn compare_found(connection: &Connection, path: &Path, version: i32) -> Result<Objects> {
    let found = objects(connection).at("read the list of tables of", path)?;
    let own = of_version(version)?;
    let refuse = |what: String| Err(StoreError::Corrupt { path: path.into(), detail: what });
    for (name, object) in &found {
        let kind = &object.kind;
        match own.get(name) {
            Some(known) if known == object => {}
            Some(known) if known.kind != *kind => {
                return refuse(format!("{kind} \"{name}\" is in place of a store's {}", known.kind));
            }
            Some(_) => return refuse(format!("{kind} \"{name}\" is defined otherwise than in a store")),
            None if own.contains_key(&object.table) && kind != "table" => {
                return refuse(format!("a store has no {kind} \"{name}\""));
            }
            None => {}
        }
    }
    Ok(found)
}

fn of_version(version: i32) -> Result<&'static Objects> {
    static MODELS: [OnceLock<Objects>; VERSION as usize + 1] =
        [const { OnceLock::new() }; VERSION as usize + 1];
    let path = Path::new(":memory:");
    let at = usize::try_from(version).unwrap_or(0);
    let Some(model) = MODELS.get(at) else {
        return Err(StoreError::NewerSchema { path: path.into(), found: version, known: VERSION });
    };
    if let Some(objects) = model.get() {
        return Ok(objects);
    }
    let mut connection = Connection::open_in_memory().at("open", path)?;
    create(&mut connection, path, version)?;
    let objects = objects(&connection).at("read the list of tables of", path)?;
    Ok(model.get_or_init(|| objects))
}

fn objects(connection: &Connection) -> Sql<Objects> {
    let mut select = connection.prepare("SELECT type, name, tbl_name, sql FROM sqlite_schema")?;
    let rows = select.query_map([], |row| {
        let text: Option<String> = row.get(3)?;
        let text = text.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
        let name: String = row.get(1)?;
        let table: String = row.get(2)?;
        let object = Object { kind: row.get(0)?, table: table.to_ascii_lowercase(), text };
        Ok((name.to_ascii_lowercase(), object))
    })?;
    rows.collect()
}
