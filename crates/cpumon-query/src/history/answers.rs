//! Answers about a range of time, as the API gives them, and the columns that they may have. Times are ns since the UNIX epoch.

use cpumon_model::{Column, ColumnId, Interval, Kind, Tables, columns, delay_percent};
use cpumon_store::{Gap, Resolution};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::json::{self, Named, Nanos};
use crate::keys::TaskKey;
use crate::time::Available;

/// A value a point; `None`: no data.
pub type Values = Vec<Option<i64>>;

/// Points of a picture, evenly spaced over the range.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BucketTimes {
    /// What was read: `interval`s, or sums of a `minute` or an `hour`.
    #[serde(with = "json::resolution")]
    #[schema(value_type = String)]
    pub resolution: Option<Resolution>,
    /// Start of the first point, as intervals stand.
    #[serde(with = "cpumon_model::nanos")]
    #[schema(value_type = Nanos)]
    pub begin_ns: i64,
    /// From one point to the next.
    pub width_ns: i64,
    /// Measured time in each point; 0: a gap, and every value there is null.
    pub covered_ns: Vec<i64>,
}

impl BucketTimes {
    /// Start of each point.
    pub fn begins_ns(&self) -> impl Iterator<Item = i64> {
        let begin_ns = |at: i64| self.begin_ns.saturating_add(at.saturating_mul(self.width_ns));
        (0_i64..).take(self.covered_ns.len()).map(begin_ns)
    }

    /// Whether anything was measured in the range.
    pub fn is_covered(&self) -> bool {
        self.covered_ns.iter().any(|ns| *ns > 0)
    }
}

/// One column over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SeriesColumn {
    /// Sum in each point; divided by `covered_ns` it is the mean rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum: Option<Vec<Option<i64>>>,
    /// The lowest rate of a single interval, ns per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<Vec<Option<i64>>>,
    /// The highest rate of a single interval, ns per second; of counts, the highest count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Vec<Option<i64>>>,
}

/// Stored data of a host, and its configured interval.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Kept {
    /// Ends of the first and the last interval.
    #[serde(flatten)]
    pub available: Available,
    /// Configured interval of the host, ns: the next one ends this long after `last_ns`. 0: not known.
    pub interval_ns: u64,
}

/// A host over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostSeries {
    /// Start of the range that was asked for.
    pub since_ns: Nanos,
    /// End of the range.
    pub until_ns: Nanos,
    /// Range of the host's data; null: none.
    pub kept: Option<Kept>,
    /// The host runs Windows: its softirq is time in deferred procedure calls, its irq that in interrupt service routines.
    pub is_windows: bool,
    /// The points.
    #[serde(flatten)]
    pub times: BucketTimes,
    /// By name; `busy_ns` is the capacity less idle and steal, `run_queue_ns` the tasks running or ready, integrated over time: divided
    /// by `covered_ns` it is their mean number (and of its highest 1e9 is one task). Sums made before store schema 6 do not keep it.
    #[schema(value_type = HashMap<String, SeriesColumn>)]
    pub columns: Named<SeriesColumn>,
    /// Holes, at most 1000, and points without data that no hole explains; these have the reason `no data`, `before the first data`, or
    /// `after the last data`, where the newest interval ended.
    pub gaps: Vec<Gap>,
}

/// What a line is of.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineKind {
    /// A process.
    Process,
    /// A thread.
    Thread,
    /// All processes of a name.
    Name,
}

/// One task, or all processes of a name, over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Line)]
pub struct TaskLine {
    /// `process`, `thread` or `name`.
    #[schema(value_type = String)]
    pub kind: LineKind,
    /// Key of the task. It is not deserialized, because the text does not say whether it names a process or a thread: lines keep the order of the request.
    #[serde(deserialize_with = "json::unread")]
    #[schema(value_type = Option<String>)]
    pub key: Option<TaskKey>,
    /// Its newest name; null if it did nothing in the range.
    pub name: Option<String>,
    /// Start of the first interval or sum in which it did something, not before it began.
    pub first_ns: Option<Nanos>,
    /// End of the last one, not after it ended.
    pub last_ns: Option<Nanos>,
    /// When it began, by its key; null for names, where the source does not report it, and where no interval of its boot is stored.
    pub began_ns: Option<Nanos>,
    /// End of the interval in which it ended; null if that is not in the range or no longer stored, and for names.
    pub ended_ns: Option<Nanos>,
    /// By name, a value a point: 0 if it was idle or not there, null where nothing was measured. Times and counts are sums;
    /// percentiles of the run delay are those of all delays in the point, the longest run delay is the highest.
    #[schema(value_type = HashMap<String, Vec<Option<i64>>>)]
    pub columns: Named<Values>,
    /// The highest run time of a single interval in each point, ns per second. For a name, all its processes together; where sums were
    /// read, a lower bound: the highest of any one process, and at least the mean of all together.
    pub max_run_ns_per_s: Vec<Option<i64>>,
}

/// Chosen tasks over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Lines {
    /// Start of the range that was asked for.
    pub since_ns: Nanos,
    /// End of the range.
    pub until_ns: Nanos,
    /// The points.
    #[serde(flatten)]
    pub times: BucketTimes,
    /// In the order they were asked for.
    pub lines: Vec<TaskLine>,
    /// Holes, at most 1000, and points without data that no hole explains; these have the reason `no data`, `before the first data`, or
    /// `after the last data`, where the newest interval ended.
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
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct MatrixRow {
    /// Its key; null for processes of a name.
    #[schema(value_type = Option<String>)]
    pub key: Option<TaskKey>,
    /// Its name.
    pub name: String,
    /// Run time in the range.
    pub total_ns: i64,
    /// Start of the first span in which it did something.
    pub first_ns: Nanos,
    /// End of the last one.
    pub last_ns: Nanos,
    /// Life in the range, as far as known: `alive`, `born`, `ended` or `born_ended`.
    pub life: &'static str,
    /// Run time a point: 0 if it was idle or not there, null where nothing was measured.
    pub values: Vec<Option<i64>>,
    /// The highest run time of a single interval in each point, ns per second. For several processes read from sums: the highest of any one
    /// process, and at least the mean of all together.
    pub max: Vec<Option<i64>>,
}

/// Tasks over time, as `sort` says.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Matrix {
    /// Start of the range that was asked for.
    pub since_ns: Nanos,
    /// End of the range.
    pub until_ns: Nanos,
    /// The points.
    #[serde(flatten)]
    pub times: BucketTimes,
    /// All tasks of the range, shown or not.
    pub total: usize,
    /// Those that are shown.
    pub rows: Vec<MatrixRow>,
    /// All others together, run time a point.
    pub other: Vec<Option<i64>>,
    /// Holes, at most 1000, and points without data that no hole explains; these have the reason `no data`, `before the first data`, or
    /// `after the last data`, where the newest interval ended.
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

/// Columns that are the same in all rows of an interval, that have another form in tables, or that repeat what another says.
fn is_shown_elsewhere(column: &Column) -> bool {
    matches!(
        column.id,
        ColumnId::Host
            | ColumnId::BootId
            | ColumnId::BeginUtc
            | ColumnId::EndUtc
            | ColumnId::BeginNs
            | ColumnId::EndNs
            | ColumnId::DeviceEndNs
            | ColumnId::DurationNs
            | ColumnId::Source
            | ColumnId::StartNs
            | ColumnId::V1Ticks
            | ColumnId::IntervalTrust
            | ColumnId::RunDelayHistogram
    )
}

/// What the table of processes has of a thread's process.
fn is_of_process(column: &Column) -> bool {
    matches!(
        column.id,
        ColumnId::ProcessName
            | ColumnId::Pid
            | ColumnId::Uid
            | ColumnId::User
            | ColumnId::Cgroup
            | ColumnId::Container
    )
}

/// The columns of a table that frontends show.
pub fn shown_columns(table: Tables) -> impl Iterator<Item = &'static Column> {
    columns(table).filter(move |column| {
        !is_shown_elsewhere(column) && (table != Tables::THREAD_INTERVAL || !is_of_process(column))
    })
}

/// Whether values of a column add up over time: ns, and counts of what happened.
pub fn summable(column: &Column) -> bool {
    // The agent's own time counts from its start; the longest wait has another reason in each interval.
    let is_other = matches!(column.id, ColumnId::OwnCpuNs | ColumnId::WaitNs);
    let is_count = column.id == ColumnId::Switches || column.unit.is_empty() && column.is_measured_of_tasks();
    column.kind == Kind::Integer && (is_count || column.unit == "ns" && !is_other && !is_extreme(column))
}

/// Whether a column is the highest of something: over time the highest stays, a sum means nothing. Percentiles of the run delay
/// are no sums either.
pub(super) fn is_extreme(column: &Column) -> bool {
    matches!(column.id, ColumnId::LongestRunDelayNs | ColumnId::RunQueueMax)
        || delay_percent(column.id).is_some()
}
