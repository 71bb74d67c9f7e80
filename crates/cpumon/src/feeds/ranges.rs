//! Reports of a range for the screens: from a store, or from a receiver's API.

use std::path::Path;

use cpumon_model::HostId;
use cpumon_query::QueryError;
use cpumon_query::history::History;
use cpumon_query::report::{self, Report, ReportBy, ReportQuery, ReportSort};
use cpumon_tui::{FeedError, GroupBy, RangeReport, ReportRequest};

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

/// The report of a host of a receiver.
pub(super) fn of_receiver(
    client: &Client,
    host: HostId,
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
    match client.must::<Report>(&path) {
        Ok(report) => Ok(for_screen(&Report { query, ..report })),
        Err(ClientError::Refused { status: 404, .. }) => Err(no_data(request)),
        Err(error) => Err(FeedError(error.to_string())),
    }
}
