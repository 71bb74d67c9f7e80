//! `cpumon trace`: records context switches, reports where the time went in a recording,
//! shows it in the browser, and exports it for other programs.

mod export;
mod record;
mod report;
mod rows;
mod sink;
mod view;

pub(crate) use export::export;
pub(crate) use record::record;
pub(crate) use report::report;
pub(crate) use view::view;
