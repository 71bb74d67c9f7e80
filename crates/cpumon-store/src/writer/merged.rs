//! SQL functions on the writer's connection that add two values which `+` cannot add: `merged_run_delays(a, b)` for histograms and
//! `merged_waits(a, b)` for wait reasons; and SQL that adds sums to rows that exist already.

use cpumon_model::{DelayHistogram, Waits};
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::{Connection, Result};

use crate::codec::varint::{Cursor, Malformed};
use crate::codec::{delays, waits};

/// A histogram as a row of sums stores it.
pub(crate) fn delay_bytes(histogram: &DelayHistogram) -> Vec<u8> {
    let mut out = Vec::new();
    delays::write(&mut out, histogram);
    out
}

/// SQL: the sum of a column of histograms.
pub(crate) fn run_delays_sum() -> &'static str {
    "run_delays = merged_run_delays(run_delays, excluded.run_delays)"
}

/// SQL: the sum of a column of wait reasons.
pub(crate) fn waits_sum() -> &'static str {
    "waits = merged_waits(waits, excluded.waits)"
}

/// SQL: the sum of a column in which NULL is no data.
pub(crate) fn known_sum(column: &str) -> String {
    format!(
        "{column} = CASE WHEN excluded.{column} IS NULL THEN {column} ELSE coalesce({column}, 0) + excluded.{column} END"
    )
}

/// SQL: the largest run time and the times of a sum. Where rows of an older version were added before, the times stay NULL.
pub(crate) const LARGEST: &str = "max_run_ns_per_s = max(max_run_ns_per_s, excluded.max_run_ns_per_s),
    first_ns = min(first_ns, excluded.first_ns), last_ns = max(last_ns, excluded.last_ns),
    max_end_ns = CASE WHEN max_end_ns IS NOT NULL AND excluded.max_run_ns_per_s > max_run_ns_per_s
                      THEN excluded.max_end_ns ELSE max_end_ns END";

/// Adds the functions to a connection.
pub(crate) fn register(connection: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("merged_run_delays", 2, flags, |context| {
        let read = |bytes: &[u8]| delays::read(&mut Cursor::new(bytes));
        let sum = sum_of(context, read, |sum: &mut DelayHistogram, more| *sum += &more)?;
        Ok(sum.as_ref().map(delay_bytes))
    })?;
    connection.create_scalar_function("merged_waits", 2, flags, |context| {
        let sum = sum_of(context, waits::read, |sum: &mut Waits, more| *sum += &more)?;
        Ok(sum.as_ref().map(waits::to_bytes))
    })
}

/// NULL and a value make that value. A damaged one is logged and left out: it must not stop compaction for good.
fn sum_of<T: Default>(
    context: &Context<'_>,
    read: impl Fn(&[u8]) -> std::result::Result<T, Malformed>,
    add: impl Fn(&mut T, T),
) -> Result<Option<T>> {
    let mut sum = None;
    for at in 0..context.len() {
        let Some(bytes) = context.get_raw(at).as_blob_or_null()? else { continue };
        match read(bytes) {
            Ok(more) => add(sum.get_or_insert_default(), more),
            Err(malformed) => log::warn!("a sum is damaged and left out: {malformed}"),
        }
    }
    Ok(sum)
}
