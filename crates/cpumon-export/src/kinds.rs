//! Exports with fixed columns: processes, threads, control groups, ledger. Their columns are those of `cpumon_model::COLUMNS`, in that order.

use cpumon_model::{Column, Fields, Interval, IntervalView, Tables, ThreadInterval, Value, columns};
use cpumon_store::{Reader, What};

use crate::rows::{RowSink, SinkColumn};
use crate::source::{Counter, Source};
use crate::{ExportError, ExportQuery, Kind, Progress, Report};

/// The columns of a kind, and how much of an interval it reads.
fn table_of(kind: Kind) -> (Tables, What) {
    match kind {
        Kind::Processes => (Tables::PROCESS_INTERVAL, What::Processes),
        Kind::Threads => (Tables::THREAD_INTERVAL, What::Threads),
        Kind::Cgroups => (Tables::CGROUP_INTERVAL, What::Meta),
        Kind::Ledger | Kind::Pivot | Kind::Compare => (Tables::HOST_INTERVAL, What::Meta),
    }
}

/// Writes the rows of all hosts to `sink`.
pub(crate) fn run(
    reader: &Reader,
    query: &ExportQuery,
    sink: &mut dyn RowSink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, ExportError> {
    let (table, what) = table_of(query.kind);
    let columns: Vec<&'static Column> = columns(table).collect();
    let mut source = Source::open(reader, query, 1)?;
    source.only_active = query.only_active;
    let mut counter = Counter::new(progress);
    sink.columns(&columns.iter().copied().map(SinkColumn::from).collect::<Vec<_>>(), None)?;
    for host in &source.hosts {
        let label = source.label(host);
        let before = counter.report.intervals;
        source.walk(host, what, &mut counter, &mut |interval, report| {
            // Of one without limits of groups, no row is no data.
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
    let view = IntervalView::new(host, interval);
    let mut cells: Vec<Value<'_>> = Vec::with_capacity(columns.len());
    match query.kind {
        Kind::Processes => {
            for process in &interval.processes {
                cells.clear();
                cells.extend(columns.iter().map(|column| view.process(process, column.id)));
                sink.row(&cells)?;
            }
            Ok(interval.processes.len() as u64)
        }
        Kind::Threads => {
            let mut rows = 0;
            for thread in interval.threads.iter().filter(|thread| !query.only_active || is_active(thread)) {
                cells.clear();
                cells.extend(columns.iter().map(|column| view.thread(thread, column.id)));
                sink.row(&cells)?;
                rows += 1;
            }
            Ok(rows)
        }
        Kind::Cgroups => {
            for group in &interval.cgroups {
                cells.clear();
                cells.extend(columns.iter().map(|column| view.cgroup(group, column.id)));
                sink.row(&cells)?;
            }
            Ok(interval.cgroups.len() as u64)
        }
        Kind::Ledger | Kind::Pivot | Kind::Compare => {
            cells.extend(columns.iter().map(|column| view.host(column.id)));
            sink.row(&cells)?;
            Ok(1)
        }
    }
}
