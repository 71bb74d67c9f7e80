//! Where the reading of a source ended, and what it could not tell. In: a source's name and a place in it; holes. Out: rows of
//! `counter` and `gap`, in the same transaction as the intervals. Why: a source that is read twice, or was read half, is told from one
//! that lost something.

use cpumon_model::HostId;
use rusqlite::{Connection, OptionalExtension, params};

use super::Writer;
use super::gaps::host_row;
use crate::Gap;
use crate::error::{At, Result};

/// A place in a source.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SourcePosition {
    /// Number of the last snapshot that was read; 0: none.
    pub number: u64,
    /// When it was made, ns since the UNIX epoch on the device's clock.
    pub wall_ns: i64,
}

impl Writer {
    /// Where the reading of `source` ended; the begin if it never was read.
    pub fn source_position(&self, source: &str) -> Result<SourcePosition> {
        let read = |part: &str| -> rusqlite::Result<i64> {
            let value = self
                .connection
                .prepare_cached("SELECT value FROM counter WHERE name = ?1")?
                .query_row([name_of(source, part)], |row| row.get(0))
                .optional()?;
            Ok(value.unwrap_or(0))
        };
        let place = read("number").and_then(|number| {
            Ok(SourcePosition { number: number.cast_unsigned(), wall_ns: read("wall_ns")? })
        });
        place.at("read a place", &self.path)
    }

    /// Notes where the reading of `source` ended, in the open transaction.
    pub fn put_source_position(&mut self, source: &str, place: SourcePosition) -> Result<()> {
        self.begin()?;
        let put = |part: &str, value: i64| {
            self.connection
                .prepare_cached("INSERT OR REPLACE INTO counter (name, value) VALUES (?1, ?2)")?
                .execute(params![name_of(source, part), value])
        };
        let done = put("number", place.number.cast_signed()).and_then(|_| put("wall_ns", place.wall_ns));
        done.map(|_| ()).map_err(|error| self.fail("note a place", error))
    }

    /// Notes a hole of a host in the open transaction. The same hole again changes nothing.
    pub fn put_gap(&mut self, host: HostId, gap: &Gap) -> Result<()> {
        self.begin()?;
        insert_gap(&self.connection, host, gap).map_err(|error| self.fail("note a hole", error))
    }
}

/// Names of places begin like this; they are no counts for people.
pub(crate) const POSITIONS: &str = "place ";

fn name_of(source: &str, part: &str) -> String {
    format!("{POSITIONS}{part} {source}")
}

fn insert_gap(connection: &Connection, host: HostId, gap: &Gap) -> rusqlite::Result<()> {
    let host_id = host_row(connection, host)?;
    connection
        .prepare_cached(
            "INSERT INTO gap (host_id, begin_wall_ns, end_wall_ns, intervals, reason)
             SELECT ?1, ?2, ?3, ?4, ?5 WHERE NOT EXISTS
                 (SELECT 1 FROM gap WHERE (host_id, begin_wall_ns, end_wall_ns, intervals, reason) = (?1, ?2, ?3, ?4, ?5))",
        )?
        .execute(params![
            host_id,
            gap.begin_wall_ns,
            gap.end_wall_ns,
            i64::try_from(gap.intervals).unwrap_or(i64::MAX),
            gap.reason
        ])?;
    Ok(())
}
