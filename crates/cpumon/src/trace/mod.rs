//! `cpumon trace`: records context switches, reports where the time went in a recording,
//! shows it in the browser, and exports it for other programs.

mod delays;
mod export;
mod histogram;
mod path;
mod record;
mod report;
mod series;
mod sink;
mod stored;
mod top;
mod trace_file;
mod view;
mod wakers;

pub(crate) use delays::delays;
pub(crate) use export::export;
pub(crate) use histogram::histogram;
pub(crate) use path::path;
pub(crate) use record::record;
pub(crate) use report::report;
pub(crate) use stored::{get, list, take};
pub(crate) use top::top;
pub(crate) use view::view;
pub(crate) use wakers::wakers;
