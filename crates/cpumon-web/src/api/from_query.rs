//! Answers of `cpumon-query` as JSON types.

use cpumon_model::{HostStatus, IntervalView, ProcessInfo, ProcessKey, Value};
use cpumon_query::TaskKey;
use cpumon_query::history::{RangeSum, by_name, process_columns, summable};
use cpumon_query::json::{Nanos, resolution_name};
use cpumon_query::report::{Change, CompareRanges, Comparison, Side};
use cpumon_query::status::Status;
use cpumon_query::time::{Page, TimeRange};

use super::fleet::ReceiverHealth;
use super::history::{CompareJson, ProcessJson, SumJson};
use super::snapshot::{process_table, summary, thread_table};
use super::table::Table;

impl From<Status> for ReceiverHealth {
    fn from(from: Status) -> Self {
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
    table.push("name", rows.iter().map(|row| Value::Text((&*row.sum.info.name).into())));
    table.push("processes", rows.iter().map(|row| Value::count(row.count)));
    table.push_columns(
        process_columns().filter(|column| summable(column) || column.unit == "%CPU"),
        |at, id| view.process(&rows[at].sum, id),
    );
    table
}

impl SumJson {
    pub(crate) fn new(host: &HostStatus, range: TimeRange, sum: &RangeSum, options: &SumOptions) -> Self {
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
        let rows: Vec<Change<'_>> = page.of(comparison.rows()).collect();
        let table = Table::of(Change::fields(), &rows, comparison.rows().len());
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
