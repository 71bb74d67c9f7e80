//! Charts of the past as pictures. In: a [`ChartQuery`]. Out: a chart filled from what `history` reads, drawn by `cpumon-export`.
//! Why: the API's `/charts` and `cpumon export chart` ask here, so that both give the same bytes.

mod cpus;
mod fill;
mod find;
mod fleet;
mod holes;
mod host;
mod matrix;
mod tasks;
mod values;

use std::path::Path;

use axum::http::StatusCode;
use cpumon_export::chart::{Chart, ChartQuery, View, draw};
use cpumon_model::HostStatus;

use crate::history::{Past, Range};
use crate::problem::Problem;

const HOUR_NS: i64 = 3_600_000_000_000;
/// Threads are read one by one: their ranges are no longer than this.
const MAX_THREAD_RANGE_NS: i64 = 24 * HOUR_NS;
/// Intervals are read of no more than this where sums would do.
const MAX_FINEST_RANGE_NS: i64 = 48 * HOUR_NS;

/// A picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// SVG or PNG.
    pub bytes: Vec<u8>,
    /// Why there is nothing to see on it, if so.
    pub empty: Option<String>,
}

/// Why there is no picture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ChartError {
    /// What and why, and what to do.
    text: String,
    /// Something else should have been asked.
    pub is_usage: bool,
}

impl From<Problem> for ChartError {
    fn from(problem: Problem) -> Self {
        let text = match problem.how {
            // What the API's description tells is of no use on a command line.
            Some(how) if !how.contains("/api/") => format!("{} {how}", problem.detail),
            _ => problem.detail,
        };
        Self { text, is_usage: problem.status == StatusCode::BAD_REQUEST }
    }
}

/// Draws a chart of what a store holds.
pub fn chart_of_store(store: &Path, query: &ChartQuery) -> Result<Picture, ChartError> {
    let past = Past::of_store(store)?;
    picture(&past, query).map_err(ChartError::from)
}

/// Draws a chart of the past.
pub(crate) fn picture(past: &Past, query: &ChartQuery) -> Result<Picture, Problem> {
    let chart = if query.view == View::Fleet { fleet::fleet(past, query) } else { of_host(past, query) }?;
    finish(&chart, query)
}

/// Refuses what [`picture`] refuses before it reads what happened: unknown hosts, ranges and rows that cannot be drawn.
pub(crate) fn check(past: &Past, query: &ChartQuery) -> Result<(), Problem> {
    let host = match query.view {
        View::Fleet => find::hosts(past, &query.hosts)?.first().cloned(),
        _ => Some(find::host(past, query)?),
    };
    let kept = host.map(|host| past.kept(host.info.host)).transpose()?.flatten();
    range_of(query, kept.map(|(_, last)| last))?;
    match query.view {
        View::Threads | View::Landscape | View::Fleet => matrix::rows_of(query, 1).map(drop),
        _ => Ok(()),
    }
}

/// Whether the receiver has something of the range that is not in its store yet: a moment later the picture is another, and the one
/// of the command line is that one.
pub(crate) fn is_awaited(past: &Past, query: &ChartQuery) -> Result<bool, Problem> {
    let Some(until_ns) = query.until_ns else { return Ok(false) };
    let hosts = if query.view == View::Fleet {
        find::hosts(past, &query.hosts)?
    } else {
        vec![find::host(past, query)?]
    };
    for host in hosts {
        if past.is_awaited(host.info.host, until_ns)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn of_host(past: &Past, query: &ChartQuery) -> Result<Chart, Problem> {
    let host = find::host(past, query)?;
    let asked = Asked::new(past, &host, query)?;
    match query.view {
        View::Cpu => host::cpu(&asked),
        View::RunQueue => host::run_queue(&asked),
        View::Tasks => tasks::tasks(&asked),
        View::States => tasks::states(&asked),
        View::Delays => tasks::delays(&asked),
        View::Threads => matrix::threads(&asked),
        View::Landscape => matrix::landscape(&asked),
        View::Cpus => cpus::cpus(&asked),
        View::Fleet => fleet::fleet(past, query),
    }
}

/// The range that is asked for: without an end it ends with what is kept, without a begin it is an hour.
fn range_of(query: &ChartQuery, last_ns: Option<i64>) -> Result<(i64, i64), Problem> {
    let until_ns = query.until_ns.or(last_ns).unwrap_or_else(crate::fleet::now_ns);
    let since_ns = query.since_ns.unwrap_or_else(|| until_ns.saturating_sub(HOUR_NS));
    if since_ns >= until_ns || until_ns.checked_sub(since_ns).is_none() {
        let detail = format!("since={since_ns} is not before until={until_ns}, or too long before it.");
        return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
    }
    Ok((since_ns, until_ns))
}

/// Refuses ranges that take too long to read.
fn no_longer_than((since_ns, until_ns): (i64, i64), most_ns: i64, why: &str) -> Result<(), Problem> {
    if until_ns.saturating_sub(since_ns) > most_ns {
        return Err(Problem::new(StatusCode::BAD_REQUEST, why));
    }
    Ok(())
}

/// Intervals in place of sums are not read of any range.
fn can_be_finest(query: &ChartQuery, range: (i64, i64)) -> Result<(), Problem> {
    if query.is_finest {
        no_longer_than(range, MAX_FINEST_RANGE_NS, "Intervals are read of 48 hours at most, else sums.")?;
    }
    Ok(())
}

fn finish(chart: &Chart, query: &ChartQuery) -> Result<Picture, Problem> {
    let bytes = draw(chart, &query.options, query.form)
        .map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(Picture { bytes, empty: chart.empty.clone() })
}

/// A question with all that is needed to answer it.
struct Asked<'a> {
    past: &'a Past,
    host: &'a HostStatus,
    query: &'a ChartQuery,
    since_ns: i64,
    until_ns: i64,
    /// Ends of the first and the last interval that is kept.
    kept: Option<(i64, i64)>,
}

impl<'a> Asked<'a> {
    fn new(past: &'a Past, host: &'a HostStatus, query: &'a ChartQuery) -> Result<Self, Problem> {
        let kept = past.kept(host.info.host)?;
        let (since_ns, until_ns) = range_of(query, kept.map(|(_, last)| last))?;
        Ok(Self { past, host, query, since_ns, until_ns, kept })
    }

    fn range(&self, points: usize) -> Range {
        Range { since_ns: self.since_ns, until_ns: self.until_ns, points }
    }

    fn thread_range(&self, points: usize) -> Result<Range, Problem> {
        no_longer_than(
            (self.since_ns, self.until_ns),
            MAX_THREAD_RANGE_NS,
            "No sums are kept of threads: their ranges are no longer than 24 hours.",
        )?;
        Ok(self.range(points))
    }
}
