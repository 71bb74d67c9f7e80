//! Charts as pictures: [`draw`] turns a [`Chart`] into an SVG document or a PNG file.
//!
//! The receiver's API and the command line use this one function, so both give the same bytes. `cpumon-query` fills
//! charts from a store.
//!
//! # Layout
//! `draw` chooses one of `lines` (lines and stacks, sparklines), `heatmap` and `bars`. `frame` has what they share: title, legend,
//! time axis, ranges without data and notes. `axis` finds round values and times. `svg` writes and escapes, and renders the SVG as PNG.
//! `options` reads the colours from `web/src/charts.json`, which the page reads too.
//!
//! # Text from other machines
//! Names of hosts, processes and threads come from other machines. `svg::escape_xml` is the only way for a text into a
//! document.

mod axis;
mod bars;
mod frame;
mod heatmap;
mod lines;
mod options;
mod svg;
#[cfg(test)]
mod tests;

use cpumon_query::charts::{Body, Chart};

use crate::ExportError;
pub use axis::{Zone, ZoneError};
use bars::Segments;
pub use options::{MAX_PIXELS, MIN_PIXELS, PictureForm, RenderOptions, Theme};

/// Draws a chart as a file of the given format. The same chart and options give the same bytes on every machine.
pub fn draw(chart: &Chart, options: &RenderOptions, form: PictureForm) -> Result<Vec<u8>, ExportError> {
    let document = match &chart.body {
        Body::Lines { lines, max } => lines::draw_lines(chart, lines, *max, options),
        Body::Heatmap { rows, cells, max } => heatmap::draw(chart, rows, (*cells, *max), options),
        Body::Bars { bars, parts, rest } => bars::draw(chart, bars, Segments { parts, rest }, options),
        Body::Sparklines { rows, max } => lines::draw_sparklines(chart, rows, *max, options),
    };
    match form {
        PictureForm::Svg => Ok(document.into_bytes()),
        PictureForm::Png => svg::png(&document),
    }
}
