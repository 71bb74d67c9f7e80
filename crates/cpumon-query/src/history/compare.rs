//! Two ranges of one host side by side: the rows that `cpumon export compare` writes.

use cpumon_model::HostStatus;
use cpumon_store::{Query, What};

use super::source::History;
use crate::QueryError;
use crate::compare::{Comparison, Side};
use crate::group::GroupBy;
use crate::spans::{Span, cut};
use crate::time::TimeRange;

/// The two ranges of a comparison.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct CompareRanges {
    /// The range to compare with.
    pub before: TimeRange,
    /// The range whose change is shown.
    pub after: TimeRange,
}

/// Compares two ranges, each read as a report reads it; rows are sorted, the largest change first.
pub fn compare(
    history: &History,
    host: &HostStatus,
    ranges: CompareRanges,
    by: GroupBy,
) -> Result<Comparison, QueryError> {
    let mut comparison = Comparison::new(by);
    for (side, range) in [(Side::Before, ranges.before), (Side::After, ranges.after)] {
        let cut = cut(range, history.finest(host.info.host, range)?);
        comparison.read_from(side, cut.coarsest());
        for Span { range, resolution } in cut.spans {
            let query =
                Query::new(host.info.host).range(range.since_ns, range.until_ns).what(What::Processes);
            history.for_each(&query, resolution, &mut |span| comparison.add(side, span.interval))?;
        }
    }
    comparison.sort();
    Ok(comparison)
}
