//! Times and ranges of time. All times are ns since the UNIX epoch, on the time line of a host's intervals.

pub use cpumon_store::{TimeRange, wall_now_ns as now_ns};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::json::Nanos;
pub use crate::json::to_ms;

/// A range and the number of points that fit its picture.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PlotRange {
    /// Start: intervals that end after this time are in the range.
    pub since_ns: i64,
    /// End: intervals that end no later than this time are in the range.
    pub until_ns: i64,
    /// Points that fit the picture.
    pub points: usize,
}

impl PlotRange {
    /// The range without its points.
    pub fn time(self) -> TimeRange {
        TimeRange { since_ns: self.since_ns, until_ns: self.until_ns }
    }
}

/// Ends of the first and of the last interval that are stored of a host.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Available {
    /// End of the first interval.
    #[serde(with = "cpumon_model::nanos")]
    #[schema(value_type = Nanos)]
    pub first_ns: i64,
    /// End of the last interval.
    #[serde(with = "cpumon_model::nanos")]
    #[schema(value_type = Nanos)]
    pub last_ns: i64,
}

pub(crate) const SECOND_NS: i64 = 1_000_000_000;
pub(crate) const HOUR_NS: i64 = 3_600 * SECOND_NS;

/// Rows of a long list: those to leave out at the beginning, and those to give at most.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Left out at the beginning.
    pub offset: usize,
    /// Given at most.
    pub limit: usize,
}

impl Page {
    /// All rows.
    pub const ALL: Self = Self { offset: 0, limit: usize::MAX };

    /// The items of the page.
    pub fn of<I: IntoIterator>(self, items: I) -> impl Iterator<Item = I::Item> {
        items.into_iter().skip(self.offset).take(self.limit)
    }
}
