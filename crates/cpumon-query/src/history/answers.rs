//! Answers about a range of time, as plain structs. Times are ns since the UNIX epoch.

use cpumon_model::Interval;
use cpumon_store::{Gap, Resolution};
use serde::Serialize;
use utoipa::ToSchema;

use crate::keys::TaskKey;
use crate::time::Available;

/// A value a point; `None`: no data.
pub type Values = Vec<Option<i64>>;

/// Points of a picture, evenly spaced over the range.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BucketTimes {
    /// What was read: `None`: intervals, else sums of a minute or an hour.
    pub resolution: Option<Resolution>,
    /// From one point to the next, ns.
    pub width_ns: i64,
    /// Start of each point.
    pub begin_ns: Vec<i64>,
    /// Measured time in each point; 0: a gap, and every value there is `None`.
    pub covered_ns: Vec<i64>,
}

impl BucketTimes {
    /// Whether anything was measured in the range.
    #[must_use]
    pub fn is_covered(&self) -> bool {
        self.covered_ns.iter().any(|ns| *ns > 0)
    }
}

/// `interval`, `minute` or `hour`.
#[must_use]
pub fn resolution_name(resolution: Option<Resolution>) -> &'static str {
    resolution.map_or("interval", Resolution::name)
}

/// One column over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct SeriesColumn {
    /// What came together in each point; divided by `covered_ns` it is the mean rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum: Option<Vec<Option<i64>>>,
    /// The lowest rate of a single interval, ns per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<Vec<Option<i64>>>,
    /// The highest rate of a single interval, ns per second; of counts, the highest count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Vec<Option<i64>>>,
}

/// A host over time.
#[derive(Clone, Debug, PartialEq)]
pub struct HostSeries {
    /// What there is of the host.
    pub available: Option<Available>,
    /// The points.
    pub times: BucketTimes,
    /// By name; `busy_ns` is the capacity less idle and steal.
    pub columns: Vec<(&'static str, SeriesColumn)>,
    /// Gaps, at most 1000.
    pub gaps: Vec<Gap>,
}

/// What a line is of.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// A process.
    Process,
    /// A thread.
    Thread,
    /// All processes of a name.
    Name,
}

impl LineKind {
    /// `process`, `thread`, `name`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Thread => "thread",
            Self::Name => "name",
        }
    }
}

/// One task, or all processes of a name, over time.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskLine {
    /// What it is of.
    pub kind: LineKind,
    /// Key of the task; `None` of a name.
    pub key: Option<TaskKey>,
    /// Its newest name; `None` if it did nothing in the range.
    pub name: Option<String>,
    /// Start of the first interval or sum in which it did something, not before it began.
    pub first_ns: Option<i64>,
    /// End of the last one, not after it ended.
    pub last_ns: Option<i64>,
    /// When it began, by its key.
    pub began_ns: Option<i64>,
    /// End of the interval in which it ended.
    pub ended_ns: Option<i64>,
    /// By name: 0 where it was idle, `None` where nothing was measured or it was not there.
    pub columns: Vec<(&'static str, Values)>,
    /// The highest run time of a single interval in each point, ns per second.
    pub max_run_ns_per_s: Values,
}

/// Chosen tasks over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    /// The points.
    pub times: BucketTimes,
    /// In the order they were asked for.
    pub lines: Vec<TaskLine>,
    /// Gaps, at most 1000.
    pub gaps: Vec<Gap>,
}

/// What a process was blocked by, over time.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct WaitLine {
    /// A system call, `disk`, `page fault`, …; `other` has all that have no line of their own.
    pub reason: String,
    /// Blocked time in the range, summed over threads.
    pub total_ns: i64,
    /// Blocked time a point: 0 if it was not blocked by it, null where waits were not measured.
    pub values: Vec<Option<i64>>,
}

/// One task of a matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct MatrixRow {
    /// Its key; `None` for processes of a name.
    pub key: Option<TaskKey>,
    /// Its name.
    pub name: String,
    /// Run time in the range.
    pub total_ns: i64,
    /// Start of the first span in which it did something.
    pub first_ns: i64,
    /// End of the last one.
    pub last_ns: i64,
    /// What is known of its life in the range: `alive`, `born`, `ended`, `born_ended`.
    pub life: &'static str,
    /// Run time a point: 0 where it was idle, `None` where nothing was measured or it was not there.
    pub values: Values,
    /// Its highest single interval in each point, ns per second.
    pub max: Values,
}

/// Tasks over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// The points.
    pub times: BucketTimes,
    /// All tasks of the range, shown or not.
    pub total: usize,
    /// Those that are shown.
    pub rows: Vec<MatrixRow>,
    /// All others together, run time a point.
    pub other: Values,
    /// Gaps, at most 1000.
    pub gaps: Vec<Gap>,
}

/// A span of time as if it were one interval.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeSum {
    /// What was read: `None`: intervals, else sums of a minute or an hour.
    pub resolution: Option<Resolution>,
    /// The sum; its length is the measured time.
    pub interval: Interval,
}
