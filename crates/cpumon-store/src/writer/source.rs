//! How far a source (a recording on disk, by name) was read, as rows of table `counter`. They are written in the transaction
//! of the intervals that were read, so an import that is killed goes on where its last commit ended.

use rusqlite::{Connection, OptionalExtension, Result as Sql, params};

/// A position in a source.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SourcePosition {
    /// Number of the last snapshot that was read; 0: none.
    pub number: u64,
    /// When it was made, ns since the UNIX epoch on the device's clock.
    pub wall_ns: i64,
}

/// Name of a counter; "place" is part of the file format.
fn name_of(source: &str, part: &str) -> String {
    format!("place {part} {source}")
}

/// How far `source` was read; [`SourcePosition::default`] if it never was.
pub(super) fn load(connection: &Connection, source: &str) -> Sql<SourcePosition> {
    let mut select = connection.prepare_cached("SELECT value FROM counter WHERE name = ?1")?;
    let mut read = |part: &str| -> Sql<Option<i64>> {
        select.query_row([name_of(source, part)], |row| row.get(0)).optional()
    };
    let number = read("number")?.unwrap_or(0).cast_unsigned();
    Ok(SourcePosition { number, wall_ns: read("wall_ns")?.unwrap_or(0) })
}

/// Records how far `source` was read.
pub(super) fn save(connection: &Connection, source: &str, position: SourcePosition) -> Sql<()> {
    let mut insert =
        connection.prepare_cached("INSERT OR REPLACE INTO counter (name, value) VALUES (?1, ?2)")?;
    insert.execute(params![name_of(source, "number"), position.number.cast_signed()])?;
    insert.execute(params![name_of(source, "wall_ns"), position.wall_ns])?;
    Ok(())
}
