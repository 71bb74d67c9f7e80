//! The page's questions about the past beside the answers of `cpumon_query::history`.

use cpumon_model::{HostStatus, IntervalView, ProcessInfo, ProcessKey, Tables, Value};
use cpumon_query::TaskKey;
use cpumon_query::history::{Lines, RangeSum, WaitLine, by_name, shown_columns, summable};
use cpumon_query::json::{Nanos, resolution_name};
use cpumon_query::report::{Change, CompareRanges, Comparison, Side};
use cpumon_query::time::{Page, TimeRange};
use serde::Serialize;
use utoipa::ToSchema;

use super::snapshot::{process_table, summary, thread_table};
use super::table::{Row, Table};

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ProcessThen)]
pub struct ProcessJson {
    /// Its key.
    pub key: String,
    /// Process id.
    pub pid: u32,
    /// Parent's pid; 0 for none.
    pub parent_pid: u32,
    /// Base name of the script that it runs, else of its executable, else the main thread's name.
    pub name: String,
    /// Base name of the executable that runs the script; empty where the name is the executable's.
    pub interpreter: String,
    /// The main thread's name.
    pub comm: String,
    /// Command line, only if the agent is set to send it.
    pub cmdline: String,
    /// cgroup path.
    pub cgroup: String,
    /// Container or unit name.
    pub container: String,
    /// Real user id.
    pub uid: u32,
    /// Name of that user on its host; empty if not known.
    pub user: String,
    /// Session on Windows: 0 is that of services; null on other systems.
    pub session: Option<u32>,
    /// Priority class on Windows; a base priority that belongs to no class, as a number; null on other systems.
    pub priority_class: Option<String>,
    /// Product name in the version resource of its executable on Windows; null: none, or another system.
    pub product: Option<String>,
    /// A kernel thread.
    pub is_kernel: bool,
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

/// A process over time.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ProcessLine {
    /// Its description.
    pub process: ProcessJson,
    /// Its times, in one line.
    #[serde(flatten)]
    pub lines: Lines,
    /// Its waits, the longest first; empty where waits were not measured (sums of a minute do not keep them).
    pub waits: Vec<WaitLine>,
}

/// A span of time as if it were one interval.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = Sum)]
pub struct SumJson {
    /// The range that was asked for.
    pub since_ns: Nanos,
    /// Its end.
    pub until_ns: Nanos,
    /// Resolution of the data: `interval`, or sums of a `minute` or an `hour`, with single intervals at both ends where
    /// these are stored.
    pub resolution: &'static str,
    /// Measured time; rates divide by it.
    pub covered_ns: u64,
    /// Ledger and CPU modes, summed.
    pub summary: Row,
    /// A row a process or a name, most run time first.
    pub processes: Table,
    /// Threads of the processes that were asked for, a table each.
    pub threads: Vec<Table>,
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
        shown_columns(Tables::PROCESS_INTERVAL).filter(|column| summable(column) || column.unit == "%CPU"),
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

/// Two spans side by side.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = Compare)]
pub struct CompareJson {
    /// Start and end of the first span, as asked for.
    pub before: [Nanos; 2],
    /// Start and end of the second span, as asked for.
    pub after: [Nanos; 2],
    /// Measured time of the first span, ns; 0: it holds no data.
    pub before_covered_ns: u64,
    /// Measured time of the second span, ns; 0: it holds no data.
    pub after_covered_ns: u64,
    /// A row a group, the largest change first, with the columns of `cpumon export compare` (docs/export.md).
    pub rows: Table,
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
