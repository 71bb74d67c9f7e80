//! Questions about a range of time: series, lines, matrices and sums, of as many points as fit the picture.

mod answers;
pub(crate) mod buckets;
mod lines;
mod matrix;
mod past;
mod plot;
mod series;
mod sum;
mod task_line;

pub use answers::{
    BucketTimes, HostSeries, Kept, LineKind, Lines, Matrix, MatrixRow, RangeSum, SeriesColumn, TaskLine,
    Values, WaitLine, process_columns, shown_columns, summable,
};
pub use lines::{lines, process};
pub use matrix::{MatrixSort, ShownRows, landscape, threads};
pub use past::{History, ReaderPool};
pub(crate) use plot::AFTER_LAST;
pub use series::{SeriesOptions, series};
pub use sum::{CpuSum, Cpus, IntervalSum, NamedProcess, add_process, by_name, cpus, sum};
pub use task_line::{Selection, parse_thread_selection};
