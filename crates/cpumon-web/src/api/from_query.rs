//! Answers of `cpumon-query` as JSON types.

use cpumon_model::{HostInfo, HostStatus, IntervalView, ProcessInfo, ProcessKey};
use cpumon_query::compare::{COMPARE_COLUMNS, Change, Comparison, Side};
use cpumon_query::history::{self, CompareRanges, by_name, process_columns, resolution_name, summable};
use cpumon_query::time::{Page, TimeRange, to_ms};
use cpumon_query::{Gap, TaskKey, status};

use super::fleet::ReceiverHealth;
use super::history::{
    BucketTimes, CompareJson, GapJson, HostSeries, Kept, LineJson, Lines, Matrix, MatrixRow, ProcessJson,
    SumJson,
};
use super::snapshot::{Nanos, process_table, summary, thread_table};
use super::status::Status;
use super::table::{Cell, Row, Table};

impl From<status::Status> for Status {
    fn from(from: status::Status) -> Self {
        Self {
            version: from.version,
            pid: from.pid,
            started_wall_ns: from.started_wall_ns,
            now_wall_ns: from.now_wall_ns,
            udp: from.udp,
            http: from.http,
            receiver: from.receiver,
            connections: from.connections,
            store: from.store,
            traces: from.traces,
            hosts: Vec::new(),
        }
    }
}

impl From<status::Status> for ReceiverHealth {
    fn from(from: status::Status) -> Self {
        Self {
            store: from.store.state,
            datagrams: from.receiver.datagrams,
            udp: from.udp,
            // A snapshot of a device that was acknowledged and cannot be used is lost as a datagram is.
            rejected: from.receiver.rejected + from.connections.as_ref().map_or(0, |tls| tls.protocol_errors),
            tls: from.connections.map(|connections| connections.address),
            store_error: from.store.error,
            store_clock: from.store.clock,
            store_dropped: from.store.dropped + from.store.refused,
            kernel_dropped: from.receiver.kernel_dropped,
        }
    }
}

impl From<&Gap> for GapJson {
    fn from(gap: &Gap) -> Self {
        Self {
            begin_ns: Nanos(gap.begin_wall_ns),
            end_ns: Nanos(gap.end_wall_ns),
            begin_ms: to_ms(gap.begin_wall_ns),
            end_ms: to_ms(gap.end_wall_ns),
            intervals: gap.intervals,
            reason: gap.reason.clone(),
        }
    }
}

fn gaps(all: &[Gap]) -> Vec<GapJson> {
    all.iter().map(GapJson::from).collect()
}

impl From<history::BucketTimes> for BucketTimes {
    fn from(times: history::BucketTimes) -> Self {
        Self {
            resolution: resolution_name(times.resolution),
            width_ns: times.width_ns,
            t_ms: times.begin_ns.into_iter().map(to_ms).collect(),
            covered_ns: times.covered_ns,
        }
    }
}

impl HostSeries {
    pub(crate) fn new(range: TimeRange, host: &HostInfo, series: history::HostSeries) -> Self {
        let kept = |known: cpumon_query::time::Available| Kept {
            first_ns: Nanos(known.first_ns),
            last_ns: Nanos(known.last_ns),
            interval_ns: host.interval_ns,
        };
        let columns = series.columns.into_iter().map(|(name, column)| (name.into(), column));
        Self {
            since_ns: Nanos(range.since_ns),
            until_ns: Nanos(range.until_ns),
            kept: series.available.map(kept),
            is_windows: host.is_windows(),
            times: series.times.into(),
            columns: Row(columns.collect()),
            gaps: gaps(&series.gaps),
        }
    }
}

impl From<history::TaskLine> for LineJson {
    fn from(line: history::TaskLine) -> Self {
        Self {
            kind: line.kind.name(),
            key: line.key.map(|key| key.to_string()),
            name: line.name,
            first_ms: line.first_ns.map(to_ms),
            last_ms: line.last_ns.map(to_ms),
            began_ms: line.began_ns.map(to_ms),
            ended_ms: line.ended_ns.map(to_ms),
            columns: Row(line.columns.into_iter().map(|(name, values)| (name.into(), values)).collect()),
            max_run_ns_per_s: line.max_run_ns_per_s,
        }
    }
}

impl Lines {
    pub(crate) fn new(range: TimeRange, lines: history::Lines) -> Self {
        Self {
            since_ns: Nanos(range.since_ns),
            until_ns: Nanos(range.until_ns),
            times: lines.times.into(),
            lines: lines.lines.into_iter().map(LineJson::from).collect(),
            gaps: gaps(&lines.gaps),
        }
    }
}

impl ProcessJson {
    pub(crate) fn new(key: ProcessKey, info: &ProcessInfo, parent_pid: u32) -> Self {
        Self {
            key: TaskKey::Process(key).to_string(),
            pid: key.pid,
            parent_pid,
            name: info.name.to_string(),
            comm: info.comm.to_string(),
            cmdline: info.cmdline.to_string(),
            cgroup: info.cgroup.to_string(),
            container: info.container.to_string(),
            uid: info.uid,
            user: info.user_name().unwrap_or_default().to_owned(),
            interpreter: info.interpreter.to_string(),
            session: info.session,
            priority_class: info.priority_class().map(Into::into),
            product: (!info.product.is_empty()).then(|| info.product.to_string()),
            is_kernel: info.is_kernel,
        }
    }
}

impl From<history::MatrixRow> for MatrixRow {
    fn from(row: history::MatrixRow) -> Self {
        Self {
            key: row.key.map(|key| key.to_string()),
            name: row.name,
            total_ns: row.total_ns,
            first_ms: to_ms(row.first_ns),
            last_ms: to_ms(row.last_ns),
            life: row.life,
            values: row.values,
            max: row.max,
        }
    }
}

impl Matrix {
    pub(crate) fn new(range: TimeRange, matrix: history::Matrix) -> Self {
        Self {
            since_ns: Nanos(range.since_ns),
            until_ns: Nanos(range.until_ns),
            times: matrix.times.into(),
            total: matrix.total,
            rows: matrix.rows.into_iter().map(MatrixRow::from).collect(),
            other: matrix.other,
            gaps: gaps(&matrix.gaps),
        }
    }
}

/// Which rows of a sum are given.
pub(crate) struct SumOptions {
    /// Processes of a name together.
    pub(crate) is_by_name: bool,
    pub(crate) rows: Page,
    /// Processes whose threads are given too.
    pub(crate) threads_of: Vec<ProcessKey>,
    pub(crate) thread_rows: Page,
}

fn name_table(view: &IntervalView<'_>, page: Page) -> Table {
    let all = by_name(view.interval());
    let total = all.len();
    let rows: Vec<_> = page.of(all).collect();
    let mut table = Table::new(rows.len(), total);
    table.push("name", rows.iter().map(|row| Cell::from(&*row.sum.info.name)));
    table.push("processes", rows.iter().map(|row| Cell::count(row.count)));
    table.push_columns(
        process_columns().filter(|column| summable(column) || column.unit == "%CPU"),
        |at, id| view.process(&rows[at].sum, id),
    );
    table
}

impl SumJson {
    pub(crate) fn new(
        host: &HostStatus,
        range: TimeRange,
        sum: &history::RangeSum,
        options: &SumOptions,
    ) -> Self {
        let view = IntervalView::new(&host.info.hostname, &sum.interval);
        let rows = options.rows;
        let threads = |key: &ProcessKey| thread_table(&view, options.thread_rows, |row| row.process == *key);
        Self {
            since_ns: Nanos(range.since_ns),
            until_ns: Nanos(range.until_ns),
            resolution: resolution_name(sum.resolution),
            covered_ns: sum.interval.duration_ns(),
            summary: summary(&view),
            processes: if options.is_by_name { name_table(&view, rows) } else { process_table(&view, rows) },
            threads: options.threads_of.iter().map(threads).collect(),
        }
    }
}

impl CompareJson {
    pub(crate) fn new(ranges: CompareRanges, comparison: &Comparison, page: Page) -> Self {
        let rows: Vec<_> = page.of(comparison.rows()).map(Change::cells).collect();
        let mut table = Table::new(rows.len(), comparison.rows().len());
        for (at, name) in COMPARE_COLUMNS.into_iter().enumerate() {
            table.push(name, rows.iter().map(|row| Cell::from(row[at].clone())));
        }
        let ends = |range: TimeRange| [Nanos(range.since_ns), Nanos(range.until_ns)];
        Self {
            before: ends(ranges.before),
            after: ends(ranges.after),
            before_covered_ns: comparison.measured_ns(Side::Before),
            after_covered_ns: comparison.measured_ns(Side::After),
            rows: table,
        }
    }
}
