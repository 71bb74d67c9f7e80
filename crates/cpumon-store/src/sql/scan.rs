//! Reads a virtual table in batches of cells, small ones first: the memory is bounded, and `LIMIT 3` reads little. SQLite asks for the
//! cells of a row later, one by one: they own what they show.
//!
//! What a query lets us skip: a [`ScanPlan`] of SQLite's constraints that survives as text, and the [`Bounds`] it makes of the
//! values. "One host, last hour" must not read the whole store. SQLite checks each constraint again, so a bound
//! may be too wide, never too narrow. Only `host = …` is not checked again: it means a host as everywhere else, by name or id.

use std::rc::Rc;

use cpumon_model::{
    BootId, Column, ColumnId, HostRef, Interval, IntervalView, SourceKind, Tables, ThreadInterval, Value,
};
use rusqlite::types::{Value as SqlValue, ValueRef};
use rusqlite::vtab::{Filters, IndexConstraintOp, IndexInfo};

use crate::error::Result;
use crate::reader::hosts::meant_by;
use crate::reader::{HostRecord, ProcessFilter, Query, Reader, StoredInterval, Task, What};

/// A clock set back by more than this within one interval makes a bound on `begin_ns` miss that interval. A day.
const MAX_CLOCK_STEP_NS: i64 = 86_400_000_000_000;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Use {
    Host,
    Pid,
    Name,
    EndAtLeast,
    EndAtMost,
    BeginAtLeast,
}

impl Use {
    const LETTERS: [(Self, char); 6] = [
        (Self::Host, 'h'),
        (Self::Pid, 'p'),
        (Self::Name, 'n'),
        (Self::EndAtLeast, 'g'),
        (Self::EndAtMost, 'l'),
        (Self::BeginAtLeast, 'b'),
    ];

    /// All uses of one constraint; equality of times is two bounds.
    fn of(id: ColumnId, operator: &IndexConstraintOp) -> &'static [Self] {
        use IndexConstraintOp as Op;
        let is_equal = matches!(operator, Op::SQLITE_INDEX_CONSTRAINT_EQ);
        let is_least = matches!(operator, Op::SQLITE_INDEX_CONSTRAINT_GE | Op::SQLITE_INDEX_CONSTRAINT_GT);
        let is_most = matches!(operator, Op::SQLITE_INDEX_CONSTRAINT_LE | Op::SQLITE_INDEX_CONSTRAINT_LT);
        match id {
            ColumnId::Host if is_equal => &[Self::Host],
            ColumnId::Pid if is_equal => &[Self::Pid],
            ColumnId::Name | ColumnId::ProcessName if is_equal => &[Self::Name],
            ColumnId::EndNs if is_equal => &[Self::EndAtLeast, Self::EndAtMost],
            ColumnId::EndNs if is_least => &[Self::EndAtLeast],
            ColumnId::EndNs if is_most => &[Self::EndAtMost],
            // An interval may be of any length, so only a lower bound on its start says something of its end.
            ColumnId::BeginNs if is_equal || is_least => &[Self::BeginAtLeast],
            _ => &[],
        }
    }

    /// Rough share of the rows that is left to read.
    fn selectivity(self) -> f64 {
        match self {
            Self::Host | Self::Name => 0.1,
            Self::Pid => 0.05,
            Self::EndAtLeast | Self::EndAtMost | Self::BeginAtLeast => 0.2,
        }
    }
}

/// What SQLite shall hand over when the scan begins, and which columns it wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScanPlan {
    /// Uses of each value that SQLite hands over.
    values: Vec<Vec<Use>>,
    /// Bit of each wanted column; the last bit is for all columns from there on.
    pub used: u64,
}

impl ScanPlan {
    /// Chooses the constraints that SQLite shall hand over. `names_processes`: the table's `name` is a process name.
    pub fn choose(info: &mut IndexInfo, columns: &[&'static Column], rows: f64) -> Self {
        let mut values = Vec::new();
        let mut chosen = Vec::new();
        for (at, constraint) in info.constraints().enumerate() {
            let Some(column) = usize::try_from(constraint.column()).ok().and_then(|at| columns.get(at))
            else {
                continue;
            };
            // In tables of threads this is the thread's name, but the reader filters by names of processes.
            let is_thread_name =
                column.id == ColumnId::Name && columns.iter().any(|other| other.id == ColumnId::ProcessName);
            let uses = Use::of(column.id, &constraint.operator());
            // Under another collation 'A' = 'a' may hold, which a bound would miss.
            let is_binary =
                info.collation(at).is_ok_and(|collation| collation.eq_ignore_ascii_case("BINARY"));
            // Not usable: the value comes from a table that this order of the join reads later.
            if constraint.is_usable() && is_binary && !is_thread_name && !uses.is_empty() {
                chosen.push(at);
                values.push(uses.to_vec());
            }
        }
        // SQLite counts from 1: 0 says that the value is not handed over.
        for ((argument, at), uses) in (1..).zip(chosen).zip(&values) {
            let mut usage = info.constraint_usage(at);
            usage.set_argv_index(argument);
            // The column has the name, so SQLite would refuse the rows of a host that is meant by its id.
            usage.set_omit(uses.contains(&Use::Host));
        }
        let share: f64 = values.iter().flatten().map(|one| one.selectivity()).product();
        info.set_estimated_cost((rows * share).max(1.0));
        #[expect(clippy::cast_possible_truncation, reason = "an estimate")]
        info.set_estimated_rows((rows * share).max(1.0) as i64);
        Self { values, used: info.col_used() }
    }

    /// Writes the plan as `hex;uses of value 1,uses of value 2`.
    pub fn to_text(&self) -> String {
        let letter = |one: &Use| Use::LETTERS.iter().find(|row| row.0 == *one).map_or('?', |row| row.1);
        let values: Vec<String> = self.values.iter().map(|uses| uses.iter().map(letter).collect()).collect();
        format!("{:x};{}", self.used, values.join(","))
    }

    /// The plan of a text; without a readable set of columns it asks for all.
    pub fn from_text(text: &str) -> Self {
        let (used, values) = text.split_once(';').unwrap_or(("", ""));
        let use_of = |letter| Use::LETTERS.iter().find(|row| row.1 == letter).map(|row| row.0);
        let uses = |part: &str| part.chars().filter_map(use_of).collect();
        let values =
            if values.is_empty() { Vec::new() } else { values.split(',').map(uses).collect::<Vec<_>>() };
        Self { values, used: u64::from_str_radix(used, 16).unwrap_or(u64::MAX) }
    }

    pub fn wants(&self, at: usize) -> bool {
        self.used >> at.min(63) & 1 == 1
    }

    pub fn bounds(&self, arguments: &Filters<'_>) -> Bounds {
        let mut bounds = Bounds::default();
        for (uses, value) in self.values.iter().zip(arguments.iter()) {
            for one in uses {
                bounds.narrow(*one, value);
            }
        }
        bounds
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Names or ids; each must mean the host.
    pub hosts: Vec<String>,
    pub pid: Option<u32>,
    pub name: Option<String>,
    pub end_at_least: Option<i64>,
    pub end_at_most: Option<i64>,
    /// Nothing can pass: a comparison with NULL, or a text where only numbers are.
    pub is_empty: bool,
}

/// Whole numbers around a number of any kind: `(floor, ceil)`.
fn around(value: ValueRef<'_>) -> Option<(i64, i64)> {
    match value {
        ValueRef::Integer(number) => Some((number, number)),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a float beyond i64 becomes its end, which bounds as well"
        )]
        ValueRef::Real(number) if !number.is_nan() => Some((number.floor() as i64, number.ceil() as i64)),
        _ => None,
    }
}

impl Bounds {
    fn narrow(&mut self, one: Use, value: ValueRef<'_>) {
        if matches!(value, ValueRef::Null) {
            self.is_empty = true;
            return;
        }
        match (one, SqlValue::try_from(value), around(value)) {
            (Use::Host, Ok(SqlValue::Text(text)), _) => self.hosts.push(text),
            // A column of texts makes a number a text before it compares.
            (Use::Host, Ok(SqlValue::Integer(number)), _) => self.hosts.push(number.to_string()),
            (Use::Host, Ok(SqlValue::Real(number)), _) => self.hosts.push(format!("{number:?}")),
            (Use::Host, ..) => self.is_empty = true,
            (Use::Name, Ok(SqlValue::Text(text)), _) => self.name = Some(text),
            (Use::Pid, _, Some((low, high))) => match u32::try_from(low) {
                Ok(pid) if low == high => self.pid = Some(pid),
                // No process has such a pid: a fraction, a negative number or one above 32 bits.
                _ => self.is_empty = true,
            },
            (Use::EndAtLeast, _, Some((low, _))) => self.raise(low),
            (Use::BeginAtLeast, _, Some((low, _))) => self.raise(low.saturating_sub(MAX_CLOCK_STEP_NS)),
            (Use::EndAtMost, _, Some((_, high))) => {
                self.end_at_most = Some(self.end_at_most.map_or(high, |known| known.min(high)));
            }
            // A text may still become a number by the column's affinity: no bound.
            _ => {}
        }
    }

    fn raise(&mut self, low: i64) {
        self.end_at_least = Some(self.end_at_least.map_or(low, |known| known.max(low)));
    }
}

/// Intervals in the first batch and in the largest.
const FIRST_BATCH: usize = 4;
const LARGEST_BATCH: usize = 256;
/// A batch ends early when it holds this many cells.
const MAX_BATCH_CELLS: usize = 1 << 18;

type OwnedCell = Value<'static>;

/// The wanted columns of several rows, one after the other.
#[derive(Debug, Default)]
pub(super) struct CellRows {
    pub cells: Vec<OwnedCell>,
    pub count: usize,
}

pub(super) struct Scan {
    reader: Rc<Reader>,
    table: Tables,
    columns: Vec<&'static Column>,
    bounds: Bounds,
    /// Hosts still to be walked, the next one last.
    hosts: Vec<HostRecord>,
    /// Intervals of the present host that end up to here are done.
    after_ns: i64,
    /// Rows of `process` or `thread` up to here are done.
    after_id: i64,
    batch: usize,
}

impl Scan {
    pub fn new(reader: Rc<Reader>, table: Tables, plan: &ScanPlan, bounds: Bounds) -> Result<Self> {
        let mut hosts = if bounds.is_empty { Vec::new() } else { reader.hosts()? };
        let meant: Vec<HostRef<'_>> = bounds.hosts.iter().map(|wanted| meant_by(wanted, &hosts)).collect();
        hosts.retain(|host| meant.iter().all(|meant| meant.is(&host.info, host.trust)));
        hosts.reverse();
        let columns = cpumon_model::columns(table).enumerate().filter(|(at, _)| plan.wants(*at));
        let columns = columns.map(|(_, column)| column).collect();
        // Queries begin after a time, while the bound includes it.
        let after_ns = bounds.end_at_least.map_or(i64::MIN, |least| least.saturating_sub(1));
        Ok(Self { reader, table, columns, bounds, hosts, after_ns, after_id: 0, batch: FIRST_BATCH })
    }

    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// The next rows; none at the end.
    pub fn next_batch(&mut self) -> Result<CellRows> {
        let mut rows = CellRows::default();
        // An empty batch would end SQLite's scan, so hosts without rows are passed over.
        while rows.count == 0 {
            let Some(host) = self.hosts.last().cloned() else { break };
            let is_more = match self.table {
                Tables::HOSTS => {
                    rows.cells.extend(self.columns.iter().map(|column| host_cell(&host, column.id)));
                    rows.count += 1;
                    false
                }
                Tables::PROCESSES | Tables::THREADS => self.task_rows(&host, &mut rows)?,
                _ => self.interval_rows(&host, &mut rows)?,
            };
            if !is_more {
                self.hosts.pop();
                self.after_ns = self.bounds.end_at_least.map_or(i64::MIN, |least| least.saturating_sub(1));
                self.after_id = 0;
            }
        }
        // Small at first for LIMIT, larger for a scan of everything.
        self.batch = (self.batch * 2).min(LARGEST_BATCH);
        Ok(rows)
    }

    fn filter(&self) -> ProcessFilter {
        match (self.bounds.pid, &self.bounds.name) {
            // One filter is enough: SQLite checks the other condition again.
            (Some(pid), _) => ProcessFilter::Pid(pid),
            (None, Some(name)) => ProcessFilter::Name(name.as_str().into()),
            (None, None) => ProcessFilter::All,
        }
    }

    /// Adds rows of the host's next intervals; returns whether there may be more.
    fn interval_rows(&mut self, host: &HostRecord, rows: &mut CellRows) -> Result<bool> {
        let what = match self.table {
            Tables::THREAD_INTERVAL | Tables::WAIT_INTERVAL => What::Threads,
            // Those that wait have their names there.
            Tables::PROCESS_INTERVAL | Tables::WAIT_FOR_INTERVAL => What::Processes,
            _ => What::Meta,
        };
        let until_ns = self.bounds.end_at_most.unwrap_or(i64::MAX);
        let query =
            Query::new(host.info.host).range(self.after_ns, until_ns).what(what).filter(self.filter());
        let (mut taken, mut last_ns, mut is_more) = (0, None, false);
        let mut intervals = self.reader.intervals(&query)?;
        while let Some(StoredInterval { interval, .. }) = intervals.read()? {
            // Intervals that end together stay together: the next batch begins after their end.
            let is_new_end = last_ns != Some(interval.end.wall_ns);
            if is_new_end && (taken >= self.batch || rows.cells.len() >= MAX_BATCH_CELLS) {
                is_more = true;
                break;
            }
            taken += 1;
            last_ns = Some(interval.end.wall_ns);
            take_rows(self.table, &self.columns, &host.info.hostname, interval, rows);
        }
        self.after_ns = last_ns.unwrap_or(self.after_ns);
        Ok(is_more)
    }

    fn task_rows(&mut self, host: &HostRecord, rows: &mut CellRows) -> Result<bool> {
        let before = rows.count;
        let (reader, limit, columns) = (Rc::clone(&self.reader), self.batch * 16, &self.columns);
        // v1 devices send neither start times nor anything about a process but its name and id.
        let intervals =
            [SourceKind::Unknown, SourceKind::V1].map(|source| Interval { source, ..Interval::default() });
        let views = intervals.each_ref().map(|interval| IntervalView::new(&host.info.hostname, interval));
        let mut last = self.after_id;
        let mut visit = |task: &Task<'_>| {
            last = task.id;
            let is_v1 = task.boot == BootId::default();
            take_task(task, &views[usize::from(is_v1)], columns, host, rows);
        };
        let (host_id, pid) = (host.info.host, self.bounds.pid);
        let is_meant = |number: u32| pid.is_none_or(|pid| pid == number);
        reader.for_each_task(host_id, self.table, &is_meant, self.after_id, limit, &mut visit)?;
        self.after_id = last;
        // A full batch may have been the last one: then the next is empty, and the scan continues with the next host.
        Ok(rows.count - before == limit)
    }
}

fn host_cell(host: &HostRecord, id: ColumnId) -> OwnedCell {
    let known = |number: u64| if number == 0 { OwnedCell::Null } else { number.cast_signed().into() };
    let info = &host.info;
    match id {
        ColumnId::Host => info.hostname.to_string().into(),
        ColumnId::HostId => info.host.to_string().into(),
        ColumnId::BootId if info.boot == BootId::default() => OwnedCell::Null,
        ColumnId::BootId => info.boot.to_string().into(),
        ColumnId::Kernel => text(&info.kernel),
        ColumnId::Arch => text(&info.arch),
        ColumnId::Agent => text(&info.agent),
        ColumnId::SourceReason => text(&info.source_reason),
        ColumnId::CpuCount => known(info.cpu_count.into()),
        ColumnId::IntervalNs => known(info.interval_ns),
        ColumnId::Trust => host.trust.name().into(),
        ColumnId::FirstNs => host.first_wall_ns.map_or(OwnedCell::Null, OwnedCell::Int),
        ColumnId::LastNs => host.last_wall_ns.map_or(OwnedCell::Null, OwnedCell::Int),
        _ => OwnedCell::Null,
    }
}

/// The cells of a task are those of a row of an interval in which it did nothing.
fn take_task(
    task: &Task<'_>,
    view: &IntervalView<'_>,
    columns: &[&'static Column],
    host: &HostRecord,
    rows: &mut CellRows,
) {
    let process = task.process.idle(0).row();
    let thread = task.thread.map(|(key, comm)| {
        let process = process.key;
        ThreadInterval { key, process, comm, ..ThreadInterval::default() }
    });
    let cell = |id: ColumnId| match (id, &thread) {
        (ColumnId::BootId, _) if task.boot == BootId::default() => OwnedCell::Null,
        (ColumnId::BootId, _) => task.boot.to_string().into(),
        (ColumnId::HostId, _) => host.info.host.to_string().into(),
        (ColumnId::ProcessName, _) | (ColumnId::Name, None) => text(&process.info.name),
        (_, Some(thread)) => view.thread(thread, id).into_owned(),
        (_, None) => view.process(&process, id).into_owned(),
    };
    rows.cells.extend(columns.iter().map(|column| cell(column.id)));
    rows.count += 1;
}

/// A text, or no data where it is empty.
fn text(text: &str) -> OwnedCell {
    if text.is_empty() { OwnedCell::Null } else { OwnedCell::Text(text.to_owned().into()) }
}

/// Columns whose cell is the same in each row of an interval.
fn is_shared(id: ColumnId) -> bool {
    matches!(id, ColumnId::Host | ColumnId::BeginUtc | ColumnId::EndUtc | ColumnId::Source)
}

fn take_rows(
    table: Tables,
    columns: &[&'static Column],
    host: &str,
    interval: &Interval,
    rows: &mut CellRows,
) {
    let view = IntervalView::new(host, interval);
    let shared: Vec<Option<OwnedCell>> = columns
        .iter()
        .map(|column| is_shared(column.id).then(|| view.host(column.id).into_owned()))
        .collect();
    let mut take = |cell: &dyn Fn(ColumnId) -> OwnedCell| {
        let cells = columns.iter().zip(&shared);
        rows.cells.extend(cells.map(|(column, shared)| shared.clone().unwrap_or_else(|| cell(column.id))));
        rows.count += 1;
    };
    macro_rules! take_all {
        ($rows:ident $cell:ident) => {
            interval.$rows.iter().for_each(|row| take(&|id| view.$cell(row, id).into_owned()))
        };
    }
    match table {
        Tables::PROCESS_INTERVAL => take_all!(processes process),
        Tables::THREAD_INTERVAL => take_all!(threads thread),
        Tables::CPU_INTERVAL => take_all!(cpus cpu),
        Tables::WAIT_INTERVAL => {
            for row in &interval.threads {
                for (reason, ns) in row.sched.waits.iter() {
                    take(&|id| view.wait(row, reason, ns, id).into_owned());
                }
            }
        }
        Tables::IRQ_INTERVAL => take_all!(irqs irq),
        Tables::CGROUP_INTERVAL => take_all!(cgroups cgroup),
        Tables::WAIT_FOR_INTERVAL => take_all!(waits_for wait_for),
        _ => take(&|id| view.host(id).into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_survives_its_text() {
        let plan = ScanPlan {
            values: vec![vec![Use::Host], vec![Use::EndAtLeast, Use::EndAtMost]],
            used: 0x8000_0000_0000_0005,
        };
        assert_eq!(ScanPlan::from_text(&plan.to_text()), plan);
        assert!(plan.wants(0) && !plan.wants(1) && plan.wants(2) && plan.wants(63) && plan.wants(80));
        let none = ScanPlan { values: Vec::new(), used: 0 };
        assert_eq!(ScanPlan::from_text(&none.to_text()), none);
    }

    #[test]
    fn bounds_are_never_too_narrow() {
        let mut bounds = Bounds::default();
        bounds.narrow(Use::EndAtLeast, ValueRef::Real(10.5));
        bounds.narrow(Use::EndAtMost, ValueRef::Real(20.5));
        bounds.narrow(Use::EndAtMost, ValueRef::Integer(30));
        bounds.narrow(Use::Pid, ValueRef::Text(b"7"));
        assert_eq!((bounds.end_at_least, bounds.end_at_most, bounds.pid), (Some(10), Some(21), None));
        assert!(!bounds.is_empty);
        bounds.narrow(Use::Pid, ValueRef::Integer(-1));
        assert!(bounds.is_empty);
    }
}
