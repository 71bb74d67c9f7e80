//! What was stored, handed out as files. In: a store's reader and a query. Out: CSV, JSON lines, or the original's
//! layouts, on any writer. Why: other tools want tables; one file a format, one function each.
//!
//! # Overview
//! [`export`] looks at [`ExportQuery::format`] and calls [`csv`], [`jsonl`] or [`legacy`]. Each walks the store once,
//! keeps one interval in memory, and writes rows as it goes. A pivot knows its columns only at the end: it keeps up to 64 MiB
//! of cells on the way, and walks what does not fit a second time.
//! A comparison ([`Comparison`]) adds up two spans and keeps a row a group.
//! [`OutputFile`] puts the result into a file that exists only when it is complete.
//! [`chart`] draws pictures, which the receiver's API and the command line share.
//! [`sql`] prints the answer of a query over the store's virtual tables. Formats by example: docs/export.md.
//!
//! # No data, zero, exited
//! What a source does not measure is empty (CSV) or null (JSON). Zero is 0. A task that ended is marked in `life`.

pub mod chart;
mod compare;
mod csv;
mod error;
mod file;
mod group;
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

use cpumon_model::Value;
use cpumon_store::Reader;

use crate::rows::{PivotSink, RowSink};
use crate::source::Source;

pub use crate::csv::{csv, is_formula};
pub use compare::{COMPARE_COLUMNS, COMPARE_POINTS, Change, Comparison, Side};
pub use error::ExportError;
pub use file::OutputFile;
pub use jsonl::jsonl;
pub use legacy::legacy;
pub use resample::{Sum, add_process};

pub use query::{ExportQuery, Format, GroupBy, Kind, LegacyYear, PivotValue, Progress, Report, Span};

pub use sql::{SqlFormat, sql};

/// Writes a table that is at hand: `names`, then `rows` of as many values.
pub fn table<'v>(
    format: Format,
    names: &[&'static str],
    rows: impl IntoIterator<Item = Vec<Value<'v>>>,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let mut rows = rows.into_iter();
    match format {
        Format::Csv => {
            let mut sink = csv::Csv::new(out);
            RowSink::header(&mut sink, names)?;
            rows.try_for_each(|row| RowSink::row(&mut sink, &row))?;
            sink.flush()?;
        }
        Format::Jsonl => {
            let mut sink = jsonl::Jsonl::new(out);
            RowSink::header(&mut sink, names)?;
            rows.try_for_each(|row| RowSink::row(&mut sink, &row))?;
            sink.flush()?;
        }
        Format::Legacy(_) => return Err(ExportError::NoLegacyLayout { kind: "hosts" }),
    }
    Ok(())
}

/// Hands the rows of what `query` asks for to a format that has a layout for every kind.
fn hand_out(
    reader: &Reader,
    query: &ExportQuery,
    sink: &mut (impl RowSink + PivotSink),
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, ExportError> {
    match query.kind {
        Kind::Pivot => pivot::run(reader, query, sink, progress),
        Kind::Compare => compare::run(reader, query, sink, progress),
        Kind::Processes | Kind::Threads | Kind::Ledger => kinds::run(reader, query, sink, progress),
    }
}

/// Refuses what [`export`] refuses before it writes anything.
pub fn check(reader: &Reader, query: &ExportQuery) -> Result<(), ExportError> {
    let source = Source::open(reader, query, 1)?;
    match query.format {
        Format::Legacy(year) => legacy::layout_of(&source, year, query.kind).map(drop),
        Format::Csv | Format::Jsonl if query.kind == Kind::Compare => compare::spans_of(query).map(drop),
        Format::Csv | Format::Jsonl => Ok(()),
    }
}

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
