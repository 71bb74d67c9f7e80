//! Columns of a report: names and cells are the same in the API and in files.

use cpumon_model::{Fields, Value};

use super::answer::{Report, ReportRow};
use super::limits::has_limits;
use super::query::ReportBy;
use crate::keys::TaskKey;

/// Names of the columns of a report, in order.
pub const REPORT_COLUMNS: [&str; 25] = [
    "host",
    "kind",
    "name",
    "pid",
    "tid",
    "start_ns",
    "run_ns",
    "user_ns",
    "system_ns",
    "cpu_pct",
    "share_pct",
    "peak_cpu_pct",
    "peak_end_ns",
    "peak_is_exact",
    "run_delay_ns",
    "ready_mean",
    "blocked_ns",
    "blocked_mean",
    "voluntary_switches",
    "involuntary_switches",
    "wait",
    "wait_ns",
    "first_ns",
    "last_ns",
    "duration_ns",
];

/// Names of the columns behind them where rows are control groups, containers or services.
pub const LIMIT_COLUMNS: [&str; 5] =
    ["cpu_limit", "throttled_ns", "throttled_periods", "periods", "pressure_some_ns"];

/// The column behind them where rows are threads: with `pid` the key of the process.
pub const THREAD_COLUMN: &str = "process_start_ns";

/// Names of the columns behind them where the report is compared with another range.
pub const CHANGE_COLUMNS: [&str; 6] = [
    "before_run_ns",
    "before_cpu_pct",
    "change_cpu_pct",
    "before_run_delay_ns",
    "before_blocked_ns",
    "before_duration_ns",
];

fn real(value: Option<f64>) -> Value<'static> {
    value.map_or(Value::Null, Value::Real)
}

fn int(value: Option<i64>) -> Value<'static> {
    value.map_or(Value::Null, Value::Int)
}

impl Report {
    /// Names of its columns.
    #[must_use]
    pub fn columns(&self) -> Vec<&'static str> {
        let mut names = REPORT_COLUMNS.to_vec();
        names.extend(LIMIT_COLUMNS.iter().filter(|_| has_limits(self.query.by)));
        names.extend((self.query.by == ReportBy::Thread).then_some(THREAD_COLUMN));
        names.extend(CHANGE_COLUMNS.iter().filter(|_| self.before.is_some()));
        names
    }

    /// The cells of its rows, in the order of [`Report::columns`].
    pub fn cells(&self) -> impl Iterator<Item = Vec<Value<'_>>> {
        self.rows.iter().map(|row| {
            let mut cells = row.cells();
            if has_limits(self.query.by) {
                cells.extend(row.limit_cells());
            }
            if self.query.by == ReportBy::Thread {
                cells.push(row.process_start_ns.map_or(Value::Null, Value::count));
            }
            if self.before.is_some() {
                cells.extend(row.change_cells());
            }
            cells
        })
    }
}

impl ReportRow {
    fn known(&self, needs: Fields, value: i64) -> Value<'static> {
        if self.fields.contains(needs) { Value::Int(value) } else { Value::Null }
    }

    /// The cells, in the order of [`REPORT_COLUMNS`].
    #[must_use]
    pub fn cells(&self) -> Vec<Value<'_>> {
        let (tid, start_ns) = match self.task {
            Some(TaskKey::Thread(key)) => (Some(key.tid), Some(key.start_ns)),
            Some(TaskKey::Process(key)) => (None, Some(key.start_ns)),
            None => (None, None),
        };
        let delta = &self.delta;
        let wait = self.wait.map_or(Value::Null, |wait| Value::Text(wait.reason.name()));
        vec![
            self.host.as_deref().map_or(Value::Null, |host| Value::Text(host.into())),
            Value::Text(self.kind.name().into()),
            Value::Text((&*self.name).into()),
            int(self.pid.map(i64::from)),
            int(tid.map(i64::from)),
            start_ns.map_or(Value::Null, Value::count),
            self.known(Fields::RUN, delta.run_ns),
            self.known(Fields::USER, delta.user_ns),
            self.known(Fields::SYSTEM, delta.system_ns),
            real(self.cpu_pct()),
            real(self.share_pct()),
            real(self.peak.map(|peak| peak.ns_per_s as f64 / 1e7)),
            int(self.peak.map(|peak| peak.end_ns)),
            int(self.peak.map(|peak| i64::from(peak.is_exact))),
            self.known(Fields::RUN_DELAY, delta.run_delay_ns),
            real(self.ready_mean()),
            int(self.blocked_ns),
            real(self.blocked_mean()),
            self.known(Fields::SWITCHES, delta.voluntary_switches),
            self.known(Fields::SWITCHES, delta.involuntary_switches),
            wait,
            self.wait.map_or(Value::Null, |wait| Value::count(wait.ns)),
            int(self.first_ns),
            int(self.last_ns),
            if self.covered_ns > 0 { Value::count(self.covered_ns) } else { Value::Null },
        ]
    }

    /// The cells, in the order of [`LIMIT_COLUMNS`].
    #[must_use]
    pub fn limit_cells(&self) -> [Value<'_>; 5] {
        let throttle = self.limits.and_then(|limits| limits.throttle);
        let count = |value: Option<u64>| value.map_or(Value::Null, Value::count);
        [
            real(self.limits.and_then(|limits| limits.limit.cpus())),
            count(throttle.map(|throttle| throttle.throttled_ns)),
            count(throttle.map(|throttle| throttle.throttled_periods)),
            count(throttle.map(|throttle| throttle.periods)),
            count(self.limits.and_then(|limits| limits.pressure).map(|pressure| pressure.some_ns)),
        ]
    }

    /// The cells, in the order of [`CHANGE_COLUMNS`].
    #[must_use]
    pub fn change_cells(&self) -> Vec<Value<'_>> {
        let before = self.before.filter(|before| before.covered_ns > 0);
        let known =
            |needs: Fields, ns: i64| before.filter(|before| before.fields.contains(needs)).map(|_| ns);
        let delta = before.map(|before| before.delta).unwrap_or_default();
        vec![
            int(known(Fields::RUN, delta.run_ns)),
            real(self.before_cpu_pct()),
            real(self.change_cpu_pct()),
            int(known(Fields::RUN_DELAY, delta.run_delay_ns)),
            int(before.and_then(|before| before.blocked_ns)),
            before.map_or(Value::Null, |before| Value::count(before.covered_ns)),
        ]
    }
}
