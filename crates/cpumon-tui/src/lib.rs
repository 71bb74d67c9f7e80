//! Terminal screens over a [`Feed`]. In: intervals and keys. Out: a screen ([`run`]) or lines ([`batch`]).
//! Why: one and the same screen shows this machine, a host of a receiver and any past moment of a store.
//!
//! # Overview
//! [`App`] is all of the state and pure: [`App::on_key`], [`App::on_interval`], [`App::draw`]. What needs the feed it
//! returns as a [`Request`]; [`run`] carries it out. No threads, no clock but the terminal's own waiting.

mod app;
mod bars;
mod batch;
mod batch_json;
mod cells;
mod columns;
mod cursor;
mod detail;
mod export;
mod feed;
mod grid;
mod groups;
mod header;
mod help;
mod history;
mod hosts;
mod keys;
mod ledger;
mod options;
mod order;
mod plot;
mod rows;
#[cfg(test)]
mod rows_props;
mod run;
mod screen;
mod text;
mod theme;
mod tree;
mod view;

pub use app::{App, Request};
pub use batch::batch;
pub use feed::{Feed, FeedError, HistoryPoint, Play, Playback, Seek, Task};
pub use options::{BatchFormat, BatchOptions, Options, TuiError};
pub use run::run;
