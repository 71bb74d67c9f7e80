//! Receipts by a clock that was wrong before the store knew any time. Once a right one is known they are moved on: else the first days of a
//! store would be old at once, and be deleted.

use rusqlite::{Connection, Result as Sql};

use crate::rows::{counter, execute, value};

/// No clock that is right shows an earlier time (2025-01-01): this program did not exist.
pub const EARLIEST_NS: i64 = 1_735_689_600_000_000_000;
/// How long a store is new, ns. It took its first clock for right, whatever it showed.
const NEW_FOR_NS: i64 = 7 * 86_400_000_000_000;

/// The time that is known was `before_ns`, and is `now_ns` after a step of more than `step_ns`: a clock was set right, or the machine was off.
/// Of a new store, and of a time that no right clock shows, the former is assumed: at worst some days are kept for longer.
pub(super) fn correct(connection: &Connection, before_ns: i64, now_ns: i64, step_ns: i64) -> Sql<()> {
    if before_ns >= EARLIEST_NS && !is_new(connection, before_ns)? {
        return Ok(());
    }
    log::warn!("the clock was wrong when this store was new: what came in until then counts as received now");
    // What came in since the step has later receipts than these.
    let until_ns = before_ns.saturating_add(step_ns);
    let s = |ns: i64| ns / 1_000_000_000;
    let in_ns = [before_ns, now_ns.saturating_sub(before_ns), until_ns];
    let in_s = [s(before_ns), s(now_ns) - s(before_ns), s(until_ns)];
    // Names are deleted by their last use.
    for (table, column, times) in [
        ("interval", "received_wall_ns", in_ns),
        ("chunk", "last_received_wall_ns", in_ns),
        ("trace", "received_wall_ns", in_ns),
        ("thread", "last_s", in_s),
        ("thread_block", "last_s", in_s),
        ("process", "last_s", in_s),
        ("process_block", "last_s", in_s),
    ] {
        let text = format!("UPDATE {table} SET {column} = min({column}, ?1) + ?2 WHERE {column} < ?3");
        execute(connection, &text, times)?;
    }
    Ok(())
}

/// Whether nothing was received long before, and nothing that was is gone.
fn is_new(connection: &Connection, before_ns: i64) -> Sql<bool> {
    let text = "SELECT min(oldest) FROM (SELECT min(received_wall_ns) AS oldest FROM interval
                                UNION ALL SELECT min(last_received_wall_ns) FROM chunk)";
    let oldest_ns: Option<i64> = value(connection, text, [])?;
    let is_young = oldest_ns.is_some_and(|oldest_ns| before_ns.saturating_sub(oldest_ns) < NEW_FOR_NS);
    Ok(is_young && counter(connection, "retired_intervals")?.is_none_or(|count| count == 0))
}
