//! How clocks of boots were taken to be off, as rows. In: the piece that placed an interval. Out: a row of `clock_piece` for each
//! new one. Why: what a device sends again after a restart of the receiver must be placed where it was before, so that it is
//! known again.

use cpumon_model::{ClockPiece, MAX_CLOCK_PIECES};
use rusqlite::{Connection, params};

/// The piece that was written last, and of which row of `boot`.
pub(super) type LastPiece = Option<(i64, ClockPiece)>;

/// Writes a piece, unless it was the last one that was written.
pub(super) fn keep(
    connection: &Connection,
    kept: &mut LastPiece,
    boot_id: i64,
    piece: Option<ClockPiece>,
) -> rusqlite::Result<()> {
    let Some(piece) = piece.filter(|piece| *kept != Some((boot_id, *piece))) else { return Ok(()) };
    let new =
        connection.prepare_cached("INSERT OR IGNORE INTO clock_piece VALUES (?1, ?2, ?3, ?4, ?5)")?.execute(
            params![boot_id, piece.from_boot_ns, piece.before_ns, piece.anchor_ns, piece.tolerance_ns],
        )?;
    if new > 0 {
        connection
            .prepare_cached(
                "DELETE FROM clock_piece WHERE boot_id = ?1 AND from_boot_ns <=
                     (SELECT from_boot_ns FROM clock_piece WHERE boot_id = ?1 ORDER BY from_boot_ns DESC LIMIT 1 OFFSET ?2)",
            )?
            .execute(params![boot_id, i64::try_from(MAX_CLOCK_PIECES).unwrap_or(i64::MAX)])?;
    }
    *kept = Some((boot_id, piece));
    Ok(())
}
