//! The time line of a boot as it was kept. In: tables `clock_piece`, `interval`, `chunk`. Out: a [`ClockLine`]. Why: a receiver that
//! starts again goes on where it was.

use cpumon_model::{BootId, ClockLine, ClockPiece, HostId};
use rusqlite::{Connection, OptionalExtension, params};

use super::Reader;
use super::cursor::ReadError;
use crate::codec::chunk::Chunk;
use crate::codec::meta::END_BOOT;
use crate::error::Result;

impl Reader {
    /// How a boot's intervals were placed, and up to where. Empty for a boot that is not known.
    pub fn clock_line(&self, host: HostId, boot: BootId) -> Result<ClockLine> {
        let Some(host_id) = self.host_row(host)? else { return Ok(ClockLine::default()) };
        read_line(&self.connection, host_id, boot).map_err(|error| self.read_error(error))
    }
}

fn read_line(
    connection: &Connection,
    host_id: i64,
    boot: BootId,
) -> std::result::Result<ClockLine, ReadError> {
    let found: Option<i64> = connection
        .prepare_cached("SELECT id FROM boot WHERE host_id = ?1 AND key = ?2")?
        .query_row(params![host_id, boot.0], |row| row.get(0))
        .optional()?;
    let Some(boot_id) = found else { return Ok(ClockLine::default()) };
    let mut select = connection.prepare_cached(
        "SELECT from_boot_ns, before_ns, anchor_ns, tolerance_ns FROM clock_piece WHERE boot_id = ?1 ORDER BY from_boot_ns",
    )?;
    let pieces = select.query_map([boot_id], |row| {
        Ok(ClockPiece {
            from_boot_ns: row.get(0)?,
            before_ns: row.get(1)?,
            anchor_ns: row.get(2)?,
            tolerance_ns: row.get(3)?,
        })
    })?;
    let pieces = pieces.collect::<rusqlite::Result<_>>()?;
    Ok(ClockLine::recall(pieces, newest_boot_ns(connection, host_id, boot_id)?))
}

/// The latest end of a boot. Fresh intervals are newer than sealed ones, but for what came late.
fn newest_boot_ns(
    connection: &Connection,
    host_id: i64,
    boot_id: i64,
) -> std::result::Result<Option<i64>, ReadError> {
    let fresh: Option<i64> = connection
        .prepare_cached("SELECT max(end_boot_ns) FROM interval WHERE host_id = ?1 AND boot_id = ?2")?
        .query_row([host_id, boot_id], |row| row.get(0))?;
    let meta: Option<Vec<u8>> = connection
        .prepare_cached(
            "SELECT meta FROM chunk WHERE host_id = ?1 AND boot_id = ?2 ORDER BY last_end_wall_ns DESC LIMIT 1",
        )?
        .query_row([host_id, boot_id], |row| row.get(0))
        .optional()?;
    let mut chunk = Chunk::default();
    if let Some(meta) = meta {
        chunk.read_meta(&meta)?;
    }
    Ok(chunk.metas.iter().map(|row| row[END_BOOT]).chain(fresh).max())
}
