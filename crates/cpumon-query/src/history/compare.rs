//! Two ranges of one host side by side: the rows that `cpumon export compare` writes.

use cpumon_model::HostStatus;
use cpumon_store::{Query, What};

use super::source::History;
use crate::QueryError;
use crate::compare::{COMPARE_POINTS, Comparison, Side};
use crate::group::GroupBy;
use crate::time::{PlotRange, TimeRange};

/// The two ranges of a comparison.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct CompareRanges {
    /// The range to compare with.
    pub before: TimeRange,
    /// The range whose change is shown.
    pub after: TimeRange,
}

/// Compares two ranges; rows are sorted, the largest change first.
pub fn compare(
    history: &History,
    host: &HostStatus,
    ranges: CompareRanges,
    by: GroupBy,
) -> Result<Comparison, QueryError> {
    let mut comparison = Comparison::new(by);
    for (side, range) in [(Side::Before, ranges.before), (Side::After, ranges.after)] {
        let TimeRange { since_ns, until_ns } = range;
        let plan = history.plan(host.info.host, PlotRange { since_ns, until_ns, points: COMPARE_POINTS })?;
        comparison.read_from(side, plan.resolution);
        let query = Query::new(host.info.host).range(plan.since_ns, plan.until_ns).what(What::Processes);
        history.for_each(&query, plan.resolution, &mut |span| comparison.add(side, span.interval))?;
    }
    comparison.sort();
    Ok(comparison)
}
