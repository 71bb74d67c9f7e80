//! Questions about a range of time: series, lines, matrices and sums, of as many points as fit the picture.

mod answers;
pub(crate) mod buckets;
mod building;
mod columns;
mod compare;
mod cpus;
mod life;
mod lines;
mod matrix;
mod presence;
mod rows;
mod selection;
mod series;
mod short_holes;
mod source;
mod sum;
mod waits;

pub use answers::{
    BucketTimes, HostSeries, Kept, LineKind, Lines, Matrix, MatrixRow, RangeSum, SeriesColumn, TaskLine,
    Values, WaitLine,
};
pub use columns::{process_columns, shown_columns, summable};
pub use compare::{CompareRanges, compare};
pub use cpus::{CpuSum, Cpus, cpus};
pub use lines::{lines, process};
pub use matrix::{landscape, threads};
pub use rows::{MatrixSort, ShownRows};
pub use selection::{Selection, parse_thread_selection};
pub use series::{SeriesOptions, series};
pub use source::History;
pub use sum::{NamedProcess, by_name, sum};
