//! Points of a plot: of intervals, and of the API's series.

use std::ops::Range;

use cpumon_model::{HostId, Interval};
use cpumon_query::TaskKey;
use cpumon_query::history::{BucketTimes, Values};
use cpumon_tui::{FeedError, HistoryPoint, Subject};
use serde::Deserialize;

use crate::client::{Client, ClientError, NOTHING};

/// Distance of the points that a receiver is asked for, so that an interval of a second has at least one of its own.
const POINT_NS: i64 = 500_000_000;
/// Points of an answer at most.
const MAX_POINTS: i64 = 4000;

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

#[derive(Deserialize)]
struct Sums {
    sum: Option<Values>,
}

/// Of the answer of `/series`: what the plot needs.
#[derive(Deserialize)]
struct Series {
    #[serde(flatten)]
    times: BucketTimes,
    columns: HostColumns,
}

#[derive(Deserialize)]
struct HostColumns {
    #[serde(rename = "capacity_ns")]
    capacity: Option<Sums>,
    #[serde(rename = "ledger_threads_ns")]
    threads: Option<Sums>,
    #[serde(rename = "ledger_exited_ns")]
    exited: Option<Sums>,
}

/// Of the answer of `/lines`.
#[derive(Deserialize)]
struct Lines {
    #[serde(flatten)]
    times: BucketTimes,
    lines: Vec<Line>,
}

#[derive(Deserialize)]
struct Line {
    columns: LineColumns,
}

#[derive(Deserialize)]
struct LineColumns {
    run_ns: Option<Values>,
}

/// The past of a host of a receiver, or of one of its tasks.
pub(super) fn of_receiver(
    client: &Client,
    host: HostId,
    of: Subject,
    wall_ns: &Range<i64>,
) -> Result<Option<Vec<HistoryPoint>>, FeedError> {
    let points = (wall_ns.end.saturating_sub(wall_ns.start) / POINT_NS).clamp(1, MAX_POINTS);
    let span = format!("since={}&until={}&points={points}", wall_ns.start, wall_ns.end);
    let asked = match of {
        Subject::Host => client
            .must::<Series>(
                &format!(
                    "/api/v1/hosts/{host}/series?{span}&columns=capacity_ns,ledger_threads_ns,ledger_exited_ns"
                ),
                NOTHING,
            )
            .map(|answer| host_points(&answer)),
        Subject::Task(task) => {
            let which = match task {
                TaskKey::Process(key) => format!("processes={}-{}", key.pid, key.start_ns),
                TaskKey::Thread(key) => format!("threads={}-{}", key.tid, key.start_ns),
            };
            let path = format!("/api/v1/hosts/{host}/lines?{span}&columns=run_ns&{which}");
            client.must::<Lines>(&path, NOTHING).map(|answer| task_points(&answer))
        }
    };
    match asked {
        Ok(points) => Ok(Some(points)),
        // 404: the receiver has nothing of this time, which is not a failure.
        Err(ClientError::Refused { status: 404, .. }) => Ok(None),
        Err(error) => Err(FeedError(error.to_string())),
    }
}

fn host_points(answer: &Series) -> Vec<HistoryPoint> {
    let sums = |column: &Option<Sums>| column.as_ref().and_then(|column| column.sum.clone());
    let columns = &answer.columns;
    let [capacity, threads, exited] =
        [&columns.capacity, &columns.threads, &columns.exited].map(|column| sums(column).unwrap_or_default());
    let value = |values: &Values, at: usize| values.get(at).copied().flatten();
    points(&answer.times, &|at| {
        let run_ns = value(&threads, at)?.saturating_add(value(&exited, at).unwrap_or(0));
        Some((run_ns, value(&capacity, at).unwrap_or(0)))
    })
}

fn task_points(answer: &Lines) -> Vec<HistoryPoint> {
    let Some(values) = answer.lines.first().and_then(|line| line.columns.run_ns.as_ref()) else {
        return Vec::new();
    };
    points(&answer.times, &|at| Some((values.get(at).copied().flatten()?, 0)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_becomes_points_and_gaps_stay_gaps() {
        let text = r#"{"since_ns":"0","kept":null,"resolution":"interval","width_ns":500000000,"begin_ns":"1000000000",
            "covered_ns":[500000000,0,250000000],"columns":{"ledger_threads_ns":{"sum":[30,null,7]},
            "capacity_ns":{"sum":[1000,null,500],"max":[2,null,2]},"ledger_exited_ns":{"sum":[5,null,0]}},"gaps":[]}"#;
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
