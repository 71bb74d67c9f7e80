//! Who used the CPU, for a browser. Columns and numbers are those of `cpumon report` and `cpumon find`.

use cpumon_query::history::BucketTimes;
use cpumon_query::json::Nanos;
use cpumon_query::report::{FIND_COLUMNS, Found, HostPart, Report};
use cpumon_query::time::Page;
use serde::Serialize;
use utoipa::ToSchema;

use super::table::{Cell, Table};

/// Columns that are text: a browser's numbers end at 2^53. The start of a process is a part of its key.
const MOMENTS: [&str; 5] = ["peak_end_ns", "first_ns", "last_ns", "start_ns", "process_start_ns"];

/// Who used the CPU.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = Report)]
pub struct ReportJson {
    /// Start of the range that was read: earlier than asked for where only sums are left of it.
    pub since_ns: Nanos,
    /// Its end.
    pub until_ns: Nanos,
    /// Measured time.
    pub duration_ns: u64,
    /// Run time of all threads by the ledger: exactly the sum of `run_ns` of all rows.
    pub used_ns: i64,
    /// Start and end of the range that it is compared with; null: none.
    pub before: Option<[Nanos; 2]>,
    /// Groups there are, at most 50,000 a host; the row `rest` has what came later.
    pub total: usize,
    /// The points of the rows.
    #[serde(flatten)]
    pub times: BucketTimes,
    /// Groups, then one row (`kind` is `rest`) of those that are not shown, then one (`not attributed`) of run time that no group
    /// has. Columns are those of `cpumon report` (docs/report.md); moments are text in ns.
    pub rows: Table,
    /// Run time a point, a list for each row; empty for the rows of several groups.
    pub points: Vec<Vec<Option<i64>>>,
    /// Run time of all threads a point.
    pub used_points: Vec<Option<i64>>,
}

/// Who used the CPU of several hosts.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = ReportOfHosts)]
pub struct ReportOfHostsJson {
    /// Start of the range that was asked for.
    pub since_ns: Nanos,
    /// Its end.
    pub until_ns: Nanos,
    /// Run time of all threads of all hosts by their ledgers: exactly the sum of `run_ns` of all rows.
    pub used_ns: i64,
    /// Start and end of the range that it is compared with; null: none.
    pub before: Option<[Nanos; 2]>,
    /// Groups there are.
    pub total: usize,
    /// The hosts that have data in the range.
    pub hosts: Vec<HostPartJson>,
    /// As in the report of one host; the column `host` has the name of each row's host, null for rows of several.
    pub rows: Table,
    /// Run time a point of the row's host, a list for each row; empty for the rows of several groups.
    pub points: Vec<Vec<Option<i64>>>,
}

/// What was read of one host.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = ReportHost)]
pub struct HostPartJson {
    /// Its id.
    pub host: String,
    /// Its name.
    pub hostname: Box<str>,
    /// Start of the range that was read: earlier than asked for where only sums are left of it.
    pub since_ns: Nanos,
    /// Its end.
    pub until_ns: Nanos,
    /// Measured time.
    pub duration_ns: u64,
    /// Run time of all its threads by the ledger.
    pub used_ns: i64,
    /// The points of its rows.
    #[serde(flatten)]
    pub times: BucketTimes,
    /// Run time of all its threads a point.
    pub used_points: Vec<Option<i64>>,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = Found)]
pub struct FoundJson {
    /// Most run time first. Columns are those of `cpumon find` (docs/report.md); moments are text in ns.
    pub rows: Table,
}

/// A cell of a column.
fn cell(name: &str, value: cpumon_model::Value<'_>) -> Cell {
    match value {
        cpumon_model::Value::Int(ns) if MOMENTS.contains(&name) => Cell::Text(ns.to_string()),
        value => value.into(),
    }
}

fn table(names: &[&'static str], rows: &[Vec<cpumon_model::Value<'_>>], total: usize) -> Table {
    let mut table = Table::new(rows.len(), total);
    for (at, name) in names.iter().enumerate() {
        table.push(*name, rows.iter().map(|row| cell(name, row[at].clone())));
    }
    table
}

impl ReportJson {
    /// A report of one host.
    pub(crate) fn new(report: &Report) -> Self {
        let part = report.hosts.first();
        let range = part.map_or(report.range, |part| part.range);
        let rows: Vec<_> = report.cells().collect();
        Self {
            since_ns: Nanos(range.since_ns),
            until_ns: Nanos(range.until_ns),
            duration_ns: part.map_or(0, |part| part.covered_ns),
            used_ns: report.used_ns,
            before: report.before.map(|range| [Nanos(range.since_ns), Nanos(range.until_ns)]),
            total: report.total,
            times: part.map(times).unwrap_or_default(),
            rows: table(&report.columns(), &rows, report.rows.len()),
            points: report.rows.iter().map(|row| row.points.clone()).collect(),
            used_points: part.map(|part| part.used.clone()).unwrap_or_default(),
        }
    }
}

fn times(part: &HostPart) -> BucketTimes {
    part.times.clone()
}

impl ReportOfHostsJson {
    pub(crate) fn new(report: &Report) -> Self {
        let rows: Vec<_> = report.cells().collect();
        let host = |part: &HostPart| HostPartJson {
            host: part.host.to_string(),
            hostname: part.name.clone(),
            since_ns: Nanos(part.range.since_ns),
            until_ns: Nanos(part.range.until_ns),
            duration_ns: part.covered_ns,
            used_ns: part.used_ns,
            times: times(part),
            used_points: part.used.clone(),
        };
        Self {
            since_ns: Nanos(report.range.since_ns),
            until_ns: Nanos(report.range.until_ns),
            used_ns: report.used_ns,
            before: report.before.map(|range| [Nanos(range.since_ns), Nanos(range.until_ns)]),
            total: report.total,
            hosts: report.hosts.iter().map(host).collect(),
            rows: table(&report.columns(), &rows, report.rows.len()),
            points: report.rows.iter().map(|row| row.points.clone()).collect(),
        }
    }
}

impl FoundJson {
    pub(crate) fn new(found: &[Found], page: Page) -> Self {
        let rows: Vec<_> = page.of(found).map(Found::cells).collect();
        Self { rows: table(&FIND_COLUMNS, &rows, found.len()) }
    }
}
