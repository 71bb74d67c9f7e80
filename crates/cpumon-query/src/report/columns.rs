//! Columns of a [`Report`], and of the rows that `cpumon find` shows ([`Found`]).

use cpumon_model::{Throttle, WaitReason, escape, with_separators};

use super::answer::{HostPart, Report, ReportRow, RowKind};
use super::find::Found;
use super::query::{ReportBy, ReportSort};
use super::quotas::is_of_cgroups;
use crate::fields::{Field, Screen, decimal, name_text, seconds, signed, spark};

const DAY_NS: i64 = 86_400_000_000_000;

type ReportField<'r> = Field<'r, ReportRow>;

fn heading(by: ReportBy) -> &'static str {
    match by {
        ReportBy::Program => "PROGRAM",
        ReportBy::Name => "NAME",
        ReportBy::Process => "PROCESS",
        ReportBy::Thread => "THREAD",
        ReportBy::User => "USER",
        ReportBy::Service => "SERVICE",
        ReportBy::Container => "CONTAINER",
        ReportBy::Cgroup => "CGROUP",
        ReportBy::Host => "HOST",
    }
}

fn name(row: &ReportRow) -> String {
    match row.kind {
        RowKind::Short => format!("{} (short-lived)", name_text(&row.name)),
        RowKind::Rest => with_separators(&escape(&row.name).to_string()),
        RowKind::Group | RowKind::Unattributed => name_text(&row.name),
    }
}

fn number(row: &ReportRow) -> String {
    match (row.tid, row.pid) {
        (Some(tid), Some(pid)) => format!("{pid}/{tid}"),
        (_, Some(pid)) => pid.to_string(),
        _ => String::new(),
    }
}

fn peak(row: &ReportRow) -> String {
    let Some(peak) = row.peak else { return "-".to_owned() };
    let value = decimal(peak.ns_per_s as f64 / 1e7, 1);
    if peak.is_exact { value } else { format!(">={value}") }
}

/// A small line of the points of a row, as high as its highest point.
fn line(row: &ReportRow, part: Option<&HostPart>, screen: Screen) -> String {
    let Some(part) = part else { return String::new() };
    let points = row.points.iter().zip(&part.times.covered_ns);
    let rates = points
        .map(|(ns, covered_ns)| ns.filter(|_| *covered_ns > 0).map(|ns| ns as f64 / *covered_ns as f64));
    spark(&rates.collect::<Vec<_>>(), screen.is_ascii)
}

impl Report {
    /// Columns of the report.
    pub fn fields(&self, screen: Screen) -> Vec<Field<'_, ReportRow>> {
        let (by, sort, compares) = (self.query.by, self.query.sort, self.before.is_some());
        let with_day = self.range.length_ns() > DAY_NS;
        let clock =
            move |ns: Option<i64>| ns.map_or_else(|| "-".to_owned(), |ns| (screen.clock)(ns, with_day));
        // What rows are sorted by is always shown.
        let rank = |of: ReportSort, usual: u8| if sort == of { 0 } else { usual };
        let mut fields = Vec::from(self.name_fields());
        fields.extend([
            Field::int("run_ns", |row: &ReportRow| row.run_ns)
                .titled("CPU s", 0)
                .shows(|row| seconds(row.run_ns)),
            Field::int("user_ns", |row: &ReportRow| row.user_ns),
            Field::int("system_ns", |row: &ReportRow| row.system_ns),
            Field::real("cpu_pct", |row: &ReportRow| row.cpu_pct)
                .titled("%CPU", 1)
                .shows(|row| decimal(row.cpu_pct, 1)),
        ]);
        if compares {
            fields.push(Field::shown("BEFORE", 2, |row: &ReportRow| {
                decimal(row.before.and_then(|before| before.cpu_pct), 1)
            }));
            fields.push(Field::shown("CHANGE", 0, |row: &ReportRow| signed(row.change_cpu_pct, 1)));
        }
        fields.extend([
            Field::real("share_pct", |row: &ReportRow| row.share_pct)
                .titled("SHARE %", 3)
                .shows(|row| decimal(row.share_pct, 1)),
            Field::real("peak_cpu_pct", |row: &ReportRow| row.peak.map(|peak| peak.ns_per_s as f64 / 1e7))
                .titled("PEAK %", rank(ReportSort::Peak, 4))
                .shows(peak),
            Field::int("peak_end_ns", |row: &ReportRow| row.peak.map(|peak| peak.end_ns))
                .titled("AT", 6)
                .shows(move |row| clock(row.peak.map(|peak| peak.end_ns))),
            Field::int("peak_is_exact", |row: &ReportRow| row.peak.map(|peak| i64::from(peak.is_exact))),
            Field::int("run_delay_ns", |row: &ReportRow| row.run_delay_ns)
                .titled("DELAY s", rank(ReportSort::Ready, 7))
                .shows(|row| seconds(row.run_delay_ns)),
            Field::real("ready_mean", |row: &ReportRow| row.ready_mean)
                .titled("READY", rank(ReportSort::Ready, 11))
                .shows(|row| decimal(row.ready_mean, 3)),
            Field::int("blocked_ns", |row: &ReportRow| row.blocked_ns),
            Field::real("blocked_mean", |row: &ReportRow| row.blocked_mean)
                .titled("BLOCKED", rank(ReportSort::Blocked, 12))
                .shows(|row| decimal(row.blocked_mean, 3)),
            Field::int("voluntary_switches", |row: &ReportRow| row.voluntary_switches),
            Field::int("involuntary_switches", |row: &ReportRow| row.involuntary_switches),
            Field::int("minor_faults", |row: &ReportRow| row.minor_faults),
            Field::int("major_faults", |row: &ReportRow| row.major_faults)
                .titled("MAJFLT", 13)
                .shows(|row| row.major_faults.map_or_else(|| "-".into(), |count| count.to_string())),
        ]);
        if sort == ReportSort::Switches {
            fields.push(Field::shown("SWITCHES", 0, |row: &ReportRow| {
                let both = row.voluntary_switches.zip(row.involuntary_switches);
                both.map_or_else(|| "-".into(), |(one, other)| one.saturating_add(other).to_string())
            }));
        }
        fields.extend(wait_fields());
        fields.extend([
            Field::int("first_ns", |row: &ReportRow| row.first_ns.map(|ns| ns.0))
                .titled("FIRST", rank(ReportSort::First, 9))
                .shows(move |row| clock(row.first_ns.map(|ns| ns.0))),
            Field::int("last_ns", |row: &ReportRow| row.last_ns.map(|ns| ns.0))
                .titled("LAST", rank(ReportSort::Last, 10))
                .shows(move |row| clock(row.last_ns.map(|ns| ns.0))),
            Field::count("duration_ns", |row: &ReportRow| row.duration_ns),
        ]);
        if self.shows_limits() {
            fields.extend(limit_fields());
        }
        if by == ReportBy::Thread {
            // With `pid` the key of the process.
            fields
                .push(Field::int("process_start_ns", |row: &ReportRow| row.process_start_ns.map(|ns| ns.0)));
        }
        if compares {
            fields.extend(change_fields());
        }
        let part = |row: &ReportRow| self.hosts.iter().find(|part| Some(&*part.name) == row.host.as_deref());
        fields.push(Field::shown("OVER TIME", 5, move |row: &ReportRow| line(row, part(row), screen)));
        fields
    }

    /// Rows of control groups always show their limits, rows of tasks only where one of them has a limit.
    fn shows_limits(&self) -> bool {
        let is_limited = |row: &ReportRow| row.limits.is_some_and(|limits| limits.limit.is_limited());
        is_of_cgroups(self.query.by) || self.rows.iter().any(is_limited)
    }

    fn name_fields(&self) -> [ReportField<'static>; 6] {
        let by = self.query.by;
        let mut host = Field::text("host", |row: &ReportRow| Some(row.host.as_deref()?.into()));
        if self.hosts.len() > 1 && by != ReportBy::Host {
            host =
                host.titled("HOST", 0).shows(|row| row.host.as_deref().map_or_else(String::new, name_text));
        }
        let mut pid = Field::int("pid", |row: &ReportRow| row.pid.map(i64::from));
        if let ReportBy::Process | ReportBy::Thread = by {
            pid = pid.titled(if by == ReportBy::Thread { "PID/TID" } else { "PID" }, 0).shows(number);
        }
        [
            host,
            Field::text("kind", |row: &ReportRow| Some(row.kind.name().into())),
            Field::text("name", |row: &ReportRow| Some((&*row.name).into()))
                .titled(heading(by), 0)
                .shows(name),
            pid,
            Field::int("tid", |row: &ReportRow| row.tid.map(i64::from)),
            Field::int("start_ns", |row: &ReportRow| row.start_ns.map(|ns| ns.0)),
        ]
    }
}

/// Columns of the longest wait of a row.
fn wait_fields() -> [ReportField<'static>; 2] {
    let longest = |row: &ReportRow| row.waits.iter().next();
    let words = move |row: &ReportRow, words: fn(WaitReason) -> std::borrow::Cow<'static, str>| {
        longest(row).map_or_else(String::new, |(reason, _)| words(reason).into_owned())
    };
    [
        Field::text("wait", move |row: &ReportRow| Some(longest(row)?.0.name()))
            .titled("WAIT", 8)
            .right()
            .shows(move |row| words(row, WaitReason::words_and_name))
            .or_short(move |row| words(row, WaitReason::words)),
        Field::count("wait_ns", move |row: &ReportRow| longest(row).map(|(_, ns)| ns)),
    ]
}

fn limit_fields() -> [ReportField<'static>; 5] {
    let limited = |row: &ReportRow| row.limits.filter(|limits| limits.limit.is_limited());
    let throttle = move |row: &ReportRow| limited(row).and_then(|limits| limits.throttle);
    let pressure = |row: &ReportRow| row.limits.and_then(|limits| limits.pressure);
    [
        Field::real("cpu_limit", |row: &ReportRow| row.limits.and_then(|limits| limits.limit.cpus()))
            .titled("LIMIT", 2)
            .shows(|row| decimal(row.limits.and_then(|limits| limits.limit.cpus()), 2)),
        Field::count("throttled_ns", |row: &ReportRow| Some(row.limits?.throttle?.throttled_ns))
            .titled("THROTTLED s", 2)
            .shows(move |row| decimal(throttle(row).map(|one| one.throttled_ns as f64 / 1e9), 3)),
        Field::count("throttled_periods", |row: &ReportRow| Some(row.limits?.throttle?.throttled_periods))
            .titled("OF PERIODS %", 3)
            .shows(move |row| decimal(throttle(row).and_then(Throttle::percent), 0)),
        Field::count("periods", |row: &ReportRow| Some(row.limits?.throttle?.periods)),
        Field::count("pressure_some_ns", |row: &ReportRow| Some(row.limits?.pressure?.some_ns))
            .titled("PRESSURE s", 9)
            .shows(move |row| decimal(pressure(row).map(|one| one.some_ns as f64 / 1e9), 3)),
    ]
}

fn change_fields() -> [ReportField<'static>; 6] {
    [
        Field::int("before_run_ns", |row: &ReportRow| row.before?.run_ns),
        Field::real("before_cpu_pct", |row: &ReportRow| row.before?.cpu_pct),
        Field::real("change_cpu_pct", |row: &ReportRow| row.change_cpu_pct),
        Field::int("before_run_delay_ns", |row: &ReportRow| row.before?.run_delay_ns),
        Field::int("before_blocked_ns", |row: &ReportRow| row.before?.blocked_ns),
        Field::count("before_duration_ns", |row: &ReportRow| row.before?.duration_ns),
    ]
}

impl Found {
    /// Columns of search results.
    pub fn fields(screen: Screen) -> [Field<'static, Self>; 10] {
        let clock = move |ns: Option<crate::json::Nanos>| {
            ns.map_or_else(|| "-".to_owned(), |ns| (screen.clock)(ns.0, true))
        };
        [
            Field::text("host", |one: &Self| Some((&*one.host).into())),
            Field::text("kind", |one: &Self| Some(one.kind.name().into())).titled("KIND", 4).right(),
            Field::text("name", |one: &Self| Some((&*one.name).into()))
                .titled("NAME", 0)
                .shows(|one| name_text(&one.name)),
            Field::shown("HOST", 0, |one: &Self| name_text(&one.host)).left(),
            Field::int("first_ns", |one: &Self| one.first_ns.map(|ns| ns.0))
                .titled("FIRST", 2)
                .shows(move |one| clock(one.first_ns)),
            Field::int("last_ns", |one: &Self| one.last_ns.map(|ns| ns.0))
                .titled("LAST", 1)
                .shows(move |one| clock(one.last_ns)),
            Field::count("processes", |one: &Self| one.processes).titled("RUNS", 3),
            Field::int("run_ns", |one: &Self| one.run_ns).titled("CPU s", 0).shows(|one| seconds(one.run_ns)),
            Field::real("share_pct", |one: &Self| one.share_pct)
                .titled("SHARE %", 5)
                .shows(|one| decimal(one.share_pct, 2)),
            Field::text("host_id", |one: &Self| Some(one.host_id.to_string().into())),
        ]
    }
}
