//! Reads a virtual table in batches of cells, small ones first: the memory is bounded, and `LIMIT 3` reads little. SQLite asks for the cells of a row later, one by one: they own what they show.

use std::rc::Rc;

use cpumon_model::{BootId, CgroupNames, Column, ColumnId, HostRef, Interval, IntervalView, Tables, Value};

use super::plan::{Bounds, ScanPlan};
use crate::error::Result;
use crate::reader::hosts::meant_by;
use crate::reader::{HostRecord, ProcessFilter, Query, Reader, StoredInterval, Task, What};

/// Intervals in the first batch and in the largest.
const FIRST_BATCH: usize = 4;
const LARGEST_BATCH: usize = 256;
/// A batch ends early when it holds this many cells.
const MAX_BATCH_CELLS: usize = 1 << 18;

/// A cell that owns its text.
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
            Tables::PROCESS_INTERVAL => What::Processes,
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
        let (reader, limit) = (Rc::clone(&self.reader), self.batch * 16);
        let columns = &self.columns;
        let mut last = self.after_id;
        reader.for_each_task(
            host.info.host,
            self.table,
            self.bounds.pid,
            self.after_id,
            limit,
            &mut |task| {
                last = task.id;
                rows.cells.extend(columns.iter().map(|column| task_cell(task, host, column.id)));
                rows.count += 1;
            },
        )?;
        self.after_id = last;
        // A full batch may have been the last one: then the next is empty, and the scan goes on to the next
        // host.
        Ok(rows.count - before == limit)
    }
}

fn host_cell(host: &HostRecord, id: ColumnId) -> OwnedCell {
    let known =
        |number: u64| if number == 0 { OwnedCell::Null } else { OwnedCell::Int(number.cast_signed()) };
    match id {
        ColumnId::Host => OwnedCell::Text(String::from(&*host.info.hostname).into()),
        ColumnId::HostId => OwnedCell::Text(host.info.host.to_string().into()),
        ColumnId::BootId if host.info.boot == BootId::default() => OwnedCell::Null,
        ColumnId::BootId => OwnedCell::Text(host.info.boot.to_string().into()),
        ColumnId::Kernel => text(&host.info.kernel),
        ColumnId::Arch => text(&host.info.arch),
        ColumnId::Agent => text(&host.info.agent),
        ColumnId::SourceReason => text(&host.info.source_reason),
        ColumnId::CpuCount => known(host.info.cpu_count.into()),
        ColumnId::IntervalNs => known(host.info.interval_ns),
        ColumnId::Trust => OwnedCell::Text(host.trust.name().into()),
        ColumnId::FirstNs => host.first_wall_ns.map_or(OwnedCell::Null, OwnedCell::Int),
        ColumnId::LastNs => host.last_wall_ns.map_or(OwnedCell::Null, OwnedCell::Int),
        _ => OwnedCell::Null,
    }
}

fn task_cell(task: &Task<'_>, host: &HostRecord, id: ColumnId) -> OwnedCell {
    // v1 devices send neither start times nor anything about a process but its name and id.
    let is_v1 = task.boot == BootId::default();
    let known = |number: i64| if is_v1 { OwnedCell::Null } else { OwnedCell::Int(number) };
    let (key, info) = (task.process.key, &task.process.info);
    match id {
        ColumnId::Host => OwnedCell::Text(String::from(&*host.info.hostname).into()),
        ColumnId::HostId => OwnedCell::Text(host.info.host.to_string().into()),
        ColumnId::BootId | ColumnId::User if is_v1 => OwnedCell::Null,
        ColumnId::BootId => OwnedCell::Text(task.boot.to_string().into()),
        ColumnId::Pid => OwnedCell::Int(key.pid.into()),
        ColumnId::Tid => task.thread.map_or(OwnedCell::Null, |(key, _)| OwnedCell::Int(key.tid.into())),
        ColumnId::StartNs => known(task.thread.map_or(key.start_ns, |(key, _)| key.start_ns).cast_signed()),
        ColumnId::ParentPid => known(task.process.parent_pid.into()),
        ColumnId::Name => match &task.thread {
            Some((_, comm)) => text(&comm.to_str_lossy()),
            None => text(&info.name),
        },
        ColumnId::ProcessName => text(&info.name),
        ColumnId::Uid => known(info.uid.into()),
        ColumnId::User => text(info.user_name().unwrap_or_default()),
        ColumnId::Service => text(&info.service()),
        ColumnId::Pod => text(&CgroupNames::of(&info.cgroup).pod()),
        ColumnId::Interpreter => text(&info.interpreter),
        ColumnId::Cgroup => text(&info.cgroup),
        ColumnId::Container => text(&info.container),
        ColumnId::Cmdline => text(&info.cmdline),
        ColumnId::IsKernel => known(info.is_kernel.into()),
        ColumnId::Session => info.session.map_or(OwnedCell::Null, |number| OwnedCell::Int(number.into())),
        ColumnId::Product => text(&info.product),
        ColumnId::PriorityClass => text(&info.priority_class().unwrap_or_default()),
        _ => OwnedCell::Null,
    }
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
    match table {
        Tables::PROCESS_INTERVAL => {
            interval.processes.iter().for_each(|row| take(&|id| view.process(row, id).into_owned()));
        }
        Tables::THREAD_INTERVAL => {
            interval.threads.iter().for_each(|row| take(&|id| view.thread(row, id).into_owned()));
        }
        Tables::CPU_INTERVAL => {
            interval.cpus.iter().for_each(|row| take(&|id| view.cpu(row, id).into_owned()));
        }
        Tables::WAIT_INTERVAL => {
            for row in &interval.threads {
                for (reason, ns) in row.sched.waits.iter() {
                    take(&|id| view.wait(row, reason, ns, id).into_owned());
                }
            }
        }
        Tables::IRQ_INTERVAL => {
            interval.irqs.iter().for_each(|row| take(&|id| view.irq(row, id).into_owned()));
        }
        Tables::CGROUP_INTERVAL => {
            interval.cgroups.iter().for_each(|row| take(&|id| view.cgroup(row, id).into_owned()));
        }
        _ => take(&|id| view.host(id).into_owned()),
    }
}
