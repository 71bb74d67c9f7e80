//! [`draw`]: a chart as the bytes of a picture.

use super::bars::Segments;
use super::data::{Body, Chart};
use super::options::{PictureForm, RenderOptions};
use super::{bars, heatmap, lines, png, sparklines};
use crate::ExportError;

/// Draws a chart as a file of the given format. The same chart and options give the same bytes on every machine.
pub fn draw(chart: &Chart, options: &RenderOptions, form: PictureForm) -> Result<Vec<u8>, ExportError> {
    let document = match &chart.body {
        Body::Lines { lines, max } => lines::draw(chart, lines, *max, options),
        Body::Heatmap { rows, max } => heatmap::draw(chart, rows, *max, options),
        Body::Bars { bars, parts, rest } => bars::draw(chart, bars, Segments { parts, rest }, options),
        Body::Sparklines { rows, max } => sparklines::draw(chart, rows, *max, options),
    };
    match form {
        PictureForm::Svg => Ok(document.into_bytes()),
        PictureForm::Png => png::pixels(&document),
    }
}
