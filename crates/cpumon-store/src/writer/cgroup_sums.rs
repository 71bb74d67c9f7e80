//! The SQL function `merged_cgroups(a, b)` on the writer's connection: sums of control groups are added to rows that exist already.

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::{Connection, Result};

use crate::codec::cgroups::Cgroups;
use crate::codec::varint::Cursor;

/// Name of the SQL function.
pub(crate) const MERGED_CGROUPS: &str = "merged_cgroups";

/// Groups as a row of sums stores them.
pub(crate) fn to_bytes(cgroups: &Cgroups) -> Vec<u8> {
    let mut out = Vec::new();
    cgroups.write(&mut out);
    out
}

/// Adds the function to a connection.
pub(crate) fn register(connection: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function(MERGED_CGROUPS, 2, flags, merged)
}

/// NULL and a sum make that sum. A damaged one is logged and left out: it must not stop compaction for good.
fn merged(context: &Context<'_>) -> Result<Option<Vec<u8>>> {
    let mut sum: Option<Cgroups> = None;
    for at in 0..context.len() {
        let Some(bytes) = context.get_raw(at).as_blob_or_null()? else { continue };
        match Cgroups::read(&mut Cursor::new(bytes)) {
            Ok(more) => sum.get_or_insert_default().add(&more),
            Err(malformed) => log::warn!("a sum of control groups is damaged and left out: {malformed}"),
        }
    }
    Ok(sum.as_ref().map(to_bytes))
}
