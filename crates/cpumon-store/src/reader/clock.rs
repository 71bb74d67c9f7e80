//! The time line of a boot: how its clock was corrected, and up to where. A receiver that starts again goes on from it.

use cpumon_model::{BootId, ClockLine, ClockPiece, HostId};
use rusqlite::{Connection, OptionalExtension, params};

use super::chunks::{MAX_TRIED, first_readable};
use super::error::ReadError;
use super::open::Reader;
use crate::codec::meta::END_BOOT;
use crate::error::Result;
use crate::rows::{BootKey, BootRow, HostRow};

impl Reader {
    /// How a boot's intervals were placed, and up to where. Empty for a boot that is not known.
    pub fn clock_line(&self, host: HostId, boot: BootId) -> Result<ClockLine> {
        let Some(host_row) = self.host_row(host)? else { return Ok(ClockLine::default()) };
        read_line(&self.connection, host_row, boot).map_err(|error| self.read_error(error))
    }
}

fn read_line(
    connection: &Connection,
    host: HostRow,
    boot: BootId,
) -> std::result::Result<ClockLine, ReadError> {
    let found: Option<BootRow> = connection
        .prepare_cached("SELECT id FROM boot WHERE host_id = ?1 AND key = ?2")?
        .query_row(params![host, boot.0], |row| row.get(0))
        .optional()?;
    let Some(boot) = found else { return Ok(ClockLine::default()) };
    let mut select = connection.prepare_cached(
        "SELECT from_boot_ns, before_ns, anchor_ns, tolerance_ns FROM clock_piece WHERE boot_id = ?1 ORDER BY from_boot_ns",
    )?;
    let pieces = select.query_map([boot], |row| {
        Ok(ClockPiece {
            from_boot_ns: row.get(0)?,
            before_ns: row.get(1)?,
            anchor_ns: row.get(2)?,
            tolerance_ns: row.get(3)?,
        })
    })?;
    let pieces = pieces.collect::<rusqlite::Result<_>>()?;
    Ok(ClockLine::recall(pieces, newest_boot_ns(connection, BootKey { host, boot })?))
}

/// The latest end of a boot, since boot. The newest chunk is read too: late intervals can be fresh while newer ones are not.
fn newest_boot_ns(connection: &Connection, key: BootKey) -> std::result::Result<Option<i64>, ReadError> {
    let fresh: Option<i64> = connection
        .prepare_cached("SELECT max(end_boot_ns) FROM interval WHERE host_id = ?1 AND boot_id = ?2")?
        .query_row(params![key.host, key.boot], |row| row.get(0))?;
    let mut select = connection.prepare_cached(
        "SELECT id FROM chunk WHERE host_id = ?1 AND boot_id = ?2 ORDER BY last_end_wall_ns DESC LIMIT ?3",
    )?;
    let ids = select.query_map(params![key.host, key.boot, MAX_TRIED], |row| row.get(0))?;
    let chunk = first_readable(connection, ids)?;
    Ok(chunk.metas.iter().map(|row| row[END_BOOT]).chain(fresh).max())
}
