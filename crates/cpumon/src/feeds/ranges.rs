//! Reports of a range for the screens: from a store, or from a receiver's API.

use std::path::Path;

use cpumon_model::HostId;
use cpumon_query::Answers;
use cpumon_query::history::History;
use cpumon_query::report::ReportQuery;
use cpumon_tui::{FeedError, RangeReport};

use crate::report::for_screen;
use crate::when;

/// The report of a host of a store.
pub(super) fn of_store(path: &Path, host: HostId, query: &ReportQuery) -> Result<RangeReport, FeedError> {
    report(&History::of_store(path).map_err(|error| FeedError(error.to_string()))?, host, query)
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
