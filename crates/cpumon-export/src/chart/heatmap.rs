//! Heatmaps: rows by time, the colour is the value.

use std::fmt::Write;
use std::ops::RangeInclusive;

use cpumon_query::charts::{Cells, Chart, HeatmapRow, Times};

use super::frame::{ChartFrame, PAD, every};
use super::options::{RenderOptions, Theme, heat_color};
use super::svg::{Anchor, Area, Num, Svg, TextStyle, at, fit_text, text_width};

const SIZE: f64 = 12.0;
/// Number of different colours.
const LEVELS: usize = 48;
const SCALE: f64 = 26.0;
/// Least and greatest height of a row, unless the picture has a given height.
const ROW: RangeInclusive<f64> = 16.0..=28.0;
/// A few rows are stretched to this height in total.
const FEW: f64 = 160.0;
/// Least distance between two names: of lower rows, some names are left out.
const NAME_DISTANCE: f64 = 12.0;
/// Rows lower than this have names of this size.
const SMALL: (f64, u32) = (15.0, 11);

/// The area of the values and the height of a row in it.
#[derive(Copy, Clone, Debug)]
struct RowGrid {
    area: Area,
    row: f64,
}

/// The level of a value's colour. The square root makes small values differ more: most values are small.
fn level(value: f64, max: f64) -> usize {
    let share = if max > 0.0 { (value / max).clamp(0.0, 1.0) } else { 0.0 };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to LEVELS - 1")]
    let level = (share.sqrt() * (LEVELS - 1) as f64).round() as usize;
    level
}

fn color_of(level: usize, theme: Theme) -> String {
    let share = level as f64 / (LEVELS - 1) as f64;
    // `heat_color` takes a root as well, so the one in the level is undone first.
    heat_color(share * share, theme)
}

fn names(svg: &mut Svg, frame: &ChartFrame<'_>, rows: &[HeatmapRow], grid: RowGrid) {
    let RowGrid { area, row } = grid;
    let size = if row < SMALL.0 { SMALL.1 } else { 0 };
    let style = TextStyle { anchor: Anchor::End, color: frame.color("text"), size, ..TextStyle::default() };
    for (nth, one) in rows.iter().enumerate().step_by(every(NAME_DISTANCE, row)) {
        let y = area.top + nth as f64 * row + row.min(40.0) / 2.0 + 4.0;
        svg.text(at(area.left - 8.0, y), &fit_text(&one.name, SIZE, area.left - 8.0 - PAD), style);
    }
}

/// Draws one path for each colour. Neighbouring cells of a colour are one rectangle.
fn cells(svg: &mut Svg, frame: &ChartFrame<'_>, rows: &[&[Option<f64>]], max: f64, grid: RowGrid) {
    let RowGrid { area, row } = grid;
    let times = &frame.chart.times;
    let edge = |nth: usize| {
        frame.x(times
            .begin_ms
            .get(nth)
            .copied()
            .unwrap_or_else(|| times.begin_ms.last().map_or(0.0, |last| last + times.width_ms)))
    };
    let mut paths = vec![String::new(); LEVELS];
    let high = if row > 6.0 { row - 1.0 } else { row };
    for (nth, values) in rows.iter().enumerate() {
        let y = Num(area.top + nth as f64 * row);
        let mut point = 0;
        while point < values.len().min(times.begin_ms.len()) {
            let first = point;
            let shade = values[point].map(|value| level(value, max));
            point += 1;
            while point < values.len() && values[point].map(|value| level(value, max)) == shade {
                point += 1;
            }
            if let Some(shade) = shade {
                let (from, to) = (edge(first), edge(point));
                // Cells overlap by a fifth of a pixel: anti-aliasing would leave a line of background between them.
                let to = if point < times.begin_ms.len() { to + 0.2 } else { to };
                let (from, to, high) = (Num(from), Num(to), Num(high));
                let _infallible = write!(paths[shade], "M{from} {y}H{to}v{high}H{from}z");
            }
        }
    }
    for (shade, d) in paths.iter().enumerate().filter(|(_, d)| !d.is_empty()) {
        svg.raw(&format!("<path d=\"{d}\" fill=\"{}\"/>", color_of(shade, frame.options.theme)));
    }
}

/// Draws the colours with their ends, and gives where the space behind them begins.
fn scale(svg: &mut Svg, frame: &ChartFrame<'_>, max: f64) -> f64 {
    let y = frame.head + 3.0;
    let shares = [0.0, 0.02, 0.06, 0.12, 0.22, 0.36, 0.55, 0.75, 1.0];
    svg.text(at(PAD, y + 9.0), "0", frame.dim(Anchor::Start));
    for (nth, share) in shares.iter().enumerate() {
        let fill = format!("fill=\"{}\"", color_of(level(*share, 1.0), frame.options.theme));
        let swatch = Area { left: PAD + 14.0 + nth as f64 * 20.0, top: y, width: 19.0, height: 10.0 };
        svg.rect(swatch, &fill);
    }
    let most = if max < 10.0 { format!("{max:.1}") } else { format!("{max:.0}") };
    let left = PAD + 20.0 + shares.len() as f64 * 20.0;
    svg.text(at(left, y + 9.0), &most, frame.dim(Anchor::Start));
    left + text_width(&most, SIZE) + 22.0
}

/// Whether a row has no value in a point that was measured: its task was not there.
fn has_absent(chart: &Chart, rows: &[HeatmapRow]) -> bool {
    let Times { covered_ms, width_ms, .. } = &chart.times;
    let is_blank = |at: usize| rows.iter().any(|row| row.values.get(at).copied().flatten().is_none());
    // A hole seldom begins with a point: one that is more than half measured counts.
    let mut measured = covered_ms.iter().enumerate().filter(|(_, ms)| **ms > width_ms / 2.0);
    chart.empty.is_none() && measured.any(|(at, _)| is_blank(at))
}

/// The marks behind the scale: a blank cell and a hatched one are not the same as a cell of 0.
fn marks(svg: &mut Svg, frame: &ChartFrame<'_>, rows: &[HeatmapRow], mut left: f64) {
    let y = frame.head + 3.0;
    let blank = format!("fill=\"none\" stroke=\"{}\"", frame.color("line"));
    let shown = [
        (has_absent(frame.chart, rows), "not running", blank),
        (!frame.chart.holes.is_empty(), "no data", "fill=\"url(#hole)\"".to_owned()),
    ];
    for (_, label, fill) in shown.into_iter().filter(|(is_shown, ..)| *is_shown) {
        svg.rect(Area { left: left + 0.5, top: y + 0.5, width: 18.0, height: 9.0 }, &fill);
        svg.text(at(left + 25.0, y + 9.0), label, frame.dim(Anchor::Start));
        left += 25.0 + text_width(label, SIZE) + 18.0;
    }
}

pub(super) fn draw(chart: &Chart, rows: &[HeatmapRow], of: (Cells, f64), options: &RenderOptions) -> String {
    let (drawn, max) = of;
    let left = ChartFrame::names_width(rows.iter().map(|row| &*row.name));
    let frame = ChartFrame::new(chart, options, true, |width| (left(width), PAD));
    let row = frame.row_height(rows.len(), SCALE, ROW, FEW);
    let area = frame.area(SCALE, row * rows.len().max(1) as f64);
    let mut svg = frame.begin(options.height.map_or(frame.around() + SCALE + area.height, f64::from));
    let behind = scale(&mut svg, &frame, max);
    marks(&mut svg, &frame, rows, behind);
    let grid = RowGrid { area, row };
    names(&mut svg, &frame, rows, grid);
    // Below the cells, so that a hole never covers data.
    frame.holes(&mut svg, &chart.holes, area);
    let values: Vec<_> = rows.iter().map(|row| row.drawn(drawn)).collect();
    cells(&mut svg, &frame, &values, max, grid);
    frame.reasons(&mut svg, &chart.holes, area);
    frame.emptiness(&mut svg, chart.empty.as_deref(), area);
    frame.finish(svg, area)
}
