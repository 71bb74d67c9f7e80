//! Columns of a report.

use super::answer::{Report, ReportRow};
use super::limits::has_limits;
use super::query::ReportBy;
use crate::fields::{Field, count};

/// Columns of every report.
const ALWAYS: [Field<ReportRow>; 25] = [
    Field::text("host", |row| Some(row.host.as_deref()?.into())),
    Field::text("kind", |row| Some(row.kind.name().into())),
    Field::text("name", |row| Some((&*row.name).into())),
    Field::int("pid", |row| row.pid.map(i64::from)),
    Field::int("tid", |row| row.tid.map(i64::from)),
    Field::int("start_ns", |row| row.start_ns.map(|ns| ns.0)),
    Field::int("run_ns", |row| row.run_ns),
    Field::int("user_ns", |row| row.user_ns),
    Field::int("system_ns", |row| row.system_ns),
    Field::real("cpu_pct", |row| row.cpu_pct),
    Field::real("share_pct", |row| row.share_pct),
    Field::real("peak_cpu_pct", |row| row.peak.map(|peak| peak.ns_per_s as f64 / 1e7)),
    Field::int("peak_end_ns", |row| row.peak.map(|peak| peak.end_ns)),
    Field::int("peak_is_exact", |row| row.peak.map(|peak| i64::from(peak.is_exact))),
    Field::int("run_delay_ns", |row| row.run_delay_ns),
    Field::real("ready_mean", |row| row.ready_mean),
    Field::int("blocked_ns", |row| row.blocked_ns),
    Field::real("blocked_mean", |row| row.blocked_mean),
    Field::int("voluntary_switches", |row| row.voluntary_switches),
    Field::int("involuntary_switches", |row| row.involuntary_switches),
    Field::text("wait", |row| Some(row.waits.iter().next()?.0.name())),
    Field::int("wait_ns", |row| Some(count(row.waits.iter().next()?.1))),
    Field::int("first_ns", |row| row.first_ns.map(|ns| ns.0)),
    Field::int("last_ns", |row| row.last_ns.map(|ns| ns.0)),
    Field::int("duration_ns", |row| row.duration_ns.map(count)),
];

/// Behind them where rows are control groups, containers or services.
const LIMITS: [Field<ReportRow>; 5] = [
    Field::real("cpu_limit", |row| row.limits?.limit.cpus()),
    Field::int("throttled_ns", |row| Some(count(row.limits?.throttle?.throttled_ns))),
    Field::int("throttled_periods", |row| Some(count(row.limits?.throttle?.throttled_periods))),
    Field::int("periods", |row| Some(count(row.limits?.throttle?.periods))),
    Field::int("pressure_some_ns", |row| Some(count(row.limits?.pressure?.some_ns))),
];

/// Behind them where rows are threads: with `pid` the key of the process.
const THREAD: [Field<ReportRow>; 1] =
    [Field::int("process_start_ns", |row| row.process_start_ns.map(|ns| ns.0))];

/// Behind them where the report is compared with another range.
const CHANGE: [Field<ReportRow>; 6] = [
    Field::int("before_run_ns", |row| row.before?.run_ns),
    Field::real("before_cpu_pct", |row| row.before?.cpu_pct),
    Field::real("change_cpu_pct", |row| row.change_cpu_pct),
    Field::int("before_run_delay_ns", |row| row.before?.run_delay_ns),
    Field::int("before_blocked_ns", |row| row.before?.blocked_ns),
    Field::int("before_duration_ns", |row| row.before?.duration_ns.map(count)),
];

impl Report {
    /// Its columns.
    #[must_use]
    pub fn fields(&self) -> Vec<&'static Field<ReportRow>> {
        let (by, compares) = (self.query.by, self.before.is_some());
        let limits = LIMITS.iter().filter(|_| has_limits(by));
        let thread = THREAD.iter().filter(|_| by == ReportBy::Thread);
        ALWAYS.iter().chain(limits).chain(thread).chain(CHANGE.iter().filter(|_| compares)).collect()
    }
}
