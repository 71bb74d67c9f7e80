//! A bar each, in columns. In: bars, what they are made of. Out: a picture of bounded size, whose names can be read from 1 bar to
//! more than a thousand.

use std::fmt::Write;

use super::frame::{Area, Frame};
use super::legend::{Legend, Mark};
use super::svg::{Anchor, Num, Svg, Type};
use super::{Bar, BarPart, Chart, RenderOptions, Stroke, table, text};

const SIZE: f64 = 12.0;
/// From one bar to the next, where there is room.
const PITCH: f64 = 22.0;
/// Below this, names are left out: they would run into each other.
const NAME_ROOM: f64 = 11.0;
/// Names of low bars are smaller.
const SMALL: (f64, u32) = (15.0, 10);
/// A column of bars is not higher by itself, if there is room for another beside it.
const COLUMN: f64 = 400.0;
/// As high as a picture gets by itself.
const HIGHEST: f64 = 2700.0;
/// Between columns.
const GAP: f64 = 20.0;
/// Between a bar and its texts.
const SPACE: f64 = 7.0;
/// Between bars and notes.
const BELOW: f64 = 6.0;
/// A bar is at least so wide; without a number, so wide.
const LEAST: (f64, f64) = (44.0, 24.0);

/// Where bars stand.
#[derive(Copy, Clone, Debug)]
struct Grid {
    rows: usize,
    /// Of a column, without the gap behind it.
    cell: f64,
    pitch: f64,
    name: f64,
    /// 0: there is no room for numbers.
    number: f64,
}

/// How many columns of this width have room.
fn most_columns(width: f64, cell: f64) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few columns")]
    let most = ((width + GAP) / (cell + GAP)).floor().max(1.0) as usize;
    most
}

impl Grid {
    /// Fits bars into `width`, and into `height` if somebody wants that, else below `highest`.
    fn new(bars: &[Bar], width: f64, (wanted, highest): (Option<f64>, f64)) -> Self {
        let count = bars.len().max(1);
        let name = bars.iter().map(|bar| text::width(&bar.name, SIZE)).fold(10.0_f64, f64::max).min(90.0);
        let number = text::width("100.0", SIZE);
        let (room, column) = (wanted.unwrap_or(highest), wanted.unwrap_or(COLUMN));
        let roomy = most_columns(width, name + SPACE + LEAST.0 + SPACE + number);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most a column a bar")]
        let wish = (count as f64 * PITCH / column).ceil().max(1.0) as usize;
        let fit = |columns: usize, number: f64| {
            let rows = count.div_ceil(columns.clamp(1, count));
            // Columns that nothing is left for are none.
            let columns = count.div_ceil(rows);
            let cell = (width + GAP) / columns as f64 - GAP;
            let pitch = (room / rows as f64).clamp(0.2, PITCH);
            Self { rows, cell, pitch, name, number }
        };
        let grid = fit(wish.min(roomy), number);
        if grid.pitch >= NAME_ROOM {
            return grid;
        }
        fit(wish.min(most_columns(width, name + SPACE + LEAST.1)), 0.0)
    }

    fn height(&self) -> f64 {
        self.rows as f64 * self.pitch
    }

    /// Left end and middle of a bar with its texts; columns are filled one after the other.
    fn place(&self, nth: usize, area: Area) -> (f64, f64) {
        let (column, row) = (nth / self.rows, nth % self.rows);
        (area.left + column as f64 * (self.cell + GAP), area.top + (row as f64 + 0.5) * self.pitch)
    }

    /// Begin and width of the bar itself.
    fn track(&self, left: f64) -> (f64, f64) {
        let behind = if self.number > 0.0 { SPACE + self.number } else { 0.0 };
        (left + self.name + SPACE, (self.cell - self.name - SPACE - behind).max(4.0))
    }
}

fn names(svg: &mut Svg, frame: &Frame<'_>, bars: &[Bar], (grid, area): (Grid, Area)) {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few rows")]
    let every = (NAME_ROOM / grid.pitch).ceil().max(1.0) as usize;
    let size = if grid.pitch < SMALL.0 { SMALL.1 } else { 0 };
    let name = Type { anchor: Anchor::End, color: frame.color("dim"), size, ..Type::default() };
    let number = Type { color: frame.color("text"), ..name };
    for (nth, bar) in bars.iter().enumerate().filter(|(nth, _)| (nth % grid.rows).is_multiple_of(every)) {
        let (left, middle) = grid.place(nth, area);
        let y = middle + if size == 0 { 4.0 } else { 3.5 };
        svg.text((left + grid.name, y), &text::fit(&bar.name, SIZE, grid.name), name);
        if grid.number > 0.0 {
            let busy: f64 = bar.shares.iter().sum();
            let shown = if bar.shares.is_empty() { "–".to_owned() } else { format!("{busy:.1}") };
            svg.text((left + grid.cell, y), &shown, number);
        }
    }
}

/// One path a colour.
fn tracks(
    svg: &mut Svg,
    frame: &Frame<'_>,
    bars: &[Bar],
    (parts, rest): (&[BarPart], &BarPart),
    (grid, area): (Grid, Area),
) {
    let high = if grid.pitch < 6.0 { grid.pitch } else { (grid.pitch * 0.62).max(5.0) };
    let (mut free, mut blank, mut paths) = (String::new(), String::new(), vec![String::new(); parts.len()]);
    for (nth, bar) in bars.iter().enumerate() {
        let (left, middle) = grid.place(nth, area);
        let ((from, wide), y) = (grid.track(left), Num(middle - high / 2.0));
        let add = |path: &mut String, from: f64, to: f64| {
            let (from, to, high) = (Num(from), Num(to), Num(high));
            let _infallible = write!(path, "M{from} {y}H{to}v{high}H{from}z");
        };
        add(if bar.shares.is_empty() { &mut blank } else { &mut free }, from, from + wide);
        let mut at = 0.0;
        for (share, path) in bar.shares.iter().zip(&mut paths) {
            let to = (at + if share.is_finite() { share.max(0.0) } else { 0.0 }).min(100.0);
            if to > at {
                add(path, from + at / 100.0 * wide, from + to / 100.0 * wide);
            }
            at = to;
        }
    }
    let colors = parts.iter().map(|part| table::color(&part.ink, frame.options.theme));
    let all = std::iter::once((&free, table::color(&rest.ink, frame.options.theme)))
        .chain(std::iter::once((&blank, "url(#hole)")))
        .chain(paths.iter().zip(colors));
    for (d, fill) in all.filter(|(d, _)| !d.is_empty()) {
        svg.raw(&format!("<path d=\"{d}\" fill=\"{fill}\"/>"));
    }
}

/// See the module.
pub(super) fn draw(
    chart: &Chart,
    bars: &[Bar],
    (parts, rest): (&[BarPart], &BarPart),
    options: &RenderOptions,
) -> String {
    let frame = Frame::without_times(chart, options);
    let bars = if chart.empty.is_some() { &[] } else { bars };
    let marks: Vec<&BarPart> = parts.iter().chain(std::iter::once(rest)).collect();
    let marks = marks.iter().map(|part| Mark { label: &part.label, ink: &part.ink, stroke: Stroke::Area });
    let legend = Legend::new(marks, frame.width, 4);
    let above = if bars.is_empty() { 0.0 } else { legend.height() + 8.0 };
    let around = frame.around() + above + BELOW;
    let wanted = options.height.map(|height| f64::from(height) - around);
    let grid = Grid::new(bars, frame.plot_width(), (wanted, HIGHEST - around));
    let area = frame.area(above, wanted.unwrap_or(if bars.is_empty() { 100.0 } else { grid.height() }));
    let mut svg = frame.begin(options.height.map_or(around + area.height, f64::from));
    if !bars.is_empty() {
        legend.draw(&mut svg, &frame);
    }
    names(&mut svg, &frame, bars, (grid, area));
    tracks(&mut svg, &frame, bars, (parts, rest), (grid, area));
    frame.emptiness(&mut svg, chart.empty.as_deref(), area);
    frame.finish(svg, Area { height: area.height + BELOW, ..area })
}
