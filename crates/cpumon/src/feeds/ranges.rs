//! Reports of a range for the screens: from a store, or from a receiver's API.

use std::path::Path;

use cpumon_model::{CpuLimit, Delta, Fields, GroupLimits, HostId, Pressure, Throttle, WaitReason};
use cpumon_query::QueryError;
use cpumon_query::history::{BucketTimes, History};
use cpumon_query::report::{
    self, HostPart, Peak, Report, ReportBy, ReportQuery, ReportRow, ReportSort, RowKind, Wait,
};
use cpumon_query::time::TimeRange;
use cpumon_tui::{FeedError, GroupBy, RangeReport, ReportRequest};
use serde::Deserialize;
use serde_json::Value;

use crate::api_table::ApiTable;
use crate::client::{Client, ClientError};
use crate::report::for_screen;
use crate::when;

/// Rows of a report at most; all others are one row.
const MAX_ROWS: usize = 100;

fn query_of(request: &ReportRequest) -> ReportQuery {
    ReportQuery {
        since_ns: Some(request.wall_ns.start),
        until_ns: Some(request.wall_ns.end),
        by: match request.by {
            GroupBy::Program => ReportBy::Program,
            GroupBy::User => ReportBy::User,
            GroupBy::Service => ReportBy::Service,
            GroupBy::Container => ReportBy::Container,
        },
        sort: match request.sort {
            cpumon_tui::ReportSort::Cpu => ReportSort::Cpu,
            cpumon_tui::ReportSort::Ready => ReportSort::Ready,
            cpumon_tui::ReportSort::Blocked => ReportSort::Blocked,
            cpumon_tui::ReportSort::Switches => ReportSort::Switches,
        },
        limit: MAX_ROWS,
        ..ReportQuery::default()
    }
}

fn no_data(request: &ReportRequest) -> FeedError {
    let (since, until) = (when::show(request.wall_ns.start), when::show(request.wall_ns.end));
    FeedError(format!("no data for {since} to {until}"))
}

/// The report of a host of a store.
pub(super) fn of_store(path: &Path, host: HostId, request: &ReportRequest) -> Result<RangeReport, FeedError> {
    let made = History::of_store(path).and_then(|history| {
        let host = history.find(&host.to_string())?;
        report::report(&history, &[host], &query_of(request))
    });
    match made {
        Ok(report) => Ok(for_screen(&report)),
        Err(QueryError::NoData { .. }) => Err(no_data(request)),
        Err(error) => Err(FeedError(error.to_string())),
    }
}

/// The API's answer.
#[derive(Deserialize)]
struct Answer {
    since_ns: String,
    until_ns: String,
    duration_ns: u64,
    used_ns: i64,
    total: usize,
    t_ms: Vec<f64>,
    width_ns: i64,
    covered_ns: Vec<i64>,
    rows: ApiTable,
    points: Vec<Vec<Option<i64>>>,
}

/// The report of a host of a receiver.
pub(super) fn of_receiver(
    client: &Client,
    host: HostId,
    name: &str,
    request: &ReportRequest,
) -> Result<RangeReport, FeedError> {
    let query = query_of(request);
    let path = format!(
        "/api/v1/hosts/{host}/report?since={}&until={}&by={}&sort={}&limit={MAX_ROWS}",
        request.wall_ns.start,
        request.wall_ns.end,
        query.by.name(),
        query.sort.name()
    );
    match client.must::<Answer>(&path) {
        Ok(answer) => Ok(for_screen(&read(host, name, query, &answer))),
        Err(ClientError::Refused { status: 404, .. }) => Err(no_data(request)),
        Err(error) => Err(FeedError(error.to_string())),
    }
}

/// The report that the receiver made.
fn read(host: HostId, name: &str, query: ReportQuery, answer: &Answer) -> Report {
    let moment = |text: &str, other: Option<i64>| text.parse().ok().or(other).unwrap_or_default();
    let range = TimeRange {
        since_ns: moment(&answer.since_ns, query.since_ns),
        until_ns: moment(&answer.until_ns, query.until_ns),
    };
    #[expect(clippy::cast_possible_truncation, reason = "a float beyond i64 saturates")]
    let begin_ns = answer.t_ms.iter().map(|ms| (ms * 1e6) as i64).collect();
    // As its rows name it: the list of hosts lacks those that only the store has.
    let name = answer.rows.cell("host", 0).and_then(Value::as_str).unwrap_or(name);
    let part = HostPart {
        host,
        name: name.into(),
        range,
        resolution: None,
        covered_ns: answer.duration_ns,
        used_ns: answer.used_ns,
        times: BucketTimes {
            resolution: None,
            width_ns: answer.width_ns,
            begin_ns,
            covered_ns: answer.covered_ns.clone(),
        },
        used: Vec::new(),
    };
    Report {
        range: TimeRange {
            since_ns: query.since_ns.unwrap_or(range.since_ns),
            until_ns: query.until_ns.unwrap_or(range.until_ns),
        },
        query,
        before: None,
        hosts: vec![part],
        total: answer.total,
        used_ns: answer.used_ns,
        rows: (0..answer.rows.rows).map(|at| row(answer, at)).collect(),
    }
}

fn row(answer: &Answer, at: usize) -> ReportRow {
    let text = |name| answer.rows.cell(name, at).and_then(Value::as_str);
    // Moments are text.
    let int = |name| {
        answer.rows.cell(name, at).and_then(|value| value.as_i64().or_else(|| value.as_str()?.parse().ok()))
    };
    let real = |name| answer.rows.cell(name, at).and_then(Value::as_f64);
    let mut fields = Fields::empty();
    let mut known = |name, field: Fields| int(name).inspect(|_| fields |= field).unwrap_or(0);
    let delta = Delta {
        run_ns: known("run_ns", Fields::RUN),
        user_ns: known("user_ns", Fields::USER),
        system_ns: known("system_ns", Fields::SYSTEM),
        run_delay_ns: known("run_delay_ns", Fields::RUN_DELAY),
        voluntary_switches: known("voluntary_switches", Fields::SWITCHES),
        involuntary_switches: known("involuntary_switches", Fields::SWITCHES),
    };
    let wait = text("wait").and_then(wait_named).zip(int("wait_ns"));
    let peak = real("peak_cpu_pct").zip(int("peak_end_ns"));
    ReportRow {
        host: text("host").map(Into::into),
        kind: match text("kind") {
            Some("short-lived") => RowKind::Short,
            Some("rest") => RowKind::Rest,
            Some("not attributed") => RowKind::Unattributed,
            _ => RowKind::Group,
        },
        name: text("name").unwrap_or_default().into(),
        task: None,
        pid: int("pid").and_then(|pid| u32::try_from(pid).ok()),
        process_start_ns: None,
        delta,
        blocked_ns: int("blocked_ns"),
        wait: wait.map(|(reason, ns)| Wait { reason, ns: ns.unsigned_abs() }),
        peak: peak.map(|(pct, end_ns)| {
            #[expect(clippy::cast_possible_truncation, reason = "a float beyond i64 saturates")]
            let ns_per_s = (pct * 1e7).round() as i64;
            Peak { ns_per_s, end_ns, is_exact: int("peak_is_exact") != Some(0) }
        }),
        first_ns: int("first_ns"),
        last_ns: int("last_ns"),
        points: answer.points.get(at).cloned().unwrap_or_default(),
        covered_ns: int("duration_ns").and_then(|ns| u64::try_from(ns).ok()).unwrap_or(0),
        used_ns: answer.used_ns,
        fields,
        before: None,
        limits: limits(answer, at),
    }
}

/// What limits the control groups of a row; `None`: not known, or rows of another kind.
fn limits(answer: &Answer, at: usize) -> Option<GroupLimits> {
    let count = |name| answer.rows.cell(name, at).and_then(Value::as_u64);
    let cpus = answer.rows.cell("cpu_limit", at).and_then(Value::as_f64);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float outside of u64 saturates"
    )]
    let limit = cpus.map(|cpus| CpuLimit::Millionths((cpus * 1e6).round() as u64));
    let throttle = count("periods").zip(count("throttled_periods")).zip(count("throttled_ns"));
    let throttle = throttle.map(|((periods, throttled_periods), throttled_ns)| Throttle {
        periods,
        throttled_periods,
        throttled_ns,
    });
    let pressure = count("pressure_some_ns").map(|some_ns| Pressure { some_ns, full_ns: 0 });
    // The API does not set no limit and one that is not known apart: neither has a number.
    let is_known = limit.is_some() || throttle.is_some() || pressure.is_some();
    is_known.then(|| GroupLimits { limit: limit.unwrap_or(CpuLimit::Unlimited), throttle, pressure })
}

/// The wait reason of this name.
fn wait_named(name: &str) -> Option<WaitReason> {
    (0..=u16::MAX).map(WaitReason).find(|reason| reason.name() == name)
}
