//! Receipts by a clock that was wrong before the store knew any time. Once a right one is known they are moved on: else the first days of a
//! store would be old at once, and be deleted.

use rusqlite::{Connection, Result as Sql};

use crate::rows::{counter, execute, set_counter, signed, value};

/// No clock that is right shows an earlier time (2025-01-01): this program did not exist.
pub const EARLIEST_NS: i64 = 1_735_689_600_000_000_000;
/// How long a store is new, ns. It took its first clock for right, whatever it showed.
const NEW_FOR_NS: i64 = 7 * 86_400_000_000_000;
/// The row of `counter`: receipts that were moved on. Part of the file format.
const MOVED: &str = "receipts_moved";

/// The time that is known was `before_ns`, and is `now_ns` after a step of more than `step_ns`: a clock was set right, or the machine was off.
/// Of a new store, and of a time that no right clock shows, the former is assumed: at worst some days are kept for longer.
pub(super) fn correct(connection: &Connection, before_ns: i64, now_ns: i64, step_ns: i64) -> Sql<()> {
    let moved_before = counter(connection, MOVED)?;
    // Moved receipts are new. If that made the store new again, one on a machine that is off for days each week would delete nothing.
    let may_move = before_ns < EARLIEST_NS || moved_before.is_none() && is_new(connection, before_ns)?;
    if !may_move {
        return Ok(());
    }
    // What came in since the step has later receipts than these. Without a battery each start is in 1970 again: then receipts go on from
    // the known time for days, while that one does not move.
    let until_ns = before_ns.saturating_add(step_ns).max(EARLIEST_NS);
    let s = |ns: i64| ns / 1_000_000_000;
    let in_ns = [before_ns, now_ns.saturating_sub(before_ns), until_ns];
    let in_s = [s(before_ns), s(now_ns) - s(before_ns), s(until_ns)];
    let mut moved = 0;
    for (table, column) in
        [("interval", "received_wall_ns"), ("chunk", "last_received_wall_ns"), ("trace", "received_wall_ns")]
    {
        moved += move_on(connection, table, column, in_ns)?;
    }
    // Names are deleted by their last use.
    for table in ["thread", "thread_block", "process", "process_block"] {
        move_on(connection, table, "last_s", in_s)?;
    }
    if moved == 0 {
        return Ok(());
    }
    if moved_before.is_none() {
        log::warn!(
            "the receiver's clock was wrong until now: what this store received before ({moved} receipts) counts as received now, so \
             that it is not deleted as old"
        );
    }
    set_counter(connection, MOVED, moved_before.unwrap_or_default().saturating_add(signed(moved)))
}

/// Moves times on. `times`: the latest one before the step, by how much, and from which time on they are right. Returns the number of rows.
fn move_on(connection: &Connection, table: &str, column: &str, times: [i64; 3]) -> Sql<usize> {
    let text = format!("UPDATE {table} SET {column} = min({column}, ?1) + ?2 WHERE {column} < ?3");
    execute(connection, &text, times)
}

/// Whether nothing was received long before, and nothing that was is gone.
fn is_new(connection: &Connection, before_ns: i64) -> Sql<bool> {
    let text = "SELECT min(oldest) FROM (SELECT min(received_wall_ns) AS oldest FROM interval
                                UNION ALL SELECT min(last_received_wall_ns) FROM chunk)";
    let oldest_ns: Option<i64> = value(connection, text, [])?;
    let is_young = oldest_ns.is_some_and(|oldest_ns| before_ns.saturating_sub(oldest_ns) < NEW_FOR_NS);
    Ok(is_young && counter(connection, "retired_intervals")?.is_none_or(|count| count == 0))
}
