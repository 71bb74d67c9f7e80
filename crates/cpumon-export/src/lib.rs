//! What was stored, handed out as files. In: a store's reader and a query. Out: CSV, JSON lines, or the original's
//! layouts, on any writer. Why: other tools want tables; one file a format, one function each.
//!
//! # Overview
//! [`export`] looks at [`ExportQuery::format`] and calls [`csv`], [`jsonl`] or [`legacy`]. Each walks the store once,
//! keeps one interval in memory, and writes rows as it goes. A pivot knows its columns only at the end: it keeps up to 64 MiB
//! of cells on the way, and walks what does not fit a second time.
//! [`OutputFile`] puts the result into a file that exists only when it is complete.
//! [`sql`] prints the answer of a query over the store's virtual tables. Formats by example: docs/export.md.
//!
//! # No data, zero, exited
//! What a source does not measure is empty (CSV) or null (JSON). Zero is 0. A task that ended is marked in `life`.

mod csv;
mod error;
mod file;
mod jsonl;
mod kinds;
mod legacy;
mod pivot;
mod query;
mod resample;
mod rows;
mod source;
mod sql;

use std::io::Write;

use cpumon_store::Reader;

pub use crate::csv::{csv, is_formula};
pub use error::ExportError;
pub use file::OutputFile;
pub use jsonl::jsonl;
pub use legacy::legacy;
pub use resample::{Sum, add_process};

pub use query::{ExportQuery, Format, Kind, LegacyYear, PivotBy, PivotValue, Progress, Report};

pub use sql::{SqlFormat, sql};

/// Writes what `query` asks for to `out`.
///
/// `progress` is called now and then. `out` should be buffered; it is flushed at the end.
pub fn export(
    reader: &Reader,
    query: &ExportQuery,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, ExportError> {
    match query.format {
        Format::Csv => csv(reader, query, out, progress),
        Format::Jsonl => jsonl(reader, query, out, progress),
        Format::Legacy(year) => legacy(reader, year, query, out, progress),
    }
}
