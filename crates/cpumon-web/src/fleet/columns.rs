//! The fleet's columns. In: hosts with their glances. Out: tables for the page, and the same as a file.
//! Why: what a browser shows and what a file holds are told once.

use cpumon_export::{ExportError, Format};
use cpumon_model::{HostStatus, Ledger, Utc, Value};

use super::{Busy, CLOSED_RATIO, Glance, REPORTING, TOP, age_ns, state_of};
use crate::api::{Cell, Table, to_ms};

fn real(value: Option<f64>) -> Cell {
    Cell::or_null(value, Cell::real)
}

/// Columns of hosts.
pub(super) fn host_table(rows: &[(&HostStatus, Option<Row<'_>>)], total: usize, now_ns: i64) -> Table {
    let mut table = Table::new(rows.len(), total);
    for (name, cells) in host_columns(rows, now_ns) {
        table.push(name, cells);
    }
    table
}

/// Columns of hosts, those without data too.
fn host_columns(rows: &[(&HostStatus, Option<Row<'_>>)], now_ns: i64) -> Vec<(&'static str, Vec<Cell>)> {
    let mut columns: Vec<(&'static str, Vec<Cell>)> = Vec::new();
    let mut status = |name: &'static str, cell: &dyn Fn(&HostStatus) -> Cell| {
        columns.push((name, rows.iter().map(|(host, _)| cell(host)).collect()));
    };
    let text = |text: &str| Cell::from(text);
    let age_ns = |host: &HostStatus| age_ns(host, now_ns);
    status("id", &|host| host.info.host.to_string().into());
    status("hostname", &|host| text(&host.info.hostname));
    status("trust", &|host| text(host.trust.name()));
    status("source", &|host| text(host.source.name()));
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
    status("state", &|host| text(state_of(age_ns(host), host.info.interval_ns)));
    status("age_ns", &|host| Cell::Int(age_ns(host)));
    status("clock_offset_ns", &|host| Cell::Int(host.clock_offset_ns()));
    status("clock_round_trip_ns", &|host| {
        host.clock.map_or(Cell::Null, |clock| Cell::count(clock.round_trip_ns))
    });
    status("clock_drift_ppb", &|host| {
        host.clock.and_then(|clock| clock.drift_ppb).map_or(Cell::Null, Cell::Int)
    });
    status("end_ms", &|host| Cell::real(to_ms(host.last.wall_ns)));
    status("threads", &|host| Cell::Int(host.thread_count.into()));
    status("processes", &|host| Cell::Int(host.process_count.into()));
    status("lost", &|host| Cell::count(host.loss.snapshots_lost.saturating_add(host.loss.snapshots_partial)));
    status("rejected", &|host| Cell::count(host.loss.rejected));
    status("store_dropped", &|host| Cell::count(host.loss.store_dropped));
    let mut glance = |name: &'static str, cell: &dyn Fn(&Glance) -> Cell| {
        let cells = rows.iter().map(|(_, row)| row.as_ref().map_or(Cell::Null, |row| cell(row.0)));
        columns.push((name, cells.collect()));
    };
    let ledger = |glance: &Glance, cell: &dyn Fn(&Ledger) -> Cell| match glance.ledger.capacity_ns {
        0 => Cell::Null,
        _ => cell(&glance.ledger),
    };
    glance("busy_ratio", &|glance| real(glance.busy_ratio));
    glance("top_key", &|glance| Cell::or_null(glance.top.first(), |top| text(&top.key)));
    glance("top_name", &|glance| Cell::or_null(glance.top.first(), |top| text(&top.name)));
    glance("top_cpu_pct", &|glance| real(glance.top.first().and_then(|top| top.cpu_pct)));
    glance("capacity_ns", &|glance| ledger(glance, &|ledger| Cell::Int(ledger.capacity_ns)));
    glance("unattributed_ns", &|glance| ledger(glance, &|ledger| Cell::Int(ledger.unattributed_ns())));
    glance("unattributed_ratio", &|glance| ledger(glance, &|ledger| Cell::real(ledger.unattributed_ratio())));
    glance("ledger_closed", &|glance| {
        ledger(glance, &|ledger| Cell::Bool(ledger.unattributed_ratio().abs() <= CLOSED_RATIO))
    });
    glance("flags", &|glance| text(&glance.flags));
    columns
}

/// A host's glance, opaque outside.
#[derive(Copy, Clone)]
pub(crate) struct Row<'a>(pub(super) &'a Glance);

/// The busiest processes over all hosts that report.
pub(super) fn top_table(hosts: &[(&HostStatus, Option<Row<'_>>)], now_ns: i64) -> Table {
    let (total, columns) = top_columns(hosts, now_ns, TOP);
    let mut table = Table::new(total.min(TOP), total);
    for (name, cells) in columns {
        table.push(name, cells);
    }
    table
}

/// The busiest processes of each host that reports, at most `most` over all of them: how many there are, and their columns.
pub(super) fn top_columns(
    hosts: &[(&HostStatus, Option<Row<'_>>)],
    now_ns: i64,
    most: usize,
) -> (usize, Vec<(&'static str, Vec<Cell>)>) {
    let mut all: Vec<(&HostStatus, &Busy)> = hosts
        .iter()
        .filter(|(host, _)| state_of(age_ns(host, now_ns), host.info.interval_ns) == REPORTING)
        .flat_map(|(host, row)| row.iter().flat_map(|row| &row.0.top).map(|busy| (*host, busy)))
        .collect();
    all.sort_by(|a, b| b.1.cpu_pct.unwrap_or(0.0).total_cmp(&a.1.cpu_pct.unwrap_or(0.0)));
    let total = all.len();
    all.truncate(most);
    let mut columns = Vec::new();
    let mut push = |name: &'static str, cell: &dyn Fn(&HostStatus, &Busy) -> Cell| {
        columns.push((name, all.iter().map(|(host, busy)| cell(host, busy)).collect()));
    };
    push("host_id", &|host, _| host.info.host.to_string().into());
    push("hostname", &|host, _| Cell::from(&*host.info.hostname));
    push("key", &|_, busy| Cell::from(&*busy.key));
    push("name", &|_, busy| Cell::from(&*busy.name));
    push("container", &|_, busy| Cell::from(&*busy.container));
    push("cpu_pct", &|_, busy| real(busy.cpu_pct));
    push("host_pct", &|_, busy| real(busy.host_pct));
    push("run_ns", &|_, busy| Cell::Int(busy.run_ns));
    (total, columns)
}

/// Columns of the file: those of the page's table. Ages are moments there, so that a file says the same whenever it is read.
pub(super) fn file_columns(
    rows: &[(&HostStatus, Option<Row<'_>>)],
    now_ns: i64,
) -> Vec<(&'static str, Vec<Cell>)> {
    let mut columns = host_columns(rows, now_ns);
    columns.retain(|(name, _)| !matches!(*name, "age_ns" | "end_ms"));
    let mut moment = |utc: &'static str, ns: &'static str, of: &dyn Fn(&HostStatus) -> i64| {
        // Of a host that never told anything there is no moment.
        let cells = |cell: &dyn Fn(i64) -> Cell| {
            rows.iter()
                .map(|(host, _)| match of(host) {
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

/// The file.
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
