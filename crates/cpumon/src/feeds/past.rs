//! What the screens ask about the past of a host: points of a plot, reports of a range, traces. A store and a receiver answer alike.

use std::fmt::Display;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::time::Duration;

use cpumon_model::{HostId, Interval};
use cpumon_query::history::{BucketTimes, History, HostSeries, Lines, Values};
use cpumon_query::recording::TraceSources;
use cpumon_query::report::ReportQuery;
use cpumon_query::time::{Page, TimeRange};
use cpumon_query::{Answers, TaskKey, TraceRecord, trace_file};
use cpumon_store::{ProcessFilter, Query, Reader, StoreError, What};
use cpumon_tui::{FeedError, HistoryPoint, RangeReport, StoredTrace, Subject};

use crate::client::{Client, ClientError, NOTHING};
use crate::report::for_screen;
use crate::when;

/// Distance of the points that a receiver is asked for, so that an interval of a second has at least one of its own.
const POINT_NS: i64 = 500_000_000;
/// Points of an answer at most.
const MAX_POINTS: i64 = 4000;
/// More points than intervals on the plot, so that sums are read only where intervals are no longer stored.
const PLOT_POINTS: usize = 36_000;
/// How long the key records.
const TRACE_LENGTH: Duration = Duration::from_secs(10);

fn failed(error: impl Display) -> FeedError {
    FeedError(error.to_string())
}

/// What the host or a task did in an interval.
pub(super) fn point_of(interval: &Interval, of: Subject) -> HistoryPoint {
    let host = HistoryPoint::of_host(interval);
    let delta = match of {
        Subject::Host => return host,
        Subject::Task(TaskKey::Process(key)) => interval.process(key).map(|row| row.delta),
        Subject::Task(TaskKey::Thread(key)) => {
            let at = interval.threads.binary_search_by_key(&key, |row| row.key).ok();
            at.and_then(|at| interval.threads.get(at)).map(|row| row.delta)
        }
    };
    HistoryPoint { run_ns: delta.map_or(0, |delta| delta.run_ns), ..host }
}

/// The past of a host of a store, or of one of its tasks.
pub(super) fn points_of_store(
    reader: &Reader,
    host: HostId,
    of: Subject,
    wall_ns: &Range<i64>,
) -> Result<Option<Vec<HistoryPoint>>, FeedError> {
    let failed = |error: StoreError| FeedError(error.with_causes());
    let mut points = Vec::new();
    // The store's range is open at its start and closed at its end.
    let range =
        TimeRange { since_ns: wall_ns.start.saturating_sub(1), until_ns: wall_ns.end.saturating_sub(1) };
    let plan = reader.plan(host, range, PLOT_POINTS).map_err(failed)?;
    let Some(plan) = plan.filter(|plan| plan.since_ns < plan.until_ns) else { return Ok(None) };
    let query = Query::new(host).range(plan.since_ns, plan.until_ns);
    let query = match of {
        Subject::Host => query.what(What::Meta),
        Subject::Task(TaskKey::Process(key)) => query.what(What::Processes).filter(ProcessFilter::Key(key)),
        // A thread's key does not name its process, which the store filters by.
        Subject::Task(TaskKey::Thread(_)) => query,
    };
    reader
        .for_each_segment(&query, plan.resolution, &mut |segment| {
            points.push(point_of(segment.interval, of));
            ControlFlow::Continue(())
        })
        .map_err(failed)?;
    Ok(Some(points))
}

/// The past of a host of a receiver, or of one of its tasks.
pub(super) fn points_of_receiver(
    client: &Client,
    host: HostId,
    of: Subject,
    wall_ns: &Range<i64>,
) -> Result<Option<Vec<HistoryPoint>>, FeedError> {
    let points = (wall_ns.end.saturating_sub(wall_ns.start) / POINT_NS).clamp(1, MAX_POINTS);
    let span = format!("since={}&until={}&points={points}", wall_ns.start, wall_ns.end);
    let path = |answer: &str| format!("/api/v1/hosts/{host}/{answer}&{span}");
    let asked = match of {
        Subject::Host => {
            let path = path("series?columns=capacity_ns,ledger_threads_ns,ledger_exited_ns");
            client.must::<HostSeries>(&path, NOTHING).map(|series| host_points(&series))
        }
        Subject::Task(task) => {
            let which = if matches!(task, TaskKey::Process(_)) { "processes" } else { "threads" };
            let path = path(&format!("lines?columns=run_ns&{which}={task}"));
            client.must::<Lines>(&path, NOTHING).map(|lines| task_points(&lines))
        }
    };
    match asked {
        Ok(points) => Ok(Some(points)),
        // 404: the receiver has nothing of this time, which is not a failure.
        Err(ClientError::Refused { status: 404, .. }) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

fn value(values: Option<&Values>, at: usize) -> Option<i64> {
    values?.get(at).copied().flatten()
}

fn host_points(series: &HostSeries) -> Vec<HistoryPoint> {
    let sums = |name: &str| series.columns.get(name).and_then(|column| column.sum.as_ref());
    let [capacity, threads, exited] = ["capacity_ns", "ledger_threads_ns", "ledger_exited_ns"].map(sums);
    points(&series.times, &|at| {
        let run_ns = value(threads, at)?.saturating_add(value(exited, at).unwrap_or(0));
        Some((run_ns, value(capacity, at).unwrap_or(0)))
    })
}

fn task_points(lines: &Lines) -> Vec<HistoryPoint> {
    let values = lines.lines.first().and_then(|line| line.columns.get("run_ns"));
    points(&lines.times, &|at| Some((value(values, at)?, 0)))
}

/// `value`: run time and capacity of a point; `None` where nothing was measured.
fn points(times: &BucketTimes, value: &dyn Fn(usize) -> Option<(i64, i64)>) -> Vec<HistoryPoint> {
    let moments = times.begins_ns().zip(&times.covered_ns).enumerate();
    let measured = moments.filter_map(|(at, (begin_wall_ns, covered_ns))| {
        let duration_ns = u64::try_from(*covered_ns).ok().filter(|ns| *ns > 0)?;
        let (run_ns, capacity_ns) = value(at)?;
        let end_wall_ns = begin_wall_ns.saturating_add(times.width_ns);
        Some(HistoryPoint { begin_wall_ns, end_wall_ns, duration_ns, capacity_ns, run_ns })
    });
    measured.collect()
}

/// The report of a host of a store.
pub(super) fn report_of_store(
    path: &Path,
    host: HostId,
    query: &ReportQuery,
) -> Result<RangeReport, FeedError> {
    report(&History::of_store(path).map_err(failed)?, host, query)
}

/// The report of a host of a store or of a receiver.
pub(super) fn report(
    answers: &dyn Answers,
    host: HostId,
    query: &ReportQuery,
) -> Result<RangeReport, FeedError> {
    match answers.report(&[host.to_string()], query) {
        Ok(report) => Ok(for_screen(&report)),
        Err(error) => Err(FeedError(error.with_clock(&when::show))),
    }
}

/// Traces of a store; the command plays the file.
pub(super) fn traces_of_store(
    store: &Path,
    host: HostId,
    wall_ns: &Range<i64>,
) -> Result<Vec<StoredTrace>, FeedError> {
    let history = History::of_store(store).map_err(failed)?;
    traces(&history, host, wall_ns, |id| format!("cpumon trace top {}", trace_file(store, id).display()))
}

/// Traces of a receiver; the command fetches the file.
pub(super) fn traces_of_receiver(
    client: &Client,
    host: HostId,
    wall_ns: &Range<i64>,
) -> Result<Vec<StoredTrace>, FeedError> {
    let url = client.url();
    traces(client, host, wall_ns, |id| format!("cpumon trace get {id} --url {url} -o {id}.trace"))
}

fn traces(
    answers: &dyn Answers,
    host: HostId,
    wall_ns: &Range<i64>,
    command: impl Fn(i64) -> String,
) -> Result<Vec<StoredTrace>, FeedError> {
    let range = TimeRange { since_ns: wall_ns.start, until_ns: wall_ns.end };
    let found = answers.traces(&[host.to_string()], range, Page::ALL).map_err(failed)?;
    let shown = |trace: TraceRecord| StoredTrace {
        wall_ns: trace.wall_ns,
        command: command(trace.id),
        reason: trace.reason,
    };
    Ok(found.into_iter().flat_map(|host| host.traces).map(shown).collect())
}

/// Has a receiver record its own machine, or take the last seconds of a device; gives what happens now.
pub(super) fn take_trace<E: Display>(
    sources: TraceSources,
    record: impl FnOnce(Duration) -> Result<(), E>,
    take: impl FnOnce() -> Result<(), E>,
) -> Result<String, FeedError> {
    if sources.can_record {
        record(TRACE_LENGTH).map_err(failed)?;
        Ok("recording every context switch for 10 s; then go back and press v".to_owned())
    } else if sources.can_take {
        take().map_err(failed)?;
        Ok("the host writes its last seconds; go back and press v when they have arrived".to_owned())
    } else {
        Err(FeedError(sources.how))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_becomes_points_and_gaps_stay_gaps() {
        let text = r#"{"since_ns":"0","until_ns":"2500000000","kept":null,"is_windows":false,"resolution":"interval",
            "width_ns":500000000,"begin_ns":"1000000000","covered_ns":[500000000,0,250000000],
            "columns":{"ledger_threads_ns":{"sum":[30,null,7]},"capacity_ns":{"sum":[1000,null,500],"max":[2,null,2]},
            "ledger_exited_ns":{"sum":[5,null,0]}},"gaps":[]}"#;
        let found = host_points(&serde_json::from_str(text).unwrap());
        let point = |begin_ms: i64, covered_ms: u64, capacity_ns, run_ns| HistoryPoint {
            begin_wall_ns: begin_ms * 1_000_000,
            end_wall_ns: (begin_ms + 500) * 1_000_000,
            duration_ns: covered_ms * 1_000_000,
            capacity_ns,
            run_ns,
        };
        assert_eq!(found, [point(1000, 500, 1000, 35), point(2000, 250, 500, 7)]);
    }
}
