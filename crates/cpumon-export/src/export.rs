//! [`export`]: writes what a query selects, in the format that it names.

use std::io::Write;

use cpumon_model::Value;
use cpumon_store::Reader;

use crate::compare::ranges_of;
use crate::csv::{Csv, csv};
use crate::error::ExportError;
use crate::jsonl::{Jsonl, jsonl};
use crate::legacy::{self, legacy};
use crate::query::{ExportQuery, Format, Kind, Progress, Report};
use crate::rows::RowSink;
use crate::source::Source;

/// Checks a query: fails as [`export`] would before it writes anything.
pub fn check(reader: &Reader, query: &ExportQuery) -> Result<(), ExportError> {
    let source = Source::open(reader, query, 1)?;
    match query.format {
        Format::Legacy(year) => legacy::layout_of(&source, year, query.kind).map(drop),
        Format::Csv | Format::Jsonl if query.kind == Kind::Compare => ranges_of(query).map(drop),
        Format::Csv | Format::Jsonl => Ok(()),
    }
}

/// Writes the rows that `query` selects to `out`.
///
/// `progress` is called after every 512 intervals and after each pass over a host. `out` should be buffered; it is flushed at
/// the end.
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

/// Writes rows that are in memory: a header of `names`, then `rows` with as many values each.
pub fn table<'v>(
    format: Format,
    names: &[&'static str],
    rows: impl IntoIterator<Item = Vec<Value<'v>>>,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let mut rows = rows.into_iter();
    match format {
        Format::Csv => {
            let mut sink = Csv::new(out);
            RowSink::header(&mut sink, names)?;
            rows.try_for_each(|row| RowSink::row(&mut sink, &row))?;
            sink.flush()?;
        }
        Format::Jsonl => {
            let mut sink = Jsonl::new(out);
            RowSink::header(&mut sink, names)?;
            rows.try_for_each(|row| RowSink::row(&mut sink, &row))?;
            sink.flush()?;
        }
        Format::Legacy(_) => return Err(ExportError::NoLegacyLayout { kind: "hosts" }),
    }
    Ok(())
}
