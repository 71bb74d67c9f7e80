//! A chart: what is to be seen, before it is drawn. `cpumon-export` draws it.

/// A range of time without data.
#[derive(Clone, Debug, PartialEq)]
pub struct Hole {
    /// Start, ms since the UNIX epoch.
    pub begin_ms: f64,
    /// End, ms since the UNIX epoch.
    pub end_ms: f64,
    /// Why there is no data, for people.
    pub reason: String,
}

/// Points in time, evenly spaced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    /// Start of each point, ms since the UNIX epoch.
    pub begin_ms: Vec<f64>,
    /// From one point to the next, ms.
    pub width_ms: f64,
}

/// A colour by its meaning; the theme gives the actual one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ink {
    /// A name in `web/src/charts.json`.
    Named(&'static str),
    /// The colour of the nth line; the colours repeat.
    Nth(usize),
}

/// How the values of a line are drawn.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Stroke {
    /// An area, stacked on the areas before it.
    Area,
    /// A solid line.
    Solid,
    /// A thin, dashed line.
    Dashed,
}

/// One series of a chart of lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Name in the legend; may come from another machine.
    pub label: String,
    /// Colour of the line and of its mark in the legend.
    pub ink: Ink,
    /// How the values are drawn.
    pub stroke: Stroke,
    /// One value for each point; `None` is no data, or in a point that was measured: the task was not running.
    pub values: Vec<Option<f64>>,
    /// The highest single interval in each point, where it is known: a faint band above the line.
    pub highest: Vec<Option<f64>>,
}

/// One row of a heatmap: a process, a thread or a group.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatmapRow {
    /// Name at the left; may come from another machine.
    pub name: String,
    /// One value for each point; `None` is no data, or in a point that was measured: it was not running.
    pub values: Vec<Option<f64>>,
}

/// One kind of segment of a bar, e.g. user time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BarPart {
    /// Name in the legend.
    pub label: String,
    /// Colour of the segment.
    pub ink: Ink,
}

/// A horizontal bar of percentages, e.g. one CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Name at the left; may come from another machine.
    pub name: String,
    /// Percent of each part, in the order of the parts; empty is no data. The remainder up to 100 is the background.
    pub shares: Vec<f64>,
}

/// A small line with its mean, last and highest value beside it, e.g. one host.
#[derive(Clone, Debug, PartialEq)]
pub struct Sparkline {
    /// Name at the left; may come from another machine.
    pub name: String,
    /// The points. Rows may have different ones: a host may be read from intervals while another one is read from sums.
    pub times: Times,
    /// One value for each point; `None` is no data.
    pub values: Vec<Option<f64>>,
    /// The highest single interval in each point.
    pub highest: Vec<Option<f64>>,
    /// Mean of the whole range.
    pub mean: Option<f64>,
    /// Ranges without data, in order of time.
    pub holes: Vec<Hole>,
    /// Text in the middle of a row without data.
    pub empty: Option<String>,
}

/// The values of a chart, by the way in which they are drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Lines and stacks.
    Lines {
        /// The bottom of a stack comes first.
        lines: Vec<Line>,
        /// Top of the value axis; `None` derives it from the values.
        max: Option<f64>,
    },
    /// Rows by time; the colour is the value.
    Heatmap {
        /// From top to bottom.
        rows: Vec<HeatmapRow>,
        /// The value with the strongest colour.
        max: f64,
    },
    /// Bars in columns, without a time axis.
    Bars {
        /// From the top of the first column on.
        bars: Vec<Bar>,
        /// The segments of every bar, from the left.
        parts: Vec<BarPart>,
        /// The remainder up to 100.
        rest: BarPart,
    },
    /// Small lines below one another, all on one scale.
    Sparklines {
        /// From top to bottom.
        rows: Vec<Sparkline>,
        /// The value at the top of each row; a higher value raises it.
        max: f64,
    },
}

/// Everything that is drawn in one picture (`chart::draw` of `cpumon-export`).
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Title; may hold names from another machine.
    pub title: String,
    /// Unit of the values, for people: `%CPU: 100 = one CPU`.
    pub unit: String,
    /// Start of the time axis, ms since the UNIX epoch.
    pub since_ms: f64,
    /// End of the time axis, ms since the UNIX epoch.
    pub until_ms: f64,
    /// The points of lines and heatmaps.
    pub times: Times,
    /// The values.
    pub body: Body,
    /// Ranges without data, in order of time.
    pub holes: Vec<Hole>,
    /// Further lines below the chart, e.g. how many rows are not shown.
    pub notes: Vec<String>,
    /// Text in the middle of a chart without data.
    pub empty: Option<String>,
}
