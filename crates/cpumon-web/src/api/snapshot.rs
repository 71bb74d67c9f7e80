//! [`Snapshot`]: one [`Interval`] of a host for a browser, with tables of CPUs, processes and chosen threads.
//! Live and past moments have the same form.

use std::cmp::Reverse;
use std::collections::HashMap;

use cpumon_model::{
    CgroupInterval, ColumnId, CpuLimit, HostStatus, Interval, IntervalView, ProcessInterval, ProcessKey,
    Tables, ThreadInterval, Value,
};
use cpumon_query::TaskKey;
use cpumon_query::history::shown_columns;
use cpumon_query::json::{Named, Nanos};
use cpumon_query::time::{Page, to_ms};
use serde::Serialize;
use utoipa::ToSchema;

use super::table::{Row, Table, cell};

/// One interval of one host, without the parts that differ between readers.
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
    /// Start, on the device's wall clock, or on the receiver's time line where that clock is wrong.
    pub begin_ns: Nanos,
    /// End, likewise.
    pub end_ns: Nanos,
    /// End in ms, for drawing.
    pub end_ms: f64,
    /// The device's own wall clock at the end less `end_ns`, ns; 0 where that clock is right.
    pub wall_shift_ns: i64,
    /// Measured length on the monotonic clock, ns. Rates divide by it.
    pub duration_ns: u64,
    /// Source of the measurement: `procfs`, `bpf`, `v1`, …
    pub source: String,
    /// The measured counters; any other one is unknown, not zero.
    pub fields: Vec<String>,
    /// Oddities of the whole interval.
    pub flags: Vec<String>,
    /// Ledger, CPU modes of all CPUs together, counts, health: the columns of table `host`.
    pub summary: Row,
    /// A row a CPU.
    pub cpus: Table,
    /// A row an interrupt line that was handled, most time first; no columns where lines are not measured.
    pub irqs: Table,
    /// A row a control group that has a CPU limit on its path, or whose limit is unknown. Where `CGROUPS` is measured and
    /// `cgroups_left_out` is 0, others have none.
    pub cgroups: Table,
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

fn key_cell(key: TaskKey) -> Value<'static> {
    Value::Text(key.to_string().into())
}

/// No data where the scheduling is the default.
fn scheduling_cell(words: Option<String>) -> Value<'static> {
    words.map_or(Value::Null, |words| Value::Text(words.into()))
}

/// How processes are scheduled, where that is not the default: by the main thread, or by another one where that was idle and has no row.
fn scheduling(interval: &Interval) -> HashMap<ProcessKey, String> {
    let mut found = HashMap::new();
    for thread in &interval.threads {
        let Some(words) = interval.scheduling(thread) else { continue };
        if interval.main_thread(thread.process).is_none_or(|main| main.key == thread.key) {
            found.entry(thread.process).or_insert(words);
        }
    }
    found
}

/// A page of process rows, most run time first.
pub(crate) fn process_table(view: &IntervalView<'_>, page: Page) -> Table {
    let mut rows: Vec<&ProcessInterval> = view.interval().processes.iter().collect();
    rows.sort_unstable_by_key(|row| (Reverse(row.delta.run_ns), row.key));
    let total = rows.len();
    let rows: Vec<_> = page.of(rows).collect();
    let mut table = Table::new(rows.len(), total);
    table.push("key", rows.iter().map(|row| key_cell(TaskKey::Process(row.key))));
    table.push_columns(shown_columns(Tables::PROCESS_INTERVAL), |at, id| view.process(rows[at], id));
    let mut words = scheduling(view.interval());
    table.push("scheduling", rows.iter().map(|row| scheduling_cell(words.remove(&row.key))));
    table
}

/// A page of the rows of threads that pass, most run time first.
pub(crate) fn thread_table(
    view: &IntervalView<'_>,
    page: Page,
    passes: impl Fn(&ThreadInterval) -> bool,
) -> Table {
    let mut rows: Vec<&ThreadInterval> = view.interval().threads.iter().filter(|row| passes(row)).collect();
    rows.sort_unstable_by_key(|row| (Reverse(row.delta.run_ns), row.key));
    let total = rows.len();
    let rows: Vec<_> = page.of(rows).collect();
    let mut table = Table::new(rows.len(), total);
    table.push("process", rows.iter().map(|row| key_cell(TaskKey::Process(row.process))));
    table.push("key", rows.iter().map(|row| key_cell(TaskKey::Thread(row.key))));
    table.push_columns(shown_columns(Tables::THREAD_INTERVAL), |at, id| view.thread(rows[at], id));
    table.push("scheduling", rows.iter().map(|row| scheduling_cell(view.interval().scheduling(row))));
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

/// Groups that only waited for a CPU are left out: a host has hundreds, and their processes' run delay says it.
fn cgroup_table(view: &IntervalView<'_>) -> Table {
    let rows = view.interval().cgroups.iter().filter(|row| row.limit != CpuLimit::Unlimited);
    let rows: Vec<&CgroupInterval> = rows.collect();
    let mut table = Table::new(rows.len(), rows.len());
    table.push_columns(shown_columns(Tables::CGROUP_INTERVAL), |at, id| view.cgroup(rows[at], id));
    table
}

/// The columns of table `host` of one interval.
pub(crate) fn summary(view: &IntervalView<'_>) -> Row {
    let cells = shown_columns(Tables::HOST_INTERVAL)
        .filter(|column| column.id != ColumnId::Flags)
        .map(|column| (column.name.into(), cell(view.host(column.id))));
    Named(cells.filter(|(_, cell)| *cell != Value::Null).collect())
}

fn names<F: bitflags::Flags>(flags: &F) -> Vec<String> {
    flags.iter_names().map(|(name, _)| name.to_owned()).collect()
}

impl SnapshotBase {
    /// The interval, with a page of process rows by run time.
    pub fn new(host: &HostStatus, number: u64, interval: &Interval, page: Page) -> Self {
        let view = IntervalView::new(&host.info.hostname, interval);
        Self {
            host: interval.host.to_string(),
            hostname: host.info.hostname.to_string(),
            trust: interval.trust.unwrap_or(host.trust).name().to_owned(),
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
            cgroups: cgroup_table(&view),
            processes: process_table(&view, page),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cpumon_model::{ProcessInfo, ThreadKey};

    use super::*;

    fn process(pid: u32, is_kernel: bool) -> ProcessInterval {
        let info = Arc::new(ProcessInfo { is_kernel, ..ProcessInfo::default() });
        ProcessInterval::new(ProcessKey { pid, start_ns: 1 }, 1, info)
    }

    fn thread(pid: u32, tid: u32, nice: i8, priority: i16) -> ThreadInterval {
        let (key, process) = (ThreadKey { tid, start_ns: 1 }, ProcessKey { pid, start_ns: 1 });
        ThreadInterval { key, process, nice, priority, ..ThreadInterval::default() }
    }

    fn scheduling_of(interval: &Interval) -> [serde_json::Value; 2] {
        let view = IntervalView::new("h", interval);
        [process_table(&view, Page::ALL), thread_table(&view, Page::ALL, |_| true)]
            .map(|table| serde_json::to_value(&table).unwrap()["columns"]["scheduling"].clone())
    }

    #[test]
    fn rows_say_how_they_are_scheduled_where_that_is_not_the_default() {
        let mut interval = Interval {
            processes: vec![process(1, false), process(2, false), process(3, false), process(4, true)],
            threads: vec![thread(1, 1, 0, 20), thread(2, 2, 0, 20), thread(4, 4, 0, 20)],
            ..Interval::default()
        };
        assert_eq!(scheduling_of(&interval), [serde_json::Value::Null, serde_json::Value::Null], "no column");
        // The main thread of 2 has the default, that of 3 was idle, 4 is the kernel's.
        interval.threads = vec![
            thread(1, 1, 19, 39),
            thread(2, 2, 0, 20),
            thread(4, 4, -20, 0),
            thread(2, 5, 0, -51),
            thread(3, 6, 5, 25),
        ];
        let expected = [
            serde_json::json!(["nice 19", null, "nice 5", null]),
            serde_json::json!(["nice 19", null, null, "real-time 50", "nice 5"]),
        ];
        assert_eq!(scheduling_of(&interval), expected);
    }
}
