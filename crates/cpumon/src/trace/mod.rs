//! `cpumon trace`: records context switches, and reports where the time went in a recording.

mod record;
mod report;
mod rows;
mod sink;

pub(crate) use record::record;
pub(crate) use report::report;
