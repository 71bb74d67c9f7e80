//! Charts as pictures: [`draw`] turns a [`Chart`] into an SVG document or a PNG file.
//!
//! The receiver's API and the command line use this one function, so both give the same bytes. [`ChartQuery`] says which
//! chart to draw; reading the values from a store is not done here.
//!
//! # Layout
//! `draw` chooses one of `lines` (lines and stacks), `heatmap`, `bars` and `sparklines`. `frame` has what they share: title,
//! time axis, ranges without data and notes. `svg` writes and escapes, `png` renders the SVG. `palette` reads the colours and
//! the parts of stacks from `web/src/charts.json`, which the page reads too.
//!
//! # Text from other machines
//! Names of hosts, processes and threads come from other machines. `svg::escape_xml` is the only way for a text into a
//! document.

mod axis;
mod bars;
mod data;
mod draw;
mod frame;
mod geometry;
mod heatmap;
mod legend;
mod lines;
mod palette;
mod png;
mod query;
mod sparklines;
mod svg;
#[cfg(test)]
mod tests;
mod text;
mod zone;

pub use data::{Bar, BarPart, Body, Chart, HeatmapRow, Hole, Ink, Line, Sparkline, Stroke, Times};
pub use draw::draw;
pub use palette::{DelayPart, Part, Points, delays, ledger, modes, points, states};
pub use query::{
    By, Cells, ChartQuery, MAX_PIXELS, MIN_PIXELS, Order, Percent, PictureForm, RenderOptions, Theme, View,
};
pub use zone::{Zone, ZoneError};
