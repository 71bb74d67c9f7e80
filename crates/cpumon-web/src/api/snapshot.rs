//! What happened on one host in one interval, for a browser. In: an [`Interval`]. Out: [`Snapshot`], with tables of CPUs,
//! processes and chosen threads. Why: live and past moments look the same to the page.

use std::cmp::Reverse;
use std::fmt;

use cpumon_model::{
    Column, ColumnId, HostStatus, Interval, IntervalView, ProcessInterval, ProcessKey, Tables,
    ThreadInterval, ThreadKey, columns,
};
use serde::{Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::table::{Cell, Row, Table};

/// Nanoseconds as text, because a browser's numbers end at 2^53.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nanos(pub i64);

impl Serialize for Nanos {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PartialSchema for Nanos {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some("^-?[0-9]+$"))
            .description(Some("Nanoseconds since the UNIX epoch, as text: a browser's numbers end at 2^53."))
            .into()
    }
}

impl ToSchema for Nanos {
    fn name() -> std::borrow::Cow<'static, str> {
        "Nanos".into()
    }
}

/// `PID-STARTNS`: the text key of a process.
#[must_use]
pub fn key_of_process(key: ProcessKey) -> String {
    format!("{}-{}", key.pid, key.start_ns)
}

/// `TID-STARTNS`: the text key of a thread.
#[must_use]
pub fn key_of_thread(key: ThreadKey) -> String {
    format!("{}-{}", key.tid, key.start_ns)
}

/// One interval of one host, without what differs from reader to reader.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct SnapshotBase {
    /// Host id.
    pub host: String,
    /// Its name. Hostile text unless `trust` is `local`.
    pub hostname: String,
    /// `local`, `authenticated`, `sealed`, `unauthenticated` or `imported`.
    pub trust: String,
    /// Boot id.
    pub boot: String,
    /// Counts the host's intervals since the receiver started; 0: from the store.
    pub number: u64,
    /// Begin, on the device's wall clock, or on the receiver's time line where that clock is wrong.
    pub begin_ns: Nanos,
    /// End, likewise.
    pub end_ns: Nanos,
    /// End in ms, for drawing.
    pub end_ms: f64,
    /// The device's own wall clock at the end less `end_ns`, ns; 0 where that clock is right.
    pub wall_shift_ns: i64,
    /// Measured length on the monotonic clock, ns. Rates divide by it.
    pub duration_ns: u64,
    /// Who measured: `procfs`, `bpf`, `v1`, …
    pub source: String,
    /// Which counters were measured; what is not named here is unknown, not zero.
    pub fields: Vec<String>,
    /// Oddities of the whole interval.
    pub flags: Vec<String>,
    /// Ledger, CPU modes of all CPUs together, counts, health: the columns of table `host`.
    pub summary: Row,
    /// A row a CPU.
    pub cpus: Table,
    /// A row an interrupt line that was handled, most time first; no columns where lines are not measured.
    pub irqs: Table,
    /// A row a process, most run time first. One that is not listed did nothing.
    pub processes: Table,
}

/// One interval of one host.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Snapshot {
    /// The interval.
    #[serde(flatten)]
    pub base: SnapshotBase,
    /// Intervals before this one that this reader did not get: it was too slow, or they had left memory.
    pub skipped: u64,
    /// How long ago the host's newest interval came to the receiver; absent in answers about the past.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ns: Option<i64>,
    /// Threads of the processes that were asked for, a table a process (or one for all); column `process` has its key.
    pub threads: Vec<Table>,
}

/// Wall clock ns as ms, for drawing.
pub(crate) fn to_ms(wall_ns: i64) -> f64 {
    // Microseconds are whole numbers below 2^53 until the year 2255.
    (wall_ns / 1000) as f64 / 1000.0
}

/// Columns that say the same for all rows of an interval, or that have another form in the page's tables.
fn is_told_elsewhere(column: &Column) -> bool {
    matches!(
        column.id,
        ColumnId::Host
            | ColumnId::BootId
            | ColumnId::BeginUtc
            | ColumnId::EndUtc
            | ColumnId::BeginNs
            | ColumnId::EndNs
            | ColumnId::DeviceEndNs
            | ColumnId::DurationNs
            | ColumnId::Source
            | ColumnId::StartNs
            | ColumnId::V1Ticks
            | ColumnId::RunDelayHistogram
    )
}

/// What the table of processes says about a thread's process.
fn is_of_process(column: &Column) -> bool {
    matches!(
        column.id,
        ColumnId::ProcessName | ColumnId::Pid | ColumnId::Uid | ColumnId::Cgroup | ColumnId::Container
    )
}

/// The columns of a table that the page gets.
pub(crate) fn shown_columns(table: Tables) -> impl Iterator<Item = &'static Column> {
    columns(table).filter(move |column| {
        !is_told_elsewhere(column) && (table != Tables::THREAD_INTERVAL || !is_of_process(column))
    })
}

/// The columns of processes that the page gets.
pub(crate) fn process_columns() -> impl Iterator<Item = &'static Column> {
    shown_columns(Tables::PROCESS_INTERVAL)
}

/// Process rows, most run time first, `offset..offset + limit` of them.
pub(crate) fn process_table(view: &IntervalView<'_>, offset: usize, limit: usize) -> Table {
    let mut rows: Vec<&ProcessInterval> = view.interval().processes.iter().collect();
    rows.sort_unstable_by_key(|row| (Reverse(row.delta.run_ns), row.key));
    let total = rows.len();
    let rows: Vec<_> = rows.into_iter().skip(offset).take(limit).collect();
    let mut table = Table::new(rows.len(), total);
    table.push("key", rows.iter().map(|row| key_of_process(row.key).into()));
    table.push_columns(process_columns(), |at, id| view.process(rows[at], id));
    table
}

/// Rows of the threads that pass, most run time first, `offset..offset + limit` of them.
pub(crate) fn thread_table(
    view: &IntervalView<'_>,
    (offset, limit): (usize, usize),
    passes: impl Fn(&ThreadInterval) -> bool,
) -> Table {
    let mut rows: Vec<&ThreadInterval> = view.interval().threads.iter().filter(|row| passes(row)).collect();
    rows.sort_unstable_by_key(|row| (Reverse(row.delta.run_ns), row.key));
    let total = rows.len();
    let rows: Vec<_> = rows.into_iter().skip(offset).take(limit).collect();
    let mut table = Table::new(rows.len(), total);
    table.push("process", rows.iter().map(|row| key_of_process(row.process).into()));
    table.push("key", rows.iter().map(|row| key_of_thread(row.key).into()));
    table.push_columns(shown_columns(Tables::THREAD_INTERVAL), |at, id| view.thread(rows[at], id));
    table
}

fn cpu_table(view: &IntervalView<'_>) -> Table {
    let rows = &view.interval().cpus;
    let mut table = Table::new(rows.len(), rows.len());
    table.push_columns(shown_columns(Tables::CPU_INTERVAL), |at, id| view.cpu(&rows[at], id));
    table
}

fn irq_table(view: &IntervalView<'_>) -> Table {
    let mut rows: Vec<_> = view.interval().irqs.iter().collect();
    rows.sort_by_key(|row| (Reverse(row.time_ns), row.irq));
    let mut table = Table::new(rows.len(), rows.len());
    table.push_columns(shown_columns(Tables::IRQ_INTERVAL), |at, id| view.irq(rows[at], id));
    table
}

/// The columns of table `host` of one interval.
pub(crate) fn summary(view: &IntervalView<'_>) -> Row {
    let cells = shown_columns(Tables::HOST_INTERVAL)
        .filter(|column| column.id != ColumnId::Flags)
        .map(|column| (column.name.into(), Cell::from(view.host(column.id))));
    Row(cells.filter(|(_, cell)| *cell != Cell::Null).collect())
}

/// Names of flags.
fn names<F: bitflags::Flags>(flags: &F) -> Vec<String> {
    flags.iter_names().map(|(name, _)| name.to_owned()).collect()
}

impl SnapshotBase {
    /// What happened, with the process rows `offset..offset + limit` by run time.
    #[must_use]
    pub fn new(host: &HostStatus, number: u64, interval: &Interval, (offset, limit): (usize, usize)) -> Self {
        let view = IntervalView::new(&host.info.hostname, interval);
        Self {
            host: interval.host.to_string(),
            hostname: host.info.hostname.to_string(),
            trust: host.trust.name().to_owned(),
            boot: interval.boot.to_string(),
            number,
            begin_ns: Nanos(interval.begin.wall_ns),
            end_ns: Nanos(interval.end.wall_ns),
            end_ms: to_ms(interval.end.wall_ns),
            wall_shift_ns: interval.wall_shift_ns,
            duration_ns: interval.duration_ns(),
            source: interval.source.name().to_owned(),
            fields: names(&interval.fields),
            flags: names(&interval.flags).into_iter().map(|name| name.to_ascii_lowercase()).collect(),
            summary: summary(&view),
            cpus: cpu_table(&view),
            irqs: irq_table(&view),
            processes: process_table(&view, offset, limit),
        }
    }
}
