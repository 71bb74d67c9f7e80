//! [`export`]: writes the rows that a query selects, in its format. Exports with fixed columns (processes, threads,
//! control groups, ledger) have those of `cpumon_model::COLUMNS`, in that order; a comparison of two ranges of time has
//! one row a group of processes, the largest change first.

use std::borrow::Borrow;
use std::io::Write;

use cpumon_model::{
    Column, ColumnId, Fields, Interval, IntervalView, Kind as ValueKind, Tables, ThreadInterval, Value,
};
use cpumon_query::fields::Field;
use cpumon_query::report::{Change, CompareRanges, Comparison, Side};
use cpumon_query::spans::{Cut, Span};
use cpumon_store::{Query, Reader, TimeRange, What};

use crate::csv::Csv;
use crate::error::ExportError;
use crate::jsonl::Jsonl;
use crate::legacy::{self, legacy};
use crate::parquet::{MAX_PIVOT_COLUMNS, Parquet};
use crate::pivot::{self, MAX_COLUMNS};
use crate::query::{ExportQuery, Format, Kind, NotStored, PivotValue, Progress, Report};
use crate::rows::{PivotRows, RowSink, SinkColumn, columns};
use crate::source::{Counter, ExportSource, hosts};

/// Gaps that are read to report losses at most.
const MAX_GAPS: usize = 100_000;
/// Most entries of [`Report::not_stored`].
const MAX_NOT_STORED: usize = 1000;

impl Format {
    pub(crate) fn rows(self, out: &mut dyn Write) -> Box<dyn RowSink + '_> {
        match self {
            Self::Csv => Box::new(Csv::new(out)),
            Self::Jsonl => Box::new(Jsonl::new(out)),
            Self::Json => Box::new(Jsonl::array(out)),
            Self::Parquet => Box::new(Parquet::new(out)),
        }
    }
}

/// Checks a query: fails as [`export`] would before it writes anything.
pub fn check(reader: &Reader, query: &ExportQuery) -> Result<(), ExportError> {
    let source = ExportSource::open(reader, query, 1)?;
    match query.legacy {
        Some(year) => legacy::layout_of(&source, year, query.kind).map(drop),
        None if query.kind == Kind::Compare => ranges_of(query).map(drop),
        None => Ok(()),
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
    let report = match query.legacy {
        Some(year) => legacy(reader, year, query, out, progress)?,
        None => rows_of(reader, query, out, progress)?,
    };
    Ok(Report { not_stored: not_stored(reader, query)?, ..report })
}

fn rows_of(
    reader: &Reader,
    query: &ExportQuery,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, ExportError> {
    let mut sink = query.format.rows(out);
    let report = match query.kind {
        Kind::Pivot => {
            let is_share = query.pivot_value == PivotValue::Pct;
            let kind = if is_share { ValueKind::Real } else { ValueKind::Integer };
            let is_wide = query.format != Format::Parquet;
            let most = if is_wide { MAX_COLUMNS } else { MAX_PIVOT_COLUMNS };
            pivot::run(reader, query, most, &mut PivotRows { sink: &mut *sink, kind }, progress)?
        }
        Kind::Compare => run_comparison(reader, query, &mut *sink, progress)?,
        Kind::Processes | Kind::Threads | Kind::Cgroups | Kind::Ledger => {
            run_kind(reader, query, &mut *sink, progress)?
        }
    };
    sink.finish()?;
    Ok(report)
}

/// Intervals of the range that were measured and not stored, a line a host and range.
fn not_stored(reader: &Reader, query: &ExportQuery) -> Result<Vec<NotStored>, ExportError> {
    let hosts = hosts(reader, query)?;
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

/// Writes rows that are in memory.
pub fn rows<R, B: Borrow<R>>(
    format: Format,
    fields: &[Field<'_, R>],
    rows: impl IntoIterator<Item = B>,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let mut sink = format.rows(out);
    sink.columns(&columns(fields).collect::<Vec<_>>(), None)?;
    let fields: Vec<_> = fields.iter().filter(|field| field.column().is_some()).collect();
    for row in rows {
        sink.row(&fields.iter().map(|field| field.value(row.borrow())).collect::<Vec<_>>())?;
    }
    sink.finish()?;
    Ok(())
}

/// The columns of a kind, and the part of an interval that it reads.
fn table_of(kind: Kind) -> (Tables, What) {
    match kind {
        Kind::Processes => (Tables::PROCESS_INTERVAL, What::Processes),
        Kind::Threads => (Tables::THREAD_INTERVAL, What::Threads),
        Kind::Cgroups => (Tables::CGROUP_INTERVAL, What::Meta),
        Kind::Ledger | Kind::Pivot | Kind::Compare => (Tables::HOST_INTERVAL, What::Meta),
    }
}

fn run_kind(
    reader: &Reader,
    query: &ExportQuery,
    sink: &mut dyn RowSink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, ExportError> {
    let (table, what) = table_of(query.kind);
    let columns: Vec<&'static Column> = cpumon_model::columns(table).collect();
    let mut source = ExportSource::open(reader, query, 1)?;
    source.only_active = query.only_active;
    let mut counter = Counter::new(progress);
    sink.columns(&columns.iter().copied().map(SinkColumn::from).collect::<Vec<_>>(), None)?;
    for host in &source.hosts {
        let label = source.label(host);
        let before = counter.report.intervals;
        source.walk(host, what, &mut counter, &mut |interval, report| {
            // For hosts that measure no limits of groups, no row means no data.
            let is_known = query.kind != Kind::Cgroups || interval.fields.contains(Fields::CGROUPS);
            report.intervals += u64::from(is_known);
            report.rows += write_rows(&label, interval, query, &columns, sink)?;
            Ok(())
        })?;
        counter.report.hosts += u64::from(counter.report.intervals > before);
    }
    Ok(counter.report)
}

/// Whether a thread did more than to wait, as the WHERE in `docs/export.md` says it in SQL.
fn is_active(thread: &ThreadInterval) -> bool {
    let delta = &thread.delta;
    delta.run_ns > 0
        || delta.run_delay_ns > 0
        || delta.voluntary_switches > 0
        || delta.involuntary_switches > 0
}

fn write_rows(
    host: &str,
    interval: &Interval,
    query: &ExportQuery,
    columns: &[&'static Column],
    sink: &mut dyn RowSink,
) -> Result<u64, ExportError> {
    let view = &IntervalView::new(host, interval);
    let threads = interval.threads.iter().filter(|thread| !query.only_active || is_active(thread));
    match query.kind {
        Kind::Processes => each(&interval.processes, columns, sink, |row, id| view.process(row, id)),
        Kind::Threads => each(threads, columns, sink, |row, id| view.thread(row, id)),
        Kind::Cgroups => each(&interval.cgroups, columns, sink, |row, id| view.cgroup(row, id)),
        Kind::Ledger | Kind::Pivot | Kind::Compare => {
            each(std::iter::once(()), columns, sink, |(), id| view.host(id))
        }
    }
}

fn each<'v, R: Copy>(
    rows: impl IntoIterator<Item = R>,
    columns: &[&'static Column],
    sink: &mut dyn RowSink,
    value: impl Fn(R, ColumnId) -> Value<'v>,
) -> Result<u64, ExportError> {
    let (mut cells, mut count) = (Vec::with_capacity(columns.len()), 0);
    for row in rows {
        cells.clear();
        cells.extend(columns.iter().map(|column| value(row, column.id)));
        sink.row(&cells)?;
        count += 1;
    }
    Ok(count)
}

fn ranges_of(query: &ExportQuery) -> Result<CompareRanges, ExportError> {
    query.compared.ok_or(ExportError::NoRanges)
}

/// Compares the two ranges of each host and writes the rows to `sink`.
fn run_comparison(
    reader: &Reader,
    query: &ExportQuery,
    sink: &mut dyn RowSink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, ExportError> {
    let CompareRanges { before, after } = ranges_of(query)?;
    let source = ExportSource::open(reader, query, 1)?;
    let host = SinkColumn { name: "host", kind: Some(ValueKind::Text) };
    let columns: Vec<_> = std::iter::once(host).chain(columns(&Change::fields())).collect();
    sink.columns(&columns, None)?;
    let mut report = Report::default();
    for host in &source.hosts {
        let label = source.label(host);
        let mut comparison = Comparison::new(query.group_by);
        for (side, range) in [(Side::Before, before), (Side::After, after)] {
            let asked = Query::new(host.info.host).what(What::Processes).filter(source.filter.clone());
            report.intervals += add_range(reader, &asked, side, range, &mut comparison)?;
        }
        report.folded += comparison.folded();
        comparison.sort();
        let fields = Change::fields();
        for row in comparison.rows() {
            let host = std::iter::once(Value::Text(label.as_str().into()));
            sink.row(&host.chain(fields.iter().map(|field| field.value(&row))).collect::<Vec<_>>())?;
            report.rows += 1;
        }
        report.hosts += u64::from(comparison.rows().len() > 0);
        progress(Progress { intervals: report.intervals, rows: report.rows, ratio: None });
    }
    Ok(report)
}

fn add_range(
    reader: &Reader,
    query: &Query,
    side: Side,
    range: TimeRange,
    comparison: &mut Comparison,
) -> Result<u64, ExportError> {
    let Some(cut) = Cut::of(reader, query.host, range)? else { return Ok(0) };
    comparison.read_from(side, cut.coarsest());
    let mut intervals = 0;
    for Span { range, resolution } in cut.spans {
        let query = query.clone().range(range.since_ns, range.until_ns);
        let mut segments = reader.segments(&query, resolution)?;
        while let Some(segment) = segments.read()? {
            comparison.add(side, &segment);
            intervals += 1;
        }
    }
    Ok(intervals)
}
