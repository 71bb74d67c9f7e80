//! Charts as pictures. In: a [`Chart`], what is to be seen. Out: an SVG document that stands alone, or the same as PNG.
//! Why: the receiver's API and the command line draw with this one function, so both give the same bytes.
//!
//! # Overview
//! [`ChartQuery`] is what can be asked for; `cpumon-web` fills a [`Chart`] from a store. [`draw`] lays it out: `frame` has title,
//! axes, holes and notes, `lines` the lines and stacks, `heat` the rows by time, `bars` a bar a CPU, `small` a small line a host. `svg` writes and escapes, `png` turns
//! it into pixels. Colours and the parts of stacks stand in `web/src/charts.json`, which the page reads too.
//!
//! # Hostile text
//! Names come from other machines: `svg::escape_xml` is the only way for a text into a document.

mod axis;
mod bars;
mod frame;
mod heatmap;
mod legend;
mod lines;
mod png;
mod query;
mod sparklines;
mod svg;
mod table;
#[cfg(test)]
mod tests;
mod text;
mod zone;

pub use query::{By, Cells, ChartQuery, MAX_PIXELS, MIN_PIXELS, Order, Percent, Theme, View};
pub use table::{DelayPart, Part, Points, delays, ledger, modes, points, states};
pub use zone::{Zone, ZoneError};

use crate::ExportError;

/// Form of a picture.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum PictureForm {
    /// Sharp at any size.
    #[default]
    Svg,
    /// Two pixels for each of the chart's own.
    Png,
}

/// What a picture looks like.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RenderOptions {
    /// Width in pixels; `None`: 1200.
    pub width: Option<u32>,
    /// Height in pixels; `None`: what suits the chart.
    pub height: Option<u32>,
    /// Colours.
    pub theme: Theme,
    /// Zone of the times.
    pub zone: Zone,
}

/// A hole in the data.
#[derive(Clone, Debug, PartialEq)]
pub struct Hole {
    /// Begin, ms since the UNIX epoch.
    pub begin_ms: f64,
    /// End.
    pub end_ms: f64,
    /// Why.
    pub reason: String,
}

/// Points in time, evenly spaced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    /// Begin of each, ms since the UNIX epoch.
    pub begin_ms: Vec<f64>,
    /// From one to the next.
    pub width_ms: f64,
}

/// A colour by what it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ink {
    /// One of the table's names.
    Named(&'static str),
    /// The nth line.
    Nth(usize),
}

/// How a line is drawn.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Stroke {
    /// As an area, on those before it.
    Area,
    /// As a line.
    Solid,
    /// As a thin, dashed line.
    Dashed,
}

/// A line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its name; hostile.
    pub label: String,
    /// Its colour.
    pub ink: Ink,
    /// How it is drawn.
    pub stroke: Stroke,
    /// A value a point; `None`: no data.
    pub values: Vec<Option<f64>>,
    /// The highest single interval in each point, where it is known: a faint band above the line.
    pub highest: Vec<Option<f64>>,
}

/// A row of a heatmap.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatmapRow {
    /// Its name; hostile.
    pub name: String,
    /// A value a point; `None`: no data.
    pub values: Vec<Option<f64>>,
}

/// What bars are made of, from their beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BarPart {
    /// What it is called.
    pub label: String,
    /// Its colour.
    pub ink: Ink,
}

/// A bar of percents.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Its name; hostile.
    pub name: String,
    /// Percent of each part; empty: no data. What they leave of 100 is the background.
    pub shares: Vec<f64>,
}

/// A small line with what it comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Sparkline {
    /// Its name; hostile.
    pub name: String,
    /// The points: rows may be read in different ones.
    pub times: Times,
    /// A value a point; `None`: no data.
    pub values: Vec<Option<f64>>,
    /// The highest single interval in each point.
    pub highest: Vec<Option<f64>>,
    /// Over the range.
    pub mean: Option<f64>,
    /// Holes, in order of time.
    pub holes: Vec<Hole>,
    /// Said in the middle of one that has nothing to show.
    pub empty: Option<String>,
}

/// What is to be seen.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Lines and stacks.
    Lines {
        /// The bottom of a stack first.
        lines: Vec<Line>,
        /// End of the value axis, if it does not follow the values.
        max: Option<f64>,
    },
    /// Rows by time; the colour is the value.
    Heatmap {
        /// From the top.
        rows: Vec<HeatmapRow>,
        /// The strongest colour.
        max: f64,
    },
    /// A bar each, in columns; no line of time.
    Bars {
        /// In order.
        bars: Vec<Bar>,
        /// What they are made of.
        parts: Vec<BarPart>,
        /// What is left of 100.
        rest: BarPart,
    },
    /// A small line each, below one another.
    Sparklines {
        /// From the top.
        rows: Vec<Sparkline>,
        /// The top of each row, if no value is above it.
        max: f64,
    },
}

/// A chart: values with what they are of.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What it is of; hostile.
    pub title: String,
    /// Of the values.
    pub unit: String,
    /// Begin of the time axis, ms since the UNIX epoch.
    pub since_ms: f64,
    /// Its end.
    pub until_ms: f64,
    /// The points.
    pub times: Times,
    /// What is seen.
    pub body: Body,
    /// Holes, in order of time.
    pub holes: Vec<Hole>,
    /// What else is to be said below, e.g. how many rows are not shown.
    pub notes: Vec<String>,
    /// Said in the middle of a chart that has nothing to show.
    pub empty: Option<String>,
}

/// Draws a chart.
pub fn draw(chart: &Chart, options: &RenderOptions, form: PictureForm) -> Result<Vec<u8>, ExportError> {
    let document = match &chart.body {
        Body::Lines { lines, max } => lines::draw(chart, lines, *max, options),
        Body::Heatmap { rows, max } => heatmap::draw(chart, rows, *max, options),
        Body::Bars { bars, parts, rest } => bars::draw(chart, bars, (parts, rest), options),
        Body::Sparklines { rows, max } => sparklines::draw(chart, rows, *max, options),
    };
    match form {
        PictureForm::Svg => Ok(document.into_bytes()),
        PictureForm::Png => png::pixels(&document),
    }
}
