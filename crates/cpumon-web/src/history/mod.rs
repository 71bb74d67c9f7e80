//! The past, for pictures. In: a range and how many points fit the screen. Out: lines, matrices and sums of that many points.
//! Why: the receiver has the data and the browser has the pixels; what travels is what can be seen.

mod buckets;
mod compare;
mod cpus;
mod life;
mod lines;
mod matrix;
mod past;
mod rows;
mod series;
mod sum;
mod waits;

pub(crate) use buckets::{Buckets, is_extreme, summable};
pub(crate) use compare::compare;
pub(crate) use cpus::{CpuSum, cpus};
pub(crate) use lines::{Wish, lines, process};
pub(crate) use matrix::{By, landscape, threads};
pub(crate) use past::{Past, Readers};
pub(crate) use rows::{Shown, Sort};
pub(crate) use series::series;
pub(crate) use sum::sum;

/// A range of a host's time line, ns since the UNIX epoch: (since, until].
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) since_ns: i64,
    pub(crate) until_ns: i64,
    /// Points that fit the picture.
    pub(crate) points: usize,
}
