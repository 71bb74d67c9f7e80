//! The frame of all charts: title, range, unit, time axis, ranges without data with their reasons, notes, and the legend
//! above the values. No chart can omit why there is no data. Labels that do not fit are counted.

use std::ops::RangeInclusive;

use cpumon_query::charts::{Chart, Hole, Ink, Stroke, first_names};

use super::axis::{TimeAxis, moments};
use super::options::{RenderOptions, Theme, ink_color, line_colors};
use super::svg::{Anchor, Area, Num, Svg, TextStyle, at, fit_text, text_width};

pub(super) const PAD: f64 = 16.0;
const TITLE_SIZE: f64 = 15.0;
const SIZE: f64 = 12.0;
/// Height of title and range; the unit may need a line of its own.
const HEAD: f64 = 56.0;
const HEAD_LINE: f64 = 18.0;
const TIME_AXIS: f64 = 24.0;
const NOTE: f64 = 17.0;
/// Least distance between two ticks of time.
const TICK_DISTANCE: f64 = 84.0;
const PLATE_HEIGHT: f64 = 20.0;
/// Greatest height of a picture without a given height.
pub(super) const HIGHEST: f64 = 2700.0;
/// Most holes that are named below the chart.
const MAX_NAMED: usize = 3;

pub(super) struct ChartFrame<'c> {
    pub(super) chart: &'c Chart,
    pub(super) options: &'c RenderOptions,
    pub(super) width: f64,
    left: f64,
    right: f64,
    has_times: bool,
    /// Height of everything above the values and their legend.
    pub(super) head: f64,
    notes: Vec<String>,
}

impl<'c> ChartFrame<'c> {
    /// `sides` gives the space left and right of the values for a width of the picture.
    pub(super) fn new(
        chart: &'c Chart,
        options: &'c RenderOptions,
        has_times: bool,
        sides: impl FnOnce(f64) -> (f64, f64),
    ) -> Self {
        let width = f64::from(options.width.unwrap_or(1200));
        let (left, right) = sides(width);
        let mut frame = Self { chart, options, width, left, right, has_times, head: HEAD, notes: Vec::new() };
        frame.head += (frame.below_title().len() - 1) as f64 * HEAD_LINE;
        // Notes are part of the height, so they must be complete before it is asked for.
        frame.notes.extend(frame.holes_without_space());
        frame.notes.extend(chart.notes.iter().cloned());
        frame
    }

    /// The space left of rows for their names, in a picture of this width.
    pub(super) fn names_width<'n>(names: impl Iterator<Item = &'n str>) -> impl Fn(f64) -> f64 {
        let widest = names.map(|name| text_width(name, SIZE)).fold(40.0_f64, f64::max);
        move |width| PAD + 8.0 + widest.min(width * 0.26)
    }

    /// Height of each of `rows` rows, with `above` pixels between head and rows. If the picture's height is not given, it
    /// is in `range`, and few rows are stretched to `few` pixels together.
    pub(super) fn row_height(&self, rows: usize, above: f64, range: RangeInclusive<f64>, few: f64) -> f64 {
        let (count, around) = (rows.max(1) as f64, self.around() + above);
        let height = self.options.height.map_or_else(
            || ((few / count).clamp(*range.start(), *range.end()) * count).min(HIGHEST - around),
            |height| f64::from(height) - around,
        );
        (height / count).max(1.0)
    }

    pub(super) fn color(&self, name: &'static str) -> &'static str {
        ink_color(&Ink::Named(name), self.options.theme)
    }

    pub(super) fn plot_width(&self) -> f64 {
        (self.width - self.left - self.right).max(10.0)
    }

    /// Height of everything except the values and the parts directly above them.
    pub(super) fn around(&self) -> f64 {
        let times = if self.has_times { TIME_AXIS } else { 0.0 };
        self.head + times + self.notes.len() as f64 * NOTE + 10.0
    }

    pub(super) fn x(&self, ms: f64) -> f64 {
        let length_ms = (self.chart.until_ms - self.chart.since_ms).max(1e-3);
        let share = ((ms - self.chart.since_ms) / length_ms).clamp(0.0, 1.0);
        self.left + share * self.plot_width()
    }

    /// Begins the document: background, title, range, unit.
    pub(super) fn begin(&self, height: f64) -> Svg {
        let mut svg = Svg::new(self.width, height, &self.chart.title, self.color("panel"));
        svg.raw(&format!(
            "<defs><pattern id=\"hole\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\">\
             <path d=\"M-1 8L8 -1M-1 1L1 -1M6 8L8 6\" stroke=\"{}\" fill=\"none\"/></pattern></defs>",
            self.color("line")
        ));
        let max = self.width - 2.0 * PAD;
        let title = TextStyle { color: self.color("text"), size: 15, is_bold: true, ..TextStyle::default() };
        svg.text(at(PAD, 25.0), &fit_text(&self.chart.title, TITLE_SIZE * 1.05, max), title);
        for (nth, line) in self.below_title().iter().enumerate() {
            let y = 44.0 + nth as f64 * HEAD_LINE;
            svg.text(at(PAD, y), &fit_text(line, SIZE, max), self.dim(Anchor::Start));
        }
        svg
    }

    pub(super) fn dim(&self, anchor: Anchor) -> TextStyle<'static> {
        TextStyle { anchor, color: self.color("dim"), ..TextStyle::default() }
    }

    /// `2026-11-21 14:05:00 – 15:05:00 UTC · %CPU: 100 = one CPU`, in two lines where it is narrow.
    fn below_title(&self) -> Vec<String> {
        let (zone, chart) = (&self.options.zone, self.chart);
        let (since, until) = (zone.moment(chart.since_ms), zone.moment(chart.until_ms));
        let is_same_day = zone.date(chart.since_ms) == zone.date(chart.until_ms);
        let until = if is_same_day { until.get(11..).unwrap_or(&until).to_owned() } else { until };
        let range = format!("{since} – {until} {}", zone.label(chart.since_ms));
        let both = format!("{range} · {}", chart.unit);
        let is_one_line = text_width(&both, SIZE) <= self.width - 2.0 * PAD;
        if is_one_line { vec![both] } else { vec![range, chart.unit.clone()] }
    }

    /// The area of the values, `top` pixels below the head.
    pub(super) fn area(&self, top: f64, height: f64) -> Area {
        Area { left: self.left, top: self.head + top, width: self.plot_width(), height }
    }

    /// Adds a note below the chart. Must be called before heights are asked for or anything is drawn.
    pub(super) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// The left and right edge of a hole; `None` if it is outside of the range.
    fn edges(&self, hole: &Hole) -> Option<(f64, f64)> {
        let is_outside = hole.end_ms <= self.chart.since_ms || hole.begin_ms >= self.chart.until_ms;
        let (from, to) = (self.x(hole.begin_ms), self.x(hole.end_ms));
        // At least 1.5 pixels: a short hole must not vanish.
        let seen = (from, to.max(from + 1.5).min(self.left + self.plot_width()).max(from));
        (!is_outside && hole.end_ms > hole.begin_ms).then_some(seen)
    }

    /// Whether the reason fits into the hole.
    pub(super) fn has_space(&self, hole: &Hole) -> bool {
        if !self.has_times {
            return false;
        }
        let space = self.edges(hole).map_or(0.0, |(from, to)| to - from);
        text_width(&hole.reason, SIZE) + 20.0 <= space
    }

    /// A note with the reasons that do not fit into their holes.
    fn holes_without_space(&self) -> Option<String> {
        let seen = self.chart.holes.iter().filter(|hole| self.edges(hole).is_some());
        let small: Vec<&Hole> = seen.filter(|hole| !self.has_space(hole)).collect();
        let zone = &self.options.zone;
        let named = small.iter().map(|hole| {
            let (from, to) = (zone.second(hole.begin_ms), zone.second(hole.end_ms));
            // The note begins with "No data", so that reason would only repeat it.
            let reason = if hole.reason == "no data" { String::new() } else { format!(" ({})", hole.reason) };
            format!("{from} – {to}{reason}")
        });
        let named = first_names(&named.collect::<Vec<_>>(), MAX_NAMED, "more");
        (!small.is_empty()).then(|| format!("No data: {named}"))
    }

    /// Draws holes hatched, over the grid.
    pub(super) fn holes(&self, svg: &mut Svg, holes: &[Hole], area: Area) {
        for (from, to) in holes.iter().filter_map(|hole| self.edges(hole)) {
            let hole = Area { left: from, width: to - from, ..area };
            svg.rect(hole, &format!("fill=\"{}\"", self.color("panel")));
            svg.rect(hole, "fill=\"url(#hole)\"");
        }
    }

    /// Writes the reasons into their holes, each on a plate so that nothing runs through the text.
    pub(super) fn reasons(&self, svg: &mut Svg, holes: &[Hole], area: Area) {
        let middle = middle_of(area);
        for hole in holes.iter().filter(|hole| self.has_space(hole)) {
            if let Some((from, to)) = self.edges(hole) {
                self.plate(svg, f64::midpoint(from, to), middle, &hole.reason);
            }
        }
    }

    /// Writes why a chart is empty into its middle.
    pub(super) fn emptiness(&self, svg: &mut Svg, reason: Option<&str>, area: Area) {
        if let Some(reason) = reason {
            let shown = fit_text(reason, SIZE, area.width - 20.0);
            self.plate(svg, area.left + area.width / 2.0, middle_of(area), &shown);
        }
    }

    fn plate(&self, svg: &mut Svg, x: f64, middle: f64, shown: &str) {
        let width = text_width(shown, SIZE) + 14.0;
        let fill = format!("rx=\"4\" fill=\"{}\"", self.color("panel"));
        let plate =
            Area { left: x - width / 2.0, top: middle - PLATE_HEIGHT / 2.0, width, height: PLATE_HEIGHT };
        svg.rect(plate, &fill);
        svg.text(at(x, middle + 4.0), shown, self.dim(Anchor::Middle));
    }

    fn time_axis(&self, svg: &mut Svg, area: Area) {
        let axis = TimeAxis {
            since_ms: self.chart.since_ms,
            until_ms: self.chart.until_ms,
            width_px: area.width,
            tick_px: TICK_DISTANCE,
        };
        let line = self.color("line");
        svg.line(at(area.left, area.bottom()), at(area.right(), area.bottom()), self.color("dim"));
        for (at_ms, label) in moments(axis, &self.options.zone) {
            let x = self.x(at_ms);
            let half = text_width(&label, SIZE) / 2.0;
            // Labels at the edges move inwards, so that they are not cut.
            let centre = x.clamp(PAD + half, self.width - PAD / 2.0 - half);
            svg.line(at(x, area.bottom()), at(x, area.bottom() + 5.0), line);
            svg.text(at(centre, area.bottom() + 18.0), &label, self.dim(Anchor::Middle));
        }
    }

    /// Adds time axis and notes, and ends the document.
    pub(super) fn finish(&self, mut svg: Svg, area: Area) -> String {
        let mut below = area.bottom() + 14.0;
        if self.has_times {
            self.time_axis(&mut svg, area);
            below += TIME_AXIS;
        }
        for (nth, note) in self.notes.iter().enumerate() {
            let shown = fit_text(note, SIZE, self.width - 2.0 * PAD);
            svg.text(at(PAD, below + nth as f64 * NOTE), &shown, self.dim(Anchor::Start));
        }
        svg.finish()
    }
}

/// Every how many rows of this height have a name, so that two names have this distance.
pub(super) fn every(distance: f64, height: f64) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few rows")]
    let every = (distance / height).ceil().max(1.0) as usize;
    every
}

fn middle_of(area: Area) -> f64 {
    area.top + area.height.min(400.0) / 2.0
}

/// A point in the syntax of SVG paths.
pub(super) fn point(x: f64, y: f64) -> String {
    format!("{} {}", Num(x), Num(y))
}

pub(super) const LEGEND_ROW: f64 = 19.0;
/// Dashes of lines, by how often their colour was used before.
const DASHES: [&str; 4] = ["", "7 3", "2 2", "9 3 2 3"];

#[derive(Copy, Clone, Debug)]
pub(super) struct LegendMark<'a> {
    pub(super) label: &'a str,
    pub(super) ink: &'a Ink,
    pub(super) stroke: Stroke,
}

impl LegendMark<'_> {
    pub(super) fn color(&self, theme: Theme) -> &'static str {
        ink_color(self.ink, theme)
    }

    fn dash(&self) -> &'static str {
        match (self.stroke, self.ink) {
            (Stroke::Dashed, _) => "4 3",
            (_, Ink::Nth(nth)) => DASHES[nth / line_colors() % DASHES.len()],
            _ => "",
        }
    }

    /// SVG attributes of a path.
    pub(super) fn stroke(&self, theme: Theme) -> String {
        let width = if self.stroke == Stroke::Dashed { "1" } else { "1.5" };
        let (ink, dash) = (self.color(theme), self.dash());
        let dash = if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dash}\"") };
        format!("fill=\"none\" stroke=\"{ink}\" stroke-width=\"{width}\" stroke-linejoin=\"round\"{dash}")
    }
}

struct LegendEntry<'a> {
    mark: LegendMark<'a>,
    x: f64,
    row: usize,
    shown: String,
}

pub(super) struct Legend<'a> {
    entries: Vec<LegendEntry<'a>>,
    rows: usize,
    left_out: usize,
}

impl<'a> Legend<'a> {
    pub(super) fn new(
        marks: impl ExactSizeIterator<Item = LegendMark<'a>>,
        width: f64,
        most_rows: usize,
    ) -> Self {
        let (mut x, mut row, count) = (PAD, 0, marks.len());
        let mut legend = Self { entries: Vec::new(), rows: 0, left_out: 0 };
        for (nth, mark) in marks.enumerate() {
            let shown = fit_text(mark.label, SIZE, (width - 2.0 * PAD - 24.0).min(260.0));
            let wide = 36.0 + text_width(&shown, SIZE);
            // The last row leaves space for the number of labels that do not fit.
            let end = width - PAD - if row + 1 == most_rows { 70.0 } else { 0.0 };
            if x + wide - 14.0 > end && x > PAD {
                (x, row) = (PAD, row + 1);
            }
            if row >= most_rows {
                legend.left_out = count - nth;
                break;
            }
            legend.entries.push(LegendEntry { mark, x, row, shown });
            legend.rows = row + 1;
            x += wide;
        }
        legend
    }

    pub(super) fn height(&self) -> f64 {
        self.rows as f64 * LEGEND_ROW
    }

    pub(super) fn draw(&self, svg: &mut Svg, frame: &ChartFrame<'_>) {
        let theme = frame.options.theme;
        for LegendEntry { mark, x, row, shown } in &self.entries {
            let y = frame.head + *row as f64 * LEGEND_ROW + 5.0;
            if mark.stroke == Stroke::Area {
                let fill = format!("rx=\"2\" fill=\"{}\"", mark.color(theme));
                svg.rect(Area { left: *x, top: y - 5.0, width: 14.0, height: 10.0 }, &fill);
            } else {
                svg.raw(&format!("<path d=\"M{}h14\" {}/>", point(*x, y), mark.stroke(theme)));
            }
            svg.text(
                at(x + 19.0, y + 4.0),
                shown,
                TextStyle { color: frame.color("text"), ..TextStyle::default() },
            );
        }
        if let (1.., Some(LegendEntry { x, row, shown, .. })) = (self.left_out, self.entries.last()) {
            let x = x + 36.0 + text_width(shown, SIZE);
            let y = frame.head + *row as f64 * LEGEND_ROW + 9.0;
            svg.text(at(x, y), &format!("and {} more", self.left_out), frame.dim(Anchor::Start));
        }
    }
}
