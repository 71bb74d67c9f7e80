//! Terminal screens over a [`Feed`]: interactive ([`run`]) or as lines ([`batch()`]). The same screens show this machine, a host of a
//! receiver and any past moment of a store.
//!
//! # Overview
//! [`App`] is all of the state and pure: [`App::on_key`], [`App::on_interval`], [`App::draw`]. What needs the feed it
//! returns as a [`Request`]; [`run`] carries it out. No threads, no clock but the terminal's own waiting.

mod app;
mod batch;
mod cells;
mod columns;
mod export;
mod feed;
mod history;
mod input;
mod options;
mod rows;
mod run;
mod screen;
mod table;
mod text;
mod theme;
mod view;

pub use app::{App, Request};
pub use batch::batch;
pub use columns::{SortColumn, UnknownColumn};
pub use feed::{Feed, FeedError, HistoryPoint, NoMoment, Play, Playback, Subject, TimeWords, find_moment};
pub use history::PLOT_MINUTES;
pub use options::{BatchFormat, BatchOptions, CommandLines, Options, PlotOption, RowOptions, TuiError};
pub use run::{is_utf8_locale, run};
pub use screen::{events_per_sec, losses_of_agent, report_head, report_notes};
pub use table::Columns;
pub use text::ago;
pub use view::{GROUPINGS, Layout, UserFilter};
