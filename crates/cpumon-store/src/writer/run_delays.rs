//! The SQL function `merged_run_delays(a, b)` on the writer's connection. Sums are added to rows that exist already, and a
//! histogram is not a number that `+` could add.

use cpumon_model::DelayHistogram;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::{Connection, Result};

use crate::codec::delays;
use crate::codec::varint::Cursor;

/// Name of the SQL function.
pub(crate) const MERGED: &str = "merged_run_delays";

/// A histogram as a row of sums stores it.
pub(crate) fn to_bytes(histogram: &DelayHistogram) -> Vec<u8> {
    let mut out = Vec::new();
    delays::write(&mut out, histogram);
    out
}

/// Adds the function to a connection.
pub(crate) fn register(connection: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function(MERGED, 2, flags, merged)
}

/// NULL and a histogram make that histogram. A damaged one is logged and left out: it must not stop compaction for good.
fn merged(context: &Context<'_>) -> Result<Option<Vec<u8>>> {
    let mut sum = None;
    for at in 0..context.len() {
        let Some(bytes) = context.get_raw(at).as_blob_or_null()? else { continue };
        match delays::read(&mut Cursor::new(bytes)) {
            Ok(more) => *sum.get_or_insert_with(DelayHistogram::default) += &more,
            Err(malformed) => log::warn!("a sum of run delays is damaged and left out: {malformed}"),
        }
    }
    Ok(sum.as_ref().map(to_bytes))
}
