//! `cpumon trace`: records context switches, reports where the time went in a recording, and
//! exports it for other programs.

mod export;
mod record;
mod report;
mod rows;
mod sink;

pub(crate) use export::export;
pub(crate) use record::record;
pub(crate) use report::report;
