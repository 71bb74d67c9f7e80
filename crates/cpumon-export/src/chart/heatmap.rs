//! Rows by time, the colour is the value. In: rows, a value a point. Out: a heatmap with names, scale, holes.

use std::fmt::Write;

use super::frame::{Frame, PAD};
use super::svg::{Anchor, Num, Svg, Type};
use super::{Chart, HeatmapRow, RenderOptions, Theme, table, text};

const SIZE: f64 = 12.0;
/// Colours that are told apart.
const LEVELS: usize = 48;
const SCALE: f64 = 26.0;
/// Height of a row: where nobody says, between these.
const ROW: (f64, f64) = (16.0, 28.0);
/// Height that few rows are stretched to.
const FEW: f64 = 160.0;
/// As high as a picture gets by itself.
const HIGHEST: f64 = 2700.0;
/// Below this rows are too low for their names: some are left out.
const NAME_ROOM: f64 = 12.0;
/// Names of low rows are smaller.
const SMALL: (f64, u32) = (15.0, 11);

/// The colour of a value as a level; small values differ more.
fn level(value: f64, max: f64) -> usize {
    let share = if max > 0.0 { (value / max).clamp(0.0, 1.0) } else { 0.0 };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to LEVELS - 1")]
    let level = (share.sqrt() * (LEVELS - 1) as f64).round() as usize;
    level
}

fn color_of(level: usize, theme: Theme) -> String {
    let share = level as f64 / (LEVELS - 1) as f64;
    table::heat_color(share * share, theme)
}

/// Height of a row, and of the whole.
fn heights(frame: &Frame<'_>, rows: usize, wanted: Option<u32>) -> (f64, f64) {
    let count = rows.max(1) as f64;
    let around = frame.around() + SCALE;
    let room = wanted.map_or_else(
        || ((FEW / count).clamp(ROW.0, ROW.1) * count).min(HIGHEST - around),
        |height| f64::from(height) - around,
    );
    let row = (room / count).max(1.0);
    (row, wanted.map_or(around + row * count, f64::from))
}

fn names(svg: &mut Svg, frame: &Frame<'_>, rows: &[HeatmapRow], (left, top, row): (f64, f64, f64)) {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few rows")]
    let every = (NAME_ROOM / row).ceil().max(1.0) as usize;
    let size = if row < SMALL.0 { SMALL.1 } else { 0 };
    let ink = Type { anchor: Anchor::End, color: frame.color("text"), size, ..Type::default() };
    for (nth, one) in rows.iter().enumerate().step_by(every) {
        let y = top + nth as f64 * row + row.min(40.0) / 2.0 + 4.0;
        svg.text((left - 8.0, y), &text::fit(&one.name, SIZE, left - 8.0 - PAD), ink);
    }
}

/// One path a colour; cells beside each other that look the same are one.
fn cells(svg: &mut Svg, frame: &Frame<'_>, rows: &[HeatmapRow], max: f64, (top, row): (f64, f64)) {
    let times = &frame.chart.times;
    let edge = |at: usize| {
        frame.x(times
            .begin_ms
            .get(at)
            .copied()
            .unwrap_or_else(|| times.begin_ms.last().map_or(0.0, |last| last + times.width_ms)))
    };
    let mut paths = vec![String::new(); LEVELS];
    let high = if row > 6.0 { row - 1.0 } else { row };
    for (nth, one) in rows.iter().enumerate() {
        let y = Num(top + nth as f64 * row);
        let mut at = 0;
        while at < one.values.len().min(times.begin_ms.len()) {
            let first = at;
            let shade = one.values[at].map(|value| level(value, max));
            at += 1;
            while at < one.values.len() && one.values[at].map(|value| level(value, max)) == shade {
                at += 1;
            }
            if let Some(shade) = shade {
                let (from, to) = (edge(first), edge(at));
                // Cells overlap a little: else the background shines through between them.
                let to = if at < times.begin_ms.len() { to + 0.2 } else { to };
                let (from, to, high) = (Num(from), Num(to), Num(high));
                let _infallible = write!(paths[shade], "M{from} {y}H{to}v{high}H{from}z");
            }
        }
    }
    for (shade, d) in paths.iter().enumerate().filter(|(_, d)| !d.is_empty()) {
        svg.raw(&format!("<path d=\"{d}\" fill=\"{}\"/>", color_of(shade, frame.options.theme)));
    }
}

fn scale(svg: &mut Svg, frame: &Frame<'_>, max: f64) {
    let y = frame.head() + 3.0;
    let shares = [0.0, 0.02, 0.06, 0.12, 0.22, 0.36, 0.55, 0.75, 1.0];
    svg.text((PAD, y + 9.0), "0", frame.dim(Anchor::Start));
    for (nth, share) in shares.iter().enumerate() {
        let fill = format!("fill=\"{}\"", color_of(level(*share, 1.0), frame.options.theme));
        svg.rect((PAD + 14.0 + nth as f64 * 20.0, y), (19.0, 10.0), &fill);
    }
    let most = if max < 10.0 { format!("{max:.1}") } else { format!("{max:.0}") };
    svg.text((PAD + 20.0 + shares.len() as f64 * 20.0, y + 9.0), &most, frame.dim(Anchor::Start));
}

/// See the module.
pub(super) fn draw(chart: &Chart, rows: &[HeatmapRow], max: f64, options: &RenderOptions) -> String {
    let widest = rows.iter().map(|row| text::width(&row.name, SIZE)).fold(40.0_f64, f64::max);
    let frame = Frame::new(chart, options, |width| (PAD + 8.0 + widest.min(width * 0.26), PAD));
    let (row, height) = heights(&frame, rows.len(), options.height);
    let area = frame.area(SCALE, row * rows.len().max(1) as f64);
    let mut svg = frame.begin(height);
    scale(&mut svg, &frame, max);
    names(&mut svg, &frame, rows, (area.left, area.top, row));
    frame.holes(&mut svg, &chart.holes, area);
    cells(&mut svg, &frame, rows, max, (area.top, row));
    frame.reasons(&mut svg, &chart.holes, area);
    frame.emptiness(&mut svg, chart.empty.as_deref(), area);
    frame.finish(svg, area)
}
