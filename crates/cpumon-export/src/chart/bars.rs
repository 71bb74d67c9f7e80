//! Bars in columns, e.g. one for each CPU. The size of the picture is bounded, and names are legible from 1 bar to more than a
//! thousand.

use std::fmt::Write;

use cpumon_query::charts::{Bar, BarPart, Chart, Stroke};

use super::frame::{ChartFrame, HIGHEST, Legend, LegendMark, PAD, every};
use super::options::{RenderOptions, ink_color};
use super::svg::{Anchor, Area, Num, Svg, TextStyle, at, fit_text, text_width};

const SIZE: f64 = 12.0;
/// Greatest distance from one bar to the next.
const PITCH: f64 = 22.0;
/// Least distance between two names: of closer bars, some names are left out.
const NAME_DISTANCE: f64 = 11.0;
/// Bars closer than this have names of this size.
const SMALL: (f64, u32) = (15.0, 10);
/// Greatest height of a column of bars without a given height, if another column fits beside it.
const COLUMN: f64 = 400.0;
/// Space between columns.
const GAP: f64 = 20.0;
/// Space between a bar and its texts.
const SPACE: f64 = 7.0;
/// Space between bars and notes.
const BELOW: f64 = 6.0;
/// Least width of a bar with a number beside it, and without one.
const LEAST: (f64, f64) = (44.0, 24.0);

#[derive(Copy, Clone, Debug)]
struct Grid {
    rows: usize,
    /// Width of a column without the gap after it.
    cell: f64,
    pitch: f64,
    name: f64,
    /// Width of a number; 0 if numbers do not fit.
    number: f64,
}

fn most_columns(width: f64, cell: f64) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few columns")]
    let most = ((width + GAP) / (cell + GAP)).floor().max(1.0) as usize;
    most
}

impl Grid {
    /// Fits bars into `width` and into the given height; without one, into at most `highest`.
    fn new(bars: &[Bar], width: f64, given: Option<f64>, highest: f64) -> Self {
        let count = bars.len().max(1);
        let name = bars.iter().map(|bar| text_width(&bar.name, SIZE)).fold(10.0_f64, f64::max).min(90.0);
        let number = text_width("100.0", SIZE);
        let (height, column) = (given.unwrap_or(highest), given.unwrap_or(COLUMN));
        let with_numbers = most_columns(width, name + SPACE + LEAST.0 + SPACE + number);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most a column a bar")]
        let wanted = (count as f64 * PITCH / column).ceil().max(1.0) as usize;
        let fit = |columns: usize, number: f64| {
            let rows = count.div_ceil(columns.clamp(1, count));
            // With that many rows, fewer columns may be enough.
            let columns = count.div_ceil(rows);
            let cell = (width + GAP) / columns as f64 - GAP;
            let pitch = (height / rows as f64).clamp(0.2, PITCH);
            Self { rows, cell, pitch, name, number }
        };
        let grid = fit(wanted.min(with_numbers), number);
        if grid.pitch >= NAME_DISTANCE {
            return grid;
        }
        // The bars are too close for their names: without numbers, more columns fit.
        fit(wanted.min(most_columns(width, name + SPACE + LEAST.1)), 0.0)
    }

    fn height(&self) -> f64 {
        self.rows as f64 * self.pitch
    }

    /// Left end and vertical middle of a bar with its texts; columns are filled one after the other.
    fn position(&self, nth: usize, area: Area) -> (f64, f64) {
        let (column, row) = (nth / self.rows, nth % self.rows);
        (area.left + column as f64 * (self.cell + GAP), area.top + (row as f64 + 0.5) * self.pitch)
    }

    /// Begin and width of the bar itself.
    fn track(&self, left: f64) -> (f64, f64) {
        let behind = if self.number > 0.0 { SPACE + self.number } else { 0.0 };
        (left + self.name + SPACE, (self.cell - self.name - SPACE - behind).max(4.0))
    }
}

fn names(svg: &mut Svg, frame: &ChartFrame<'_>, bars: &[Bar], grid: Grid, area: Area) {
    let every = every(NAME_DISTANCE, grid.pitch);
    let size = if grid.pitch < SMALL.0 { SMALL.1 } else { 0 };
    let name = TextStyle { anchor: Anchor::End, color: frame.color("dim"), size, ..TextStyle::default() };
    let number = TextStyle { color: frame.color("text"), ..name };
    for (nth, bar) in bars.iter().enumerate().filter(|(nth, _)| (nth % grid.rows).is_multiple_of(every)) {
        let (left, middle) = grid.position(nth, area);
        let y = middle + if size == 0 { 4.0 } else { 3.5 };
        svg.text(at(left + grid.name, y), &fit_text(&bar.name, SIZE, grid.name), name);
        if grid.number > 0.0 {
            let busy: f64 = bar.shares.iter().sum();
            let shown = if bar.shares.is_empty() { "–".to_owned() } else { format!("{busy:.1}") };
            svg.text(at(left + grid.cell, y), &shown, number);
        }
    }
}

#[derive(Copy, Clone, Debug)]
pub(super) struct Segments<'a> {
    pub(super) parts: &'a [BarPart],
    pub(super) rest: &'a BarPart,
}

/// Draws one path for each colour.
fn tracks(
    svg: &mut Svg,
    frame: &ChartFrame<'_>,
    bars: &[Bar],
    segments: Segments<'_>,
    grid: Grid,
    area: Area,
) {
    let Segments { parts, rest } = segments;
    let high = if grid.pitch < 6.0 { grid.pitch } else { (grid.pitch * 0.62).max(5.0) };
    let (mut free, mut blank, mut paths) = (String::new(), String::new(), vec![String::new(); parts.len()]);
    for (nth, bar) in bars.iter().enumerate() {
        let (left, middle) = grid.position(nth, area);
        let ((from, wide), y) = (grid.track(left), Num(middle - high / 2.0));
        let add = |path: &mut String, from: f64, to: f64| {
            let (from, to, high) = (Num(from), Num(to), Num(high));
            let _infallible = write!(path, "M{from} {y}H{to}v{high}H{from}z");
        };
        add(if bar.shares.is_empty() { &mut blank } else { &mut free }, from, from + wide);
        let mut begin = 0.0;
        for (share, path) in bar.shares.iter().zip(&mut paths) {
            // Shares may add up to a little more than 100; a bar must not leave its column.
            let to = (begin + if share.is_finite() { share.max(0.0) } else { 0.0 }).min(100.0);
            if to > begin {
                add(path, from + begin / 100.0 * wide, from + to / 100.0 * wide);
            }
            begin = to;
        }
    }
    let colors = parts.iter().map(|part| ink_color(&part.ink, frame.options.theme));
    let all = std::iter::once((&free, ink_color(&rest.ink, frame.options.theme)))
        .chain(std::iter::once((&blank, "url(#hole)")))
        .chain(paths.iter().zip(colors));
    for (d, fill) in all.filter(|(d, _)| !d.is_empty()) {
        svg.raw(&format!("<path d=\"{d}\" fill=\"{fill}\"/>"));
    }
}

pub(super) fn draw(chart: &Chart, bars: &[Bar], segments: Segments<'_>, options: &RenderOptions) -> String {
    let frame = ChartFrame::new(chart, options, false, |_| (PAD, PAD));
    let bars = if chart.empty.is_some() { &[] } else { bars };
    let marks: Vec<&BarPart> = segments.parts.iter().chain(std::iter::once(segments.rest)).collect();
    let marks =
        marks.iter().map(|part| LegendMark { label: &part.label, ink: &part.ink, stroke: Stroke::Area });
    let legend = Legend::new(marks, frame.width, 4);
    let above = if bars.is_empty() { 0.0 } else { legend.height() + 8.0 };
    let around = frame.around() + above + BELOW;
    let given = options.height.map(|height| f64::from(height) - around);
    let grid = Grid::new(bars, frame.plot_width(), given, HIGHEST - around);
    let area = frame.area(above, given.unwrap_or(if bars.is_empty() { 100.0 } else { grid.height() }));
    let mut svg = frame.begin(options.height.map_or(around + area.height, f64::from));
    if !bars.is_empty() {
        legend.draw(&mut svg, &frame);
    }
    names(&mut svg, &frame, bars, grid, area);
    tracks(&mut svg, &frame, bars, segments, grid, area);
    frame.emptiness(&mut svg, chart.empty.as_deref(), area);
    frame.finish(svg, Area { height: area.height + BELOW, ..area })
}
