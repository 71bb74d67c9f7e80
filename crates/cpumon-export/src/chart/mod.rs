//! Charts as pictures: [`draw`] turns a [`Chart`](cpumon_query::charts::Chart) into an SVG document or a PNG file.
//!
//! The receiver's API and the command line use this one function, so both give the same bytes. `cpumon-query` fills
//! charts from a store.
//!
//! # Layout
//! `draw` chooses one of `lines` (lines and stacks), `heatmap`, `bars` and `sparklines`. `frame` has what they share: title,
//! time axis, ranges without data and notes. `svg` writes and escapes, `png` renders the SVG. `palette` reads the colours
//! from `web/src/charts.json`, which the page reads too.
//!
//! # Text from other machines
//! Names of hosts, processes and threads come from other machines. `svg::escape_xml` is the only way for a text into a
//! document.

mod axis;
mod bars;
mod draw;
mod frame;
mod geometry;
mod heatmap;
mod legend;
mod lines;
mod options;
mod palette;
mod png;
mod sparklines;
mod svg;
#[cfg(test)]
mod tests;
mod text;
mod zone;

pub use draw::draw;
pub use options::{MAX_PIXELS, MIN_PIXELS, PictureForm, RenderOptions, Theme};
pub use zone::{Zone, ZoneError};

// What is drawn.
use cpumon_query::charts as data;
