//! Reads table `interval`: what was received in the last minutes and is not compacted yet.

use rusqlite::{Connection, Row, params};

use crate::codec::meta::{self, MetaRow};
use crate::reader::TimeRange;
use crate::rows::{BootRow, HostRow, all_rows, unsigned, value};

/// A row of table `interval`.
#[derive(Clone, Debug)]
pub(crate) struct FreshRow {
    pub(crate) boot: BootRow,
    pub(crate) meta: MetaRow,
    pub(crate) cpus: Vec<u8>,
    pub(crate) samples: Vec<u8>,
    pub(crate) sched: Vec<u8>,
}

/// Columns in the order of [`read`]; `?1` is whether samples are wanted.
pub(crate) fn columns() -> String {
    let names: Vec<&str> = meta::COLUMNS.iter().map(|column| column.name).collect();
    format!(
        "boot_id, {}, cpus, CASE WHEN ?1 THEN samples ELSE x'' END, CASE WHEN ?1 THEN sched ELSE x'' END",
        names.join(", ")
    )
}

pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<FreshRow> {
    let mut meta = [0_i64; meta::COUNT];
    for (at, value) in meta.iter_mut().enumerate() {
        *value = row.get::<_, Option<i64>>(at + 1)?.unwrap_or(meta::NONE);
    }
    Ok(FreshRow {
        boot: row.get(0)?,
        meta,
        cpus: row.get(meta::COUNT + 1)?,
        samples: row.get(meta::COUNT + 2)?,
        sched: row.get(meta::COUNT + 3)?,
    })
}

/// Reads the fresh intervals of a host that end in a range, in order of end.
pub(crate) fn in_range(
    connection: &Connection,
    host: HostRow,
    range: TimeRange,
    with_samples: bool,
) -> rusqlite::Result<Vec<FreshRow>> {
    let text = format!(
        "SELECT {} FROM interval WHERE host_id = ?2 AND end_wall_ns > ?3 AND end_wall_ns <= ?4
         ORDER BY end_wall_ns",
        columns()
    );
    let values = params![with_samples, host, range.since_ns, range.until_ns];
    let mut rows = all_rows(connection, &text, values, read)?;
    // Not by SQLite, whose sorter has no limit.
    rows.sort_by_key(|row| (row.meta[meta::END_WALL], row.boot, row.meta[meta::SEQUENCE]));
    Ok(rows)
}

/// A fresh interval as the index by time has it, which is readable where the interval is not.
#[derive(Copy, Clone, Debug)]
pub(crate) struct FreshKey {
    pub(crate) end_wall_ns: i64,
    pub(crate) sequence: u64,
}

/// [`in_range`] one row after the other, for where a page is damaged: gives those that cannot be read to `skip`, which passes an
/// error on if it is something else.
pub(crate) fn each_in_range<E: From<rusqlite::Error>>(
    connection: &Connection,
    host: HostRow,
    range: TimeRange,
    with_samples: bool,
    skip: &mut dyn FnMut(FreshKey, rusqlite::Error) -> Result<(), E>,
) -> Result<Vec<FreshRow>, E> {
    let text = "SELECT id, end_wall_ns, sequence FROM interval INDEXED BY interval_time
         WHERE host_id = ?1 AND end_wall_ns > ?2 AND end_wall_ns <= ?3 ORDER BY end_wall_ns, boot_id, sequence";
    let text_of_one = format!("SELECT {} FROM interval WHERE id = ?2", columns());
    let mut select_one = connection.prepare_cached(&text_of_one)?;
    let key =
        |row: &Row<'_>| Ok((row.get(0)?, FreshKey { end_wall_ns: row.get(1)?, sequence: unsigned(row, 2)? }));
    let mut found = Vec::new();
    for (id, key) in
        all_rows::<(i64, _)>(connection, text, params![host, range.since_ns, range.until_ns], key)?
    {
        match select_one.query_row(params![with_samples, id], read) {
            Ok(row) => found.push(row),
            Err(error) => skip(key, error)?,
        }
    }
    Ok(found)
}

/// The end of the `count`-th fresh interval of a host that ends after `after_ns`, or of the last one.
pub(crate) fn end_of_some(
    connection: &Connection,
    host: HostRow,
    after_ns: i64,
    count: u32,
) -> rusqlite::Result<Option<i64>> {
    let text = "SELECT max(end_wall_ns) FROM (SELECT end_wall_ns FROM interval
                    WHERE host_id = ?1 AND end_wall_ns > ?2 ORDER BY end_wall_ns LIMIT ?3)";
    value(connection, text, params![host, after_ns, count])
}
