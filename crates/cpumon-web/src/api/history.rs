//! The past, for a browser. Filled from the answers of `cpumon_query::history`.

use cpumon_query::history::{SeriesColumn, WaitLine};
use serde::Serialize;
use utoipa::ToSchema;

use super::snapshot::Nanos;
use super::table::{Row, Table};

/// Points of a picture, evenly spaced over the range.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct BucketTimes {
    /// What was read: `interval`s, or sums of a `minute` or an `hour`.
    pub resolution: &'static str,
    /// From one point to the next.
    pub width_ns: i64,
    /// Start of each point, as intervals stand.
    pub t_ms: Vec<f64>,
    /// Measured time in each point; 0: a gap, and every value there is null.
    pub covered_ns: Vec<i64>,
}

/// A hole in a host's time.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = Gap)]
pub struct GapJson {
    /// Start, as intervals stand.
    pub begin_ns: Nanos,
    /// End.
    pub end_ns: Nanos,
    /// Start, for drawing.
    pub begin_ms: f64,
    /// End, for drawing.
    pub end_ms: f64,
    /// Intervals that are known to be missing; 0: not counted.
    pub intervals: u64,
    /// Why: `queue full`, `store full`, `not stored`, `damaged`; `restart`: another boot or agent start; `no data`.
    pub reason: String,
}

/// Answer of `/gaps`.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Gaps {
    /// Holes there are, 10,000 at most.
    pub total: usize,
    /// Those that were asked for.
    pub gaps: Vec<GapJson>,
}

/// What is kept of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Kept {
    /// End of the first interval.
    pub first_ns: Nanos,
    /// End of the last interval.
    pub last_ns: Nanos,
    /// Configured interval of the host, ns: the next one ends this long after `last_ns`. 0: not known.
    pub interval_ns: u64,
}

/// A host over time.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct HostSeries {
    /// The range that was asked for.
    pub since_ns: Nanos,
    /// Its end.
    pub until_ns: Nanos,
    /// What there is.
    pub kept: Option<Kept>,
    /// The host runs Windows: its softirq is time in deferred procedure calls, its irq that in interrupt service routines.
    pub is_windows: bool,
    /// The points.
    #[serde(flatten)]
    pub times: BucketTimes,
    /// By name; `busy_ns` is the capacity less idle and steal, `run_queue_ns` the tasks running or ready, integrated over time: divided
    /// by `covered_ns` it is their mean number (and of its highest 1e9 is one task). Sums made before store schema 6 do not keep it.
    #[schema(value_type = HashMap<String, SeriesColumn>)]
    pub columns: Row<SeriesColumn>,
    /// Holes, at most 1000.
    pub gaps: Vec<GapJson>,
}

/// One task, or all processes of a name, over time.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = Line)]
pub struct LineJson {
    /// `process`, `thread` or `name`.
    pub kind: &'static str,
    /// Key of the task.
    pub key: Option<String>,
    /// Its newest name; null if it did nothing in the range.
    pub name: Option<String>,
    /// Start of the first interval or sum in which it did something, not before it began.
    pub first_ms: Option<f64>,
    /// End of the last one, not after it ended.
    pub last_ms: Option<f64>,
    /// When it began, by its key; null for names, where the source does not report it, and where no interval of its boot is stored.
    pub began_ms: Option<f64>,
    /// End of the interval in which it ended; null if that is not in the range or no longer stored, and for names.
    pub ended_ms: Option<f64>,
    /// By name, a value a point: 0 if it was idle or not there, null where nothing was measured. Times and counts are sums;
    /// percentiles of the run delay are those of all delays in the point, the longest run delay is the highest.
    #[schema(value_type = HashMap<String, Vec<Option<i64>>>)]
    pub columns: Row<Vec<Option<i64>>>,
    /// The highest run time of a single interval in each point, ns per second. Of a name: of all its processes together; where
    /// sums were read, at least that of one of them and their mean.
    pub max_run_ns_per_s: Vec<Option<i64>>,
}

/// Answer of `/lines`.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Lines {
    /// The range that was asked for.
    pub since_ns: Nanos,
    /// Its end.
    pub until_ns: Nanos,
    /// The points.
    #[serde(flatten)]
    pub times: BucketTimes,
    /// In the order processes, threads, names.
    pub lines: Vec<LineJson>,
    /// Holes, at most 1000.
    pub gaps: Vec<GapJson>,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ProcessThen)]
pub struct ProcessJson {
    /// Its key.
    pub key: String,
    /// Process id.
    pub pid: u32,
    /// Parent's pid; 0 for none.
    pub parent_pid: u32,
    /// Base name of the script that it runs, else of its executable, else the main thread's name.
    pub name: String,
    /// Base name of the executable that runs the script; empty where the name is the executable's.
    pub interpreter: String,
    /// The main thread's name.
    pub comm: String,
    /// Command line, only if the agent is set to send it.
    pub cmdline: String,
    /// cgroup path.
    pub cgroup: String,
    /// Container or unit name.
    pub container: String,
    /// Real user id.
    pub uid: u32,
    /// Name of that user on its host; empty if not known.
    pub user: String,
    /// Session on Windows: 0 is that of services; null on other systems.
    pub session: Option<u32>,
    /// Priority class on Windows; a base priority that belongs to no class, as a number; null on other systems.
    pub priority_class: Option<String>,
    /// Product name in the version resource of its executable on Windows; null: none, or another system.
    pub product: Option<String>,
    /// A kernel thread.
    pub is_kernel: bool,
}

/// A process over time.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ProcessLine {
    /// What it is.
    pub process: ProcessJson,
    /// What it did; one line.
    #[serde(flatten)]
    pub lines: Lines,
    /// What it was blocked by, the longest first; empty where waits were not measured (sums of a minute do not keep them).
    pub waits: Vec<WaitLine>,
}

/// One task over time.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct MatrixRow {
    /// Its key; null for processes of a name.
    pub key: Option<String>,
    /// Its name.
    pub name: String,
    /// Run time in the range.
    pub total_ns: i64,
    /// Start of the first span in which it did something.
    pub first_ms: f64,
    /// End of the last one.
    pub last_ms: f64,
    /// What is known of its life in the range: `alive`, `born`, `ended`, `born_ended`.
    pub life: &'static str,
    /// Run time a point: 0 if it was idle or not there, null where nothing was measured.
    pub values: Vec<Option<i64>>,
    /// Its highest single interval in each point, ns per second. Of several processes over sums: the highest of any of them, but not
    /// less than the mean of all.
    pub max: Vec<Option<i64>>,
}

/// Tasks over time, as `sort` says.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Matrix {
    /// The range that was asked for.
    pub since_ns: Nanos,
    /// Its end.
    pub until_ns: Nanos,
    /// The points.
    #[serde(flatten)]
    pub times: BucketTimes,
    /// Tasks there are.
    pub total: usize,
    /// Those that are shown.
    pub rows: Vec<MatrixRow>,
    /// All others together, run time a point.
    pub other: Vec<Option<i64>>,
    /// Holes, at most 1000.
    pub gaps: Vec<GapJson>,
}

/// A span of time as if it were one interval.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = Sum)]
pub struct SumJson {
    /// The range that was asked for.
    pub since_ns: Nanos,
    /// Its end.
    pub until_ns: Nanos,
    /// What was read: `interval`s, or sums of a `minute` or an `hour`, with single intervals at both ends where these are stored.
    pub resolution: &'static str,
    /// Measured time; rates divide by it.
    pub covered_ns: u64,
    /// Ledger and CPU modes, summed.
    pub summary: Row,
    /// A row a process or a name, most run time first.
    pub processes: Table,
    /// Threads of the processes that were asked for, a table each.
    pub threads: Vec<Table>,
}

/// Two spans side by side.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = Compare)]
pub struct CompareJson {
    /// Start and end of the first span, as asked for.
    pub before: [Nanos; 2],
    /// Of the second.
    pub after: [Nanos; 2],
    /// Measured time of the first span, ns; 0: it holds no data.
    pub before_covered_ns: u64,
    /// Of the second.
    pub after_covered_ns: u64,
    /// A row a group, the largest change first, with the columns of `cpumon export compare` (docs/export.md).
    pub rows: Table,
}
