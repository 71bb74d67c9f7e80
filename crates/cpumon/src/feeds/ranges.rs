//! Reports of a range for the screens: from a store, or from a receiver's API.

use std::path::Path;

use cpumon_model::HostId;
use cpumon_query::Answers;
use cpumon_query::history::History;
use cpumon_query::report::{ReportBy, ReportQuery, ReportSort};
use cpumon_tui::{FeedError, GroupBy, RangeReport, ReportRequest};

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

/// The report of a host of a store.
pub(super) fn of_store(path: &Path, host: HostId, request: &ReportRequest) -> Result<RangeReport, FeedError> {
    report(&History::of_store(path).map_err(|error| FeedError(error.to_string()))?, host, request)
}

/// The report of a host of a store or of a receiver.
pub(super) fn report(
    answers: &dyn Answers,
    host: HostId,
    request: &ReportRequest,
) -> Result<RangeReport, FeedError> {
    match answers.report(&[host.to_string()], &query_of(request)) {
        Ok(report) => Ok(for_screen(&report)),
        Err(error) => Err(FeedError(error.with_clock(&when::show))),
    }
}
