//! Run-delay histograms inside SQL. In: a connection. Out: the function `merged_run_delays(a, b)` on it. Why: sums are added to
//! rows that are there already, and a histogram is not a number that `+` could add.

use cpumon_model::DelayHistogram;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::{Connection, Result};

use crate::codec::delays;
use crate::codec::varint::Cursor;

/// Name of the function.
pub(crate) const MERGED: &str = "merged_run_delays";

/// A histogram as it is kept in a row of sums.
pub(crate) fn to_bytes(histogram: &DelayHistogram) -> Vec<u8> {
    let mut out = Vec::new();
    delays::write(&mut out, histogram);
    out
}

/// Puts the function on the writer's connection.
pub(crate) fn register(connection: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function(MERGED, 2, flags, merged)
}

/// No data and a histogram are that histogram. A damaged one goes, and that is logged: it must not stop what comes after it.
fn merged(context: &Context<'_>) -> Result<Option<Vec<u8>>> {
    let mut sum = None;
    for at in 0..context.len() {
        let Some(bytes) = context.get_raw(at).as_blob_or_null()? else { continue };
        match delays::read(&mut Cursor::new(bytes)) {
            Ok(more) => *sum.get_or_insert_with(DelayHistogram::default) += &more,
            Err(malformed) => log::warn!("a sum of run delays is damaged and goes: {malformed}"),
        }
    }
    Ok(sum.as_ref().map(to_bytes))
}
