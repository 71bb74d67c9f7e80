//! How the clocks of boots were corrected, as rows of `clock_piece`. What a device sends again after a restart of the receiver
//! must be placed where it was placed before, or it would not be recognised as a duplicate.

use cpumon_model::{ClockPiece, MAX_CLOCK_PIECES};
use rusqlite::params;

use super::transaction::Transaction;
use crate::rows::BootRow;

/// The piece that was written last: hundreds of intervals in a row are placed by the same one.
#[derive(Debug, Default)]
pub(super) struct ClockPieces {
    last: Option<(BootRow, ClockPiece)>,
}

impl ClockPieces {
    /// Writes the piece that placed an interval, unless it was the last one written.
    pub(super) fn write(
        &mut self,
        transaction: &Transaction<'_>,
        boot: BootRow,
        piece: Option<ClockPiece>,
    ) -> rusqlite::Result<()> {
        // Without a piece the device's clock was right, and there is nothing to remember.
        let Some(piece) = piece.filter(|piece| self.last != Some((boot, *piece))) else { return Ok(()) };
        let new = transaction
            .prepare_cached("INSERT OR IGNORE INTO clock_piece VALUES (?1, ?2, ?3, ?4, ?5)")?
            .execute(params![
                boot,
                piece.from_boot_ns,
                piece.before_ns,
                piece.anchor_ns,
                piece.tolerance_ns
            ])?;
        if new > 0 {
            // The time line of a boot in memory has the same limit: older pieces are of no use to it.
            transaction
                .prepare_cached(
                    "DELETE FROM clock_piece WHERE boot_id = ?1 AND from_boot_ns <=
                         (SELECT from_boot_ns FROM clock_piece WHERE boot_id = ?1 ORDER BY from_boot_ns DESC LIMIT 1 OFFSET ?2)",
                )?
                .execute(params![boot, i64::try_from(MAX_CLOCK_PIECES).unwrap_or(i64::MAX)])?;
        }
        self.last = Some((boot, piece));
        Ok(())
    }
}
