//! The plot of run time over the last minutes: a line of braille dots (or asterisks) with axes.
//!
//! It is not a chart widget of ratatui, because that draws points and each interval covers a range of time: here peaks survive
//! when many intervals share a column, and a gap in the data stays a gap.

use std::ops::Range;

use cpumon_model::Fields;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::app::{App, Clock};
use crate::cells::NONE;
use crate::feed::HistoryPoint;
use crate::rows::RowId;
use crate::text::{clip, percent, safe, width};
use crate::theme::Theme;
use crate::view::Unit;

/// Width of the labels left of the line, terminal columns.
const LABELS: u16 = 7;
/// Bits of a braille character, by column and row of its dots.
const DOTS: [[u32; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

/// Lowest and highest value within a column of dots.
type Extent = Option<(f64, f64)>;

pub(crate) fn draw(app: &App, area: Rect, buffer: &mut Buffer) {
    let (Some(shown), Some(window)) = (&app.shown, app.plot_window()) else { return };
    if line_area(area).is_empty() {
        return;
    }
    let in_window =
        |point: &&HistoryPoint| point.end_wall_ns > window.start && point.begin_wall_ns < window.end;
    let points: Vec<(HistoryPoint, f64)> = app
        .plot_points()
        .iter()
        .filter(in_window)
        .filter_map(|point| Some((*point, value(app.view.unit, point)?)))
        .collect();
    draw_title(app, &points, area, buffer);
    if !shown.fields.contains(Fields::RUN) {
        let text = "no data: this source does not measure run time";
        buffer.set_stringn(area.x + 1, area.y + 1, text, usize::from(area.width) - 1, Theme::dim());
        return;
    }
    let top = ceiling(points.iter().map(|point| point.1).fold(0.0, f64::max));
    let line = line_area(area);
    draw_axes(app, top, line, &window, buffer);
    draw_line(app, &points, top, line, &window, buffer);
    draw_traces(app, line, &window, buffer);
}

/// Where the line is, below the title, right of the labels and above the axis; empty if there is no space for it.
pub(crate) fn line_area(area: Rect) -> Rect {
    if area.height < 3 || area.width < 16 {
        return Rect::default();
    }
    // Only an odd height has a middle row, where the middle label is written.
    let height = (area.height - 2) - u16::from(area.height > 6 && area.height.is_multiple_of(2));
    let y = area.bottom() - 1 - height;
    Rect { x: area.x + LABELS, y, width: area.width - LABELS, height }
}

fn value(unit: Unit, point: &HistoryPoint) -> Option<f64> {
    let whole = match unit {
        Unit::OneCpu => point.duration_ns as f64,
        Unit::Host => point.capacity_ns as f64,
    };
    (whole > 0.0).then(|| point.run_ns as f64 * 100.0 / whole)
}

/// Round numbers that an axis may end at, times a power of ten.
const ROUND: [f64; 9] = [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];

/// The top of the axis: the next round number, at least 1.
fn ceiling(highest: f64) -> f64 {
    let mut power = 1.0;
    // The bound ends the loop whatever another machine sends.
    while power * 10.0 < highest && power < 1e18 {
        power *= 10.0;
    }
    ROUND.iter().map(|step| step * power).find(|top| *top >= highest).unwrap_or(power * 10.0)
}

fn draw_title(app: &App, points: &[(HistoryPoint, f64)], area: Rect, buffer: &mut Buffer) {
    let fine = app.view.unit == Unit::Host;
    let most = points.iter().map(|point| point.1).fold(f64::NEG_INFINITY, f64::max);
    let unit = app.view.unit.title();
    let figures = match points.last() {
        Some(_) if app.clock == Clock::Past => {
            let at = value_at_mark(app, points).map_or_else(|| NONE.into(), |value| percent(value, fine));
            format!(" {unit} mark {at} max {}", percent(most, fine))
        }
        Some((_, last)) => format!(" {unit} last {} max {}", percent(*last, fine), percent(most, fine)),
        None => format!(" {unit} no data"),
    };
    let columns = usize::from(area.width);
    let name = clip(&subject(app), columns.saturating_sub(width(&figures)), app.theme.cut());
    let (x, _) = buffer.set_stringn(area.x, area.y, name, columns, Theme::bold());
    buffer.set_stringn(x, area.y, figures, usize::from(area.right() - x), Style::new());
}

fn value_at_mark(app: &App, points: &[(HistoryPoint, f64)]) -> Option<f64> {
    let at = app.shown_wall_ns()?;
    points
        .iter()
        .rev()
        .find(|(point, _)| point.begin_wall_ns < at && at <= point.end_wall_ns)
        .map(|found| found.1)
}

/// Name of the task that the plot shows.
fn subject(app: &App) -> String {
    let Some(id) = &app.cursor.selected else { return "whole host, all tasks".into() };
    // A task without a row in this interval has the name that it had last.
    let name = app.subject.as_ref().filter(|subject| subject.0 == *id).map_or("", |subject| &subject.1);
    match id {
        RowId::Process(key) => format!("process {} {name}", key.pid),
        RowId::Thread(key) => format!("thread {} {name}", key.tid),
        RowId::Group(name) => format!("{} {}", app.view.group_by.name(), safe(name)),
    }
}

fn draw_axes(app: &App, top: f64, line: Rect, window: &Range<i64>, buffer: &mut Buffer) {
    let theme = app.theme;
    let (axis, corner, floor) = if theme.ascii { ("|", "+", "-") } else { ("│", "└", "─") };
    let rows = [(line.y, top), (line.y + line.height / 2, top / 2.0), (line.bottom() - 1, 0.0)];
    for (nth, (y, level)) in rows.into_iter().enumerate() {
        if nth == 1 && (line.height < 5 || line.height.is_multiple_of(2)) {
            continue;
        }
        let text = percent(level, level.fract() != 0.0 && level < 10.0);
        buffer.set_stringn(line.x - LABELS, y, format!("{text:>6}"), 6, Theme::dim());
    }
    for y in line.top()..line.bottom() {
        buffer.set_string(line.x - 1, y, axis, Theme::dim());
    }
    let floor_y = line.bottom();
    buffer.set_string(line.x - 1, floor_y, corner, Theme::dim());
    buffer.set_string(line.x, floor_y, floor.repeat(usize::from(line.width)), Theme::dim());
    // Before the labels, which must stay readable.
    if app.clock == Clock::Past || app.plot.has_keys {
        draw_mark(app, line, window, buffer);
    }
    let minutes = app.plot.minutes();
    let (start, end) = match app.clock {
        Clock::Live => (format!("-{minutes} min "), " now".to_string()),
        _ => (day_time(app, window.start), day_time(app, window.end)),
    };
    buffer.set_stringn(line.x, floor_y, &start, usize::from(line.width), Theme::dim());
    if width(&start) + width(&end) + 2 < usize::from(line.width) {
        let x = line.right() - u16::try_from(width(&end)).unwrap_or(0);
        buffer.set_string(x, floor_y, &end, Theme::dim());
    }
}

/// A line through the moment on screen; bold while keys move it.
fn draw_mark(app: &App, line: Rect, window: &Range<i64>, buffer: &mut Buffer) {
    let Some(shown) = app.shown_wall_ns() else { return };
    let at = column(shown.saturating_sub(1), window, usize::from(line.width));
    let x = line.x + u16::try_from(at).unwrap_or(0).min(line.width - 1);
    let style = if app.plot.has_keys { Theme::bold() } else { Theme::dim() };
    for y in line.top()..line.bottom() {
        buffer.set_string(x, y, if app.theme.ascii { ":" } else { "┊" }, style);
    }
    buffer.set_string(x, line.bottom(), if app.theme.ascii { "^" } else { "▲" }, style);
}

/// A mark at the moment of each trace, in the top row: the axis has the labels and the moment on screen.
fn draw_traces(app: &App, line: Rect, window: &Range<i64>, buffer: &mut Buffer) {
    let mark = if app.theme.ascii { "#" } else { "◆" };
    for trace in app.traces_on_plot().iter().filter(|trace| window.contains(&trace.wall_ns)) {
        let at = column(trace.wall_ns, window, usize::from(line.width));
        let x = line.x + u16::try_from(at).unwrap_or(0).min(line.width - 1);
        buffer.set_string(x, line.y, mark, Theme::bold());
    }
}

fn day_time(app: &App, wall_ns: i64) -> String {
    let text = app.time_text(wall_ns);
    // The header has the day and the zone.
    format!(" {} ", text.split(' ').nth(1).unwrap_or(&text))
}

/// The column of a moment; moments before the window are in the first one.
fn column(wall_ns: i64, window: &Range<i64>, columns: usize) -> usize {
    // Times of other machines may lie anywhere in 64 bits, and the product with `columns` is larger.
    let length = i128::from(window.end) - i128::from(window.start);
    let at = (i128::from(wall_ns) - i128::from(window.start)).max(0) * columns as i128 / length.max(1);
    usize::try_from(at).unwrap_or(0)
}

/// The extent of the values that touch each column; `None` where nothing was measured.
fn extents(points: &[(HistoryPoint, f64)], window: &Range<i64>, columns: usize) -> Vec<Extent> {
    let mut extents: Vec<Extent> = vec![None; columns];
    for (point, value) in points {
        let from = column(point.begin_wall_ns, window, columns);
        // The end is exclusive: an interval that ends at the border of a column does not touch the next one.
        let to = column(point.end_wall_ns.saturating_sub(1), window, columns).max(from);
        let touched = extents.get_mut(from..(to + 1).min(columns)).unwrap_or_default();
        for extent in touched {
            let (low, high) = extent.unwrap_or((*value, *value));
            *extent = Some((low.min(*value), high.max(*value)));
        }
    }
    extents
}

fn draw_line(
    app: &App,
    points: &[(HistoryPoint, f64)],
    top: f64,
    line: Rect,
    window: &Range<i64>,
    buffer: &mut Buffer,
) {
    // A braille character has 2 by 4 dots, an asterisk is one.
    let (across, down) = if app.theme.ascii { (1, 1) } else { (2, 4) };
    let rows = usize::from(line.height) * down;
    let extents = extents(points, window, usize::from(line.width) * across);
    let mut cells = vec![0_u32; usize::from(line.width) * usize::from(line.height)];
    let mut before: Option<DotRows> = None;
    for (x, extent) in extents.iter().enumerate() {
        let own =
            extent.map(|(low, high)| DotRows { low: height(low, top, rows), high: height(high, top, rows) });
        for level in own.map_or(0..0, |own| own.joined(before).low..own.joined(before).high + 1) {
            let y = rows - 1 - level;
            let at = y / down * usize::from(line.width) + x / across;
            let bit = DOTS.get(x % across).and_then(|column| column.get(y % down)).copied().unwrap_or(0);
            if let Some(cell) = cells.get_mut(at) {
                *cell |= bit;
            }
        }
        // A column without data ends the line, so the next one is not joined across the gap.
        before = own;
    }
    put_cells(app, &cells, line, buffer);
}

/// The rows of dots that a column of the plot fills, 0 at the bottom.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct DotRows {
    low: usize,
    high: usize,
}

impl DotRows {
    /// Stretched until it meets the column before it, so that the line has no holes where the data has none.
    fn joined(self, before: Option<Self>) -> Self {
        match before {
            Some(before) if self.low > before.high + 1 => Self { low: before.high + 1, ..self },
            Some(before) if self.high + 1 < before.low => Self { high: before.low - 1, ..self },
            _ => self,
        }
    }
}

/// The dot row of a value, 0 at the bottom. Negative values are at the bottom too.
fn height(value: f64, top: f64, rows: usize) -> usize {
    let share = (value / top).clamp(0.0, 1.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to a few hundred")]
    let level = (share * (rows.saturating_sub(1)) as f64).round() as usize;
    level.min(rows.saturating_sub(1))
}

fn put_cells(app: &App, cells: &[u32], line: Rect, buffer: &mut Buffer) {
    for (y, row) in (line.top()..line.bottom()).zip(cells.chunks(usize::from(line.width.max(1)))) {
        for (x, bits) in (line.left()..line.right()).zip(row) {
            let dots = if app.theme.ascii { Some('*') } else { char::from_u32(0x2800 + bits) };
            if let (Some(dots), Some(cell)) = (dots.filter(|_| *bits != 0), buffer.cell_mut((x, y))) {
                cell.set_char(dots).set_style(app.theme.plot());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(begin: i64, end: i64) -> HistoryPoint {
        HistoryPoint { begin_wall_ns: begin, end_wall_ns: end, ..HistoryPoint::default() }
    }

    #[test]
    fn peaks_survive_and_gaps_stay_gaps() {
        let points = [(point(0, 5), 1.0), (point(5, 10), 90.0), (point(10, 20), 3.0), (point(40, 50), 4.0)];
        let found = extents(&points, &(0..50), 5);
        assert_eq!(found, [Some((1.0, 90.0)), Some((3.0, 3.0)), None, None, Some((4.0, 4.0))]);
    }

    #[test]
    fn the_axis_ends_at_a_round_number() {
        let tops = [0.0, 0.7, 1.5, 3.0, 7.0, 99.0, 101.0].map(|value| ceiling(value).to_string());
        assert_eq!(tops, ["1", "1", "1.5", "3", "8", "100", "150"]);
        assert!(ceiling(f64::INFINITY).is_finite());
    }

    #[test]
    fn columns_meet_their_neighbours() {
        let rows = |low, high| DotRows { low, high };
        assert_eq!(rows(7, 9).joined(Some(rows(1, 2))), rows(3, 9));
        assert_eq!(rows(1, 2).joined(Some(rows(7, 9))), rows(1, 6));
        assert_eq!(rows(1, 2).joined(None), rows(1, 2));
    }
}
