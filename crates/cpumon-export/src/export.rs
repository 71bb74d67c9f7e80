//! [`export`]: writes what a query selects, in the format that it names.

use std::borrow::Borrow;
use std::io::Write;

use cpumon_model::{Kind as ValueKind, Value};
use cpumon_query::fields::Field;
use cpumon_store::{Reader, TimeRange};

use crate::compare::ranges_of;
use crate::csv::Csv;
use crate::error::ExportError;
use crate::jsonl::Jsonl;
use crate::legacy::{self, legacy};
use crate::parquet::{MAX_PIVOT_COLUMNS, Parquet};
use crate::pivot::{self, MAX_COLUMNS};
use crate::query::{ExportQuery, Format, Kind, NotStored, PivotValue, Progress, Report};
use crate::rows::{PivotRows, RowSink, SinkColumn, columns};
use crate::source::Source;
use crate::{compare, kinds};

/// Gaps that are read to report losses at most.
const MAX_GAPS: usize = 100_000;
/// Lines of losses at most.
const MAX_NOT_STORED: usize = 1000;

impl Format {
    /// Its writer of rows; the original's layouts have none.
    pub(crate) fn rows(self, out: &mut dyn Write) -> Option<Box<dyn RowSink + '_>> {
        Some(match self {
            Self::Csv => Box::new(Csv::new(out)),
            Self::Jsonl => Box::new(Jsonl::new(out)),
            Self::Json => Box::new(Jsonl::array(out)),
            Self::Parquet => Box::new(Parquet::new(out)),
            Self::Legacy(_) => return None,
        })
    }
}

/// Checks a query: fails as [`export`] would before it writes anything.
pub fn check(reader: &Reader, query: &ExportQuery) -> Result<(), ExportError> {
    let source = Source::open(reader, query, 1)?;
    match query.format {
        Format::Legacy(year) => legacy::layout_of(&source, year, query.kind).map(drop),
        _ if query.kind == Kind::Compare => ranges_of(query).map(drop),
        _ => Ok(()),
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
    let report = match query.format {
        Format::Legacy(year) => legacy(reader, year, query, out, progress)?,
        _ => rows_of(reader, query, out, progress)?,
    };
    Ok(Report { not_stored: not_stored(reader, query)?, ..report })
}

fn rows_of(
    reader: &Reader,
    query: &ExportQuery,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, ExportError> {
    let mut sink = query.format.rows(out).ok_or(ExportError::NoLegacyLayout { kind: query.kind.name() })?;
    let report = match query.kind {
        Kind::Pivot => {
            let is_share = query.pivot_value == PivotValue::Pct;
            let kind = if is_share { ValueKind::Real } else { ValueKind::Integer };
            let is_wide = query.format != Format::Parquet;
            let most = if is_wide { MAX_COLUMNS } else { MAX_PIVOT_COLUMNS };
            pivot::run(reader, query, most, &mut PivotRows { sink: &mut *sink, kind }, progress)?
        }
        Kind::Compare => compare::run(reader, query, &mut *sink, progress)?,
        Kind::Processes | Kind::Threads | Kind::Cgroups | Kind::Ledger => {
            kinds::run(reader, query, &mut *sink, progress)?
        }
    };
    sink.finish()?;
    Ok(report)
}

/// Intervals of the range that were measured and not stored, a line a host and range.
fn not_stored(reader: &Reader, query: &ExportQuery) -> Result<Vec<NotStored>, ExportError> {
    let hosts = match &query.host {
        Some(wanted) => vec![reader.find_host(wanted)?],
        None => reader.hosts()?,
    };
    let whole = TimeRange::new(query.since_ns.unwrap_or(i64::MIN), query.until_ns.unwrap_or(i64::MAX));
    let ranges = query.compared.map_or_else(|| vec![whole], |compared| vec![compared.before, compared.after]);
    let mut all = Vec::new();
    for (host, range) in hosts.iter().flat_map(|host| ranges.iter().map(move |range| (host, *range))) {
        let gaps = reader.losses(host.info.host, range, MAX_GAPS)?;
        let intervals: u64 = gaps.iter().map(|gap| gap.intervals).sum();
        if let Some(first) = gaps.into_iter().find(|gap| gap.intervals > 0) {
            let (host, since_ns) = (host.info.hostname.clone(), first.begin_wall_ns);
            all.push(NotStored { host, intervals, since_ns, reason: first.reason });
        }
    }
    all.truncate(MAX_NOT_STORED);
    Ok(all)
}

/// Writes rows that are in memory: `columns`, then `rows` with as many values each.
pub fn table<'v>(
    format: Format,
    columns: &[SinkColumn<'_>],
    rows: impl IntoIterator<Item = Vec<Value<'v>>>,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let mut sink = format.rows(out).ok_or(ExportError::NoLegacyLayout { kind: "rows" })?;
    sink.columns(columns, None)?;
    rows.into_iter().try_for_each(|row| sink.row(&row))?;
    sink.finish()?;
    Ok(())
}

/// Writes rows with these columns.
pub fn rows<R, B: Borrow<R>>(
    format: Format,
    fields: &[Field<'_, R>],
    rows: impl IntoIterator<Item = B>,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let mut sink = format.rows(out).ok_or(ExportError::NoLegacyLayout { kind: "rows" })?;
    sink.columns(&columns(fields).collect::<Vec<_>>(), None)?;
    let fields: Vec<_> = fields.iter().filter(|field| field.column().is_some()).collect();
    for row in rows {
        sink.row(&fields.iter().map(|field| field.value(row.borrow())).collect::<Vec<_>>())?;
    }
    sink.finish()?;
    Ok(())
}
