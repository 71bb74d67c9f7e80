//! Charts of the past, filled from [`crate::history`]. `cpumon-export` draws them; the API and the command line ask here, so
//! that both give the same picture.

mod chart;
mod fleet;
mod host;
mod parts;
mod query;
mod tasks;

pub use chart::{
    Bar, BarPart, Body, Chart, HeatmapRow, Hole, HostCharts, Ink, Line, Sparkline, Stroke, Times, first_names,
};
pub use fleet::fleet_heatmap;
pub use parts::{ChartPart, ChartParts, DelayPart, Points, chart_parts};
pub use query::{Cells, ChartQuery, MAX_FINEST_RANGE_NS, Order, Percent, View, check_thread_range};

use self::query::{ChartRequest, hosts_of, rows_of};
use crate::history::{History, Kept};
use crate::hosts::asked_range;
use crate::json::Nanos;
use crate::{QueryError, report};

/// Fills the chart that a query asks for.
pub fn chart(history: &History, query: &ChartQuery) -> Result<Chart, QueryError> {
    if query.view == View::Fleet {
        return fleet::fleet(history, query);
    }
    let host = query::host_of(history, query)?;
    fill(&ChartRequest::new(history, &host, query)?)
}

/// Fills several charts of one host and range: what they share is read once. The view of the query does not count.
pub fn charts(history: &History, query: &ChartQuery, views: &[View]) -> Result<HostCharts, QueryError> {
    let host = query::host_of(history, query)?;
    let mut request = ChartRequest::new(history, &host, query)?;
    let mut charts = Vec::with_capacity(views.len());
    for view in views {
        request.query.view = *view;
        charts.push(fill(&request)?);
    }
    let (since_ns, until_ns) = (Nanos(request.range.since_ns), Nanos(request.range.until_ns));
    let kept = request.available.map(|available| Kept { available, interval_ns: host.info.interval_ns });
    Ok(HostCharts { since_ns, until_ns, kept, cpus: host.info.cpu_count, charts })
}

fn fill(request: &ChartRequest<'_>) -> Result<Chart, QueryError> {
    match request.query.view {
        View::Cpu => host::cpu(request),
        View::Who => host::who(request),
        View::RunQueue => host::run_queue(request),
        View::Tasks => tasks::tasks(request),
        View::States => tasks::states(request),
        View::Delays => tasks::delays(request),
        View::Threads => tasks::threads(request),
        View::Landscape => tasks::landscape(request),
        View::Cpus => host::cpus(request),
        View::Fleet => fleet::fleet(request.history, &request.query),
    }
}

/// Refuses what [`chart`] refuses before it reads what happened: unknown hosts, ranges and rows that cannot be drawn.
pub fn check(history: &History, query: &ChartQuery) -> Result<(), QueryError> {
    let hosts = hosts_of(history, query)?;
    let range = asked_range(history, &hosts, query.since_ns, query.until_ns)?;
    match query.view {
        View::Who => hosts.iter().try_for_each(|host| report::check_range(history, host, query.by(), range)),
        View::Landscape => tasks::rows_by(query).and_then(|_| rows_of(query, 1)).map(drop),
        View::Threads | View::Fleet => rows_of(query, 1).map(drop),
        _ => Ok(()),
    }
}

/// Whether the receiver has something of the range that is not in its store yet: a moment later the picture is another, and the
/// command line, which reads the store, draws that one.
pub fn is_awaited(history: &History, query: &ChartQuery) -> Result<bool, QueryError> {
    // A range without an end ends with the store's newest data, so none is on its way.
    let Some(until_ns) = query.until_ns else { return Ok(false) };
    for host in hosts_of(history, query)? {
        if history.is_awaited(host.info.host, until_ns)? {
            return Ok(true);
        }
    }
    Ok(false)
}
