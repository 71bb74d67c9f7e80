//! Terminal screens over a [`Feed`]: interactive ([`run`]) or as lines ([`batch()`]). The same screens show this machine, a host of a
//! receiver and any past moment of a store.
//!
//! # Overview
//! [`App`] is all of the state and pure: [`App::on_key`], [`App::on_interval`], [`App::draw`]. What needs the feed it
//! returns as a [`Request`]; [`run`] carries it out. No threads, no clock but the terminal's own waiting.

mod app;
mod batch;
mod columns;
mod csv;
mod feed;
mod fit;
mod history;
mod input;
mod moment;
mod options;
mod report;
mod rows;
mod run;
mod screen;
mod text;
mod theme;
mod users;
mod view;

pub use app::{App, PLOT_MINUTES, Request};
pub use batch::batch;
pub use columns::{SortColumn, UnknownColumn};
pub use feed::{Feed, FeedError, HistoryPoint, Play, Playback, StoredTrace, Subject};
pub use fit::{WantedColumn, fit_columns};
pub use moment::{NoMoment, find_moment};
pub use options::{
    Arrangement, BatchFormat, BatchOptions, CommandLines, Options, PlotOption, RowOptions, TuiError,
};
pub use report::{RangeReport, ReportColumn, ReportRow};
pub use run::{is_utf8_locale, run};
pub use screen::losses_of_agent;
pub use text::ago;
pub use view::{GROUPINGS, UserFilter};
