//! Columns of hosts and of their busiest processes. The page's tables and the files are made from the same list.

use cpumon_export::{ExportError, Format};
use cpumon_model::{HostStatus, Ledger, Utc, Value};
use cpumon_query::TaskKey;
use cpumon_query::fleet::{BALANCED_RATIO, FleetHost, Glance, HostState, SpanHost, TOP, TopProcess, top};
use cpumon_query::time::to_ms;

use crate::api::{Cell, Table};

/// Names with a value a row.
type Columns = Vec<(&'static str, Vec<Cell>)>;

fn real(value: Option<f64>) -> Cell {
    Cell::or_null(value, Cell::real)
}

/// Counts of this receiver's run say nothing of a host that did not report in it.
fn of_reported(host: &FleetHost, cell: impl Fn(&HostStatus) -> Cell) -> Cell {
    if host.state == HostState::Stored { Cell::Null } else { cell(&host.status) }
}

pub(super) fn host_table(rows: &[&FleetHost], total: usize) -> Table {
    let mut table = Table::new(rows.len(), total);
    for (name, cells) in host_columns(rows) {
        table.push(name, cells);
    }
    table
}

/// Columns of hosts, those without data too.
fn host_columns(rows: &[&FleetHost]) -> Columns {
    let mut columns: Columns = Vec::new();
    let text = |text: &str| Cell::from(text);
    let mut of_host = |name: &'static str, cell: &dyn Fn(&FleetHost) -> Cell| {
        columns.push((name, rows.iter().map(|host| cell(host)).collect()));
    };
    let mut status =
        |name: &'static str, cell: &dyn Fn(&HostStatus) -> Cell| of_host(name, &|host| cell(&host.status));
    status("id", &|host| host.info.host.to_string().into());
    status("hostname", &|host| text(&host.info.hostname));
    status("trust", &|host| text(host.trust.name()));
    of_host("source", &|host| of_reported(host, |status| text(status.source.name())));
    let mut status =
        |name: &'static str, cell: &dyn Fn(&HostStatus) -> Cell| of_host(name, &|host| cell(&host.status));
    status("address", &|host| text(&host.address));
    status("agent", &|host| text(&host.info.agent));
    status("kernel", &|host| text(&host.info.kernel));
    status("arch", &|host| text(&host.info.arch));
    status("cpu_count", &|host| match host.info.cpu_count {
        0 => Cell::Null,
        count => Cell::Int(count.into()),
    });
    status("interval_ns", &|host| match host.info.interval_ns {
        0 => Cell::Null,
        ns => Cell::count(ns),
    });
    of_host("state", &|host| text(host.state.name()));
    of_host("age_ns", &|host| Cell::Int(host.age_ns));
    of_host("end_ms", &|host| Cell::real(to_ms(host.status.last.wall_ns)));
    of_host("health", &|host| Cell::from(host.health()));
    let mut status = |name: &'static str, cell: &dyn Fn(&HostStatus) -> Cell| {
        of_host(name, &|host| of_reported(host, cell));
    };
    status("clock_offset_ns", &|host| Cell::Int(host.clock_offset_ns()));
    status("clock_round_trip_ns", &|host| {
        host.clock.map_or(Cell::Null, |clock| Cell::count(clock.round_trip_ns))
    });
    status("clock_drift_ppb", &|host| {
        host.clock.and_then(|clock| clock.drift_ppb).map_or(Cell::Null, Cell::Int)
    });
    status("threads", &|host| Cell::Int(host.thread_count.into()));
    status("processes", &|host| Cell::Int(host.process_count.into()));
    status("lost", &|host| Cell::count(host.loss.snapshots_lost.saturating_add(host.loss.snapshots_partial)));
    status("rejected", &|host| Cell::count(host.loss.rejected));
    status("store_dropped", &|host| Cell::count(host.loss.store_dropped));
    let mut glance = |name: &'static str, cell: &dyn Fn(&Glance) -> Cell| {
        let cells = rows.iter().map(|host| host.glance.as_deref().map_or(Cell::Null, &cell));
        columns.push((name, cells.collect()));
    };
    let ledger = |glance: &Glance, cell: &dyn Fn(&Ledger) -> Cell| match glance.ledger.capacity_ns {
        0 => Cell::Null,
        _ => cell(&glance.ledger),
    };
    glance("busy_ratio", &|glance| real(glance.busy_ratio));
    glance("minute_busy_ratio", &|glance| real(glance.minute.busy_ratio));
    glance("minute_peak_ratio", &|glance| real(glance.minute.peak_ratio));
    glance("minute_ready", &|glance| real(glance.minute.ready_mean));
    glance("minute_run_queue_per_cpu", &|glance| real(glance.minute.run_queue_per_cpu));
    glance("minute_unattributed_ratio", &|glance| real(glance.minute.unattributed_ratio));
    glance("minute_intervals", &|glance| Cell::Int(glance.minute.intervals.into()));
    glance("minute_incomplete", &|glance| Cell::Int(glance.minute.incomplete.into()));
    glance("top_key", &|glance| {
        Cell::or_null(glance.top.first(), |top| TaskKey::Process(top.key).to_string().into())
    });
    glance("top_name", &|glance| Cell::or_null(glance.top.first(), |top| text(&top.name)));
    glance("top_cpu_pct", &|glance| real(glance.top.first().and_then(|top| top.cpu_pct)));
    glance("top_host_pct", &|glance| real(glance.top.first().and_then(|top| top.host_pct)));
    glance("capacity_ns", &|glance| ledger(glance, &|ledger| Cell::Int(ledger.capacity_ns)));
    glance("unattributed_ns", &|glance| ledger(glance, &|ledger| Cell::Int(ledger.unattributed_ns())));
    glance("unattributed_ratio", &|glance| ledger(glance, &|ledger| Cell::real(ledger.unattributed_ratio())));
    glance("ledger_closed", &|glance| {
        ledger(glance, &|ledger| Cell::Bool(ledger.unattributed_ratio().abs() <= BALANCED_RATIO))
    });
    glance("flags", &|glance| text(&glance.flags));
    columns
}

/// Hosts over a range.
pub(super) fn span_table(rows: &[SpanHost], total: usize) -> Table {
    let mut table = Table::new(rows.len(), total);
    let mut push = |name: &'static str, cell: &dyn Fn(&SpanHost) -> Cell| {
        table.push(name, rows.iter().map(cell));
    };
    push("id", &|host| host.status.info.host.to_string().into());
    push("hostname", &|host| Cell::from(&*host.status.info.hostname));
    push("trust", &|host| Cell::from(host.status.trust.name()));
    push("covered_ns", &|host| Cell::Int(host.covered_ns));
    push("busy_ratio", &|host| real(host.busy_ratio));
    push("peak_ratio", &|host| real(host.peak_ratio));
    push("peak_ms", &|host| real(host.peak_ns.map(to_ms)));
    push("run_queue_per_cpu", &|host| real(host.run_queue_per_cpu));
    table
}

/// The busiest processes over all hosts that report.
pub(super) fn top_table(hosts: &[FleetHost]) -> Table {
    let all = top(hosts);
    let shown = &all[..all.len().min(TOP)];
    let mut table = Table::new(shown.len(), all.len());
    for (name, cells) in top_columns(shown) {
        table.push(name, cells);
    }
    table
}

pub(super) fn top_columns(rows: &[TopProcess<'_>]) -> Columns {
    let mut columns = Vec::new();
    let mut push = |name: &'static str, cell: &dyn Fn(&TopProcess<'_>) -> Cell| {
        columns.push((name, rows.iter().map(cell).collect()));
    };
    push("host_id", &|top| top.host.info.host.to_string().into());
    push("hostname", &|top| Cell::from(&*top.host.info.hostname));
    push("key", &|top| TaskKey::Process(top.busy.key).to_string().into());
    push("name", &|top| Cell::from(&*top.busy.name));
    push("container", &|top| Cell::from(&*top.busy.container));
    push("cpu_pct", &|top| real(top.busy.cpu_pct));
    push("host_pct", &|top| real(top.busy.host_pct));
    push("run_ns", &|top| Cell::Int(top.busy.run_ns));
    columns
}

/// Columns of the file: those of the page's table. Ages are moments there, so that a file says the same whenever it is read.
pub(super) fn file_columns(hosts: &[FleetHost]) -> Columns {
    let rows: Vec<&FleetHost> = hosts.iter().collect();
    let mut columns = host_columns(&rows);
    columns.retain(|(name, _)| !matches!(*name, "age_ns" | "end_ms"));
    let mut moment = |utc: &'static str, ns: &'static str, of: &dyn Fn(&HostStatus) -> i64| {
        // A host that never sent an interval has no such moment.
        let cells = |cell: &dyn Fn(i64) -> Cell| {
            rows.iter()
                .map(|host| match of(&host.status) {
                    0 => Cell::Null,
                    ns => cell(ns),
                })
                .collect()
        };
        columns.push((utc, cells(&|ns| Utc(ns).to_string().into())));
        columns.push((ns, cells(&Cell::Int)));
    };
    moment("end_utc", "end_ns", &|host| host.last.wall_ns);
    moment("received_utc", "received_ns", &|host| host.received_wall_ns);
    columns
}

/// Writes columns as a file.
pub(super) fn write(columns: &[(&'static str, Vec<Cell>)], format: Format) -> Result<Vec<u8>, ExportError> {
    let names: Vec<&'static str> = columns.iter().map(|(name, _)| *name).collect();
    let rows = columns.first().map_or(0, |(_, cells)| cells.len());
    let row = |at: usize| columns.iter().map(|(_, cells)| value(&cells[at])).collect();
    let mut file = Vec::new();
    cpumon_export::table(format, &names, (0..rows).map(row), &mut file)?;
    Ok(file)
}

fn value(cell: &Cell) -> Value<'_> {
    match cell {
        Cell::Null => Value::Null,
        Cell::Int(number) => Value::Int(*number),
        Cell::Real(number) => Value::Real(*number),
        Cell::Bool(is_so) => Value::Int(i64::from(*is_so)),
        Cell::Text(text) => Value::Text(text.into()),
    }
}
