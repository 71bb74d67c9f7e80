//! Lines and stacks, with value axis and legend. A line ends before a point without data and begins again after it. And sparklines: small
//! lines below one another, all on one scale, each with its name, mean, last and highest value.

use std::fmt::Write;
use std::ops::{Range, RangeInclusive};

use cpumon_query::charts::{Chart, Hole, Line, Sparkline, Stroke, Times, first_names};

use super::axis::{nice, value_ticks};
use super::frame::{ChartFrame, LEGEND_ROW, Legend, LegendMark, PAD, every, point};
use super::options::RenderOptions;
use super::svg::{Anchor, Area, Num, Svg, TextStyle, at, fit_text, text_width};

const HEIGHT: u32 = 400;
const SIZE: f64 = 12.0;
/// Least height of the values; the legend is cut before.
const LEAST_PLOT: f64 = 110.0;
/// Least distance between two values of the axis, pixels.
const VALUE_DISTANCE: f64 = 44.0;

/// Turns stacked lines into sums. Where the lowest line has no data, the sum has none either.
fn stack(lines: &[Line]) -> Vec<Vec<Option<f64>>> {
    let mut below: Option<Vec<Option<f64>>> = None;
    let mut sums = Vec::with_capacity(lines.len());
    for line in lines {
        if line.stroke != Stroke::Area {
            sums.push(line.values.clone());
            continue;
        }
        let sum: Vec<Option<f64>> = match &below {
            None => line.values.clone(),
            Some(below) => below
                .iter()
                .enumerate()
                .map(|(at, under)| {
                    under.map(|under| under + line.values.get(at).copied().flatten().unwrap_or(0.0))
                })
                .collect(),
        };
        sums.push(sum.clone());
        below = Some(sum);
    }
    sums
}

/// Index ranges of consecutive points with data.
fn runs(values: &[Option<f64>]) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    let mut first = None;
    for at in 0..=values.len() {
        match (values.get(at).copied().flatten(), first) {
            (Some(_), None) => first = Some(at),
            (None, Some(begin)) => {
                runs.push(begin..at);
                first = None;
            }
            _ => {}
        }
    }
    runs
}

fn mark(line: &Line) -> LegendMark<'_> {
    LegendMark { label: &line.label, ink: &line.ink, stroke: line.stroke }
}

fn path(d: &str, rest: &str) -> String {
    format!("<path d=\"{d}\" {rest}/>")
}

/// Values drawn in an area: the frame has the scale of time, `max` is that of the values.
struct Plane<'f, 'c> {
    frame: &'f ChartFrame<'c>,
    times: &'f Times,
    area: Area,
    /// Value at the top of the area.
    max: f64,
}

impl Plane<'_, '_> {
    fn y(&self, value: f64) -> f64 {
        self.area.top + (1.0 - value / self.max) * self.area.height
    }

    /// Corners of a run: the start of its first point, the middle of each point, the end of its last one. Corners on a level
    /// line are left out, which makes the documents of idle hosts much smaller.
    fn corners(&self, values: &[Option<f64>], run: Range<usize>) -> Vec<(f64, f64)> {
        let Range { start: first, end: behind } = run;
        let times = self.times;
        let begin_ms = |at: usize| times.begin_ms.get(at).copied().unwrap_or(self.frame.chart.until_ms);
        let y = |at: usize| self.y(values.get(at).copied().flatten().unwrap_or(0.0));
        let mut corners = vec![(self.frame.x(begin_ms(first)), y(first))];
        for at in first..behind {
            let is_level = at > first
                && at + 1 < behind
                && (y(at) - y(at - 1)).abs() < 0.05
                && (y(at) - y(at + 1)).abs() < 0.05;
            if !is_level {
                corners.push((self.frame.x(begin_ms(at) + times.width_ms / 2.0), y(at)));
            }
        }
        corners.push((self.frame.x(begin_ms(behind - 1) + times.width_ms), y(behind - 1)));
        corners
    }

    fn path(corners: &[(f64, f64)]) -> String {
        let mut d = String::new();
        for (nth, (x, y)) in corners.iter().enumerate() {
            let _infallible = write!(d, "{}{}", if nth == 0 { "M" } else { "L" }, point(*x, *y));
        }
        d
    }

    fn area(&self, svg: &mut Svg, values: &[Option<f64>], ink: &str) {
        let base = Num(self.y(0.0));
        let mut d = String::new();
        for run in runs(values) {
            let corners = self.corners(values, run);
            let left = corners.first().map_or(0.0, |corner| corner.0);
            let _infallible = write!(d, "{}V{base}H{}Z", Self::path(&corners), Num(left));
        }
        if !d.is_empty() {
            svg.raw(&path(&d, &format!("fill=\"{ink}\"")));
        }
    }

    fn line(&self, svg: &mut Svg, line: &Line) {
        let d: String =
            runs(&line.values).into_iter().map(|run| Self::path(&self.corners(&line.values, run))).collect();
        if !d.is_empty() {
            svg.raw(&path(&d, &mark(line).stroke(self.frame.options.theme)));
        }
    }

    /// A band from the line up to the highest single interval of each point.
    fn band(&self, svg: &mut Svg, values: &[Option<f64>], highest: &[Option<f64>], ink: &str) {
        let both: Vec<Option<f64>> = values
            .iter()
            .enumerate()
            .map(|(at, value)| {
                value.and_then(|value| highest.get(at).copied().flatten().map(|high| high.max(value)))
            })
            .collect();
        let mut d = String::new();
        for run in runs(&both) {
            let upper = self.corners(&both, run.clone());
            let mut lower = self.corners(values, run);
            lower.reverse();
            let back = Self::path(&lower).replacen('M', "L", 1);
            let _infallible = write!(d, "{}{back}Z", Self::path(&upper));
        }
        if !d.is_empty() {
            svg.raw(&path(&d, &format!("fill=\"{ink}\" fill-opacity=\"0.16\"")));
        }
    }

    fn value_axis(&self, svg: &mut Svg) {
        let count = (self.area.height / VALUE_DISTANCE).max(2.0);
        for (value, label) in value_ticks(self.max, count) {
            let y = self.y(value);
            svg.line(at(self.area.left, y), at(self.area.right(), y), self.frame.color("line"));
            svg.text(at(self.area.left - 7.0, y + 4.0), &label, self.frame.dim(Anchor::End));
        }
    }
}

fn largest(lines: &[Line], sums: &[Vec<Option<f64>>]) -> f64 {
    let highest = lines.iter().flat_map(|line| &line.highest);
    sums.iter().flatten().chain(highest).flatten().fold(0.0, |most: f64, value| most.max(*value))
}

pub(super) fn draw_lines(chart: &Chart, lines: &[Line], max: Option<f64>, options: &RenderOptions) -> String {
    let sums = stack(lines);
    let reached = largest(lines, &sums);
    // Intervals are measured with a tolerance, so values up to 5 % above a fixed maximum do not change the axis. Higher values
    // extend it: they are shown, not cut.
    let fixed = max.filter(|max| *max > 0.0 && reached <= *max * 1.05);
    let max = fixed.map_or_else(|| nice(reached), |max| max.max(reached));
    let widest =
        value_ticks(max, 8.0).iter().map(|(_, label)| text_width(label, SIZE)).fold(20.0_f64, f64::max);
    let frame = ChartFrame::new(chart, options, true, |_| (PAD + widest + 8.0, PAD));
    let height = f64::from(options.height.unwrap_or(HEIGHT));
    let legend_height = height - frame.around() - LEAST_PLOT;
    let shown = if chart.empty.is_some() { &[] } else { lines };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few rows")]
    let legend =
        Legend::new(shown.iter().map(mark), frame.width, (legend_height / LEGEND_ROW).max(1.0) as usize);
    let above = legend.height() + 8.0;
    let area = frame.area(above, (height - frame.around() - above).max(40.0));
    let mut svg = frame.begin(height);
    legend.draw(&mut svg, &frame);
    let plane = Plane { frame: &frame, times: &chart.times, area, max };
    plane.value_axis(&mut svg);
    frame.holes(&mut svg, &chart.holes, area);
    // Areas cover those below them, so the top of a stack is drawn first. Lines are drawn over areas.
    let order = (0..lines.len()).rev();
    for nth in order.clone().filter(|nth| lines[*nth].stroke == Stroke::Area) {
        plane.area(&mut svg, &sums[nth], mark(&lines[nth]).color(options.theme));
    }
    for nth in order.filter(|nth| lines[*nth].stroke != Stroke::Area) {
        let line = &lines[nth];
        plane.band(&mut svg, &line.values, &line.highest, mark(line).color(options.theme));
        plane.line(&mut svg, line);
    }
    frame.reasons(&mut svg, &chart.holes, area);
    frame.emptiness(&mut svg, chart.empty.as_deref(), area);
    frame.finish(svg, area)
}

/// Least and greatest height of a row, unless the picture has a given height.
const ROW: RangeInclusive<f64> = 26.0..=120.0;
/// A few rows are stretched to this height in total.
const FEW: f64 = 260.0;
/// Least distance between two names: of lower rows, some names are left out.
const NAME_DISTANCE: f64 = 12.0;
/// Rows of at least this height have the reasons of their holes inside; those of lower rows are in a note.
const REASON_HEIGHT: f64 = 22.0;
/// Height of the line above the rows: the scale, and the titles of the numbers.
const TITLES: f64 = 18.0;
/// Width of a number.
const NUMBER: f64 = 46.0;
/// Pictures narrower than this leave out the mean.
const NARROW: f64 = 560.0;
/// Most reasons in the note.
const MAX_REASONS: usize = 4;

/// A number beside a row, with its title.
type SparklineFigure = (&'static str, fn(&Sparkline) -> Option<f64>);

const FIGURES: [SparklineFigure; 3] = [("mean", |row| row.mean), ("last", last), ("peak", peak)];

fn last(row: &Sparkline) -> Option<f64> {
    row.values.iter().rev().flatten().next().copied()
}

/// The highest single interval, where it is known.
fn peak(row: &Sparkline) -> Option<f64> {
    // The values too: `highest` has none where it is not known.
    row.highest.iter().chain(&row.values).flatten().copied().reduce(f64::max)
}

fn figures(width: f64) -> &'static [SparklineFigure] {
    if width < NARROW { &FIGURES[1..] } else { &FIGURES }
}

fn percent(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or_else(|| "–".to_owned(), |value| format!("{value:.1}"))
}

/// A note with the reasons that do not fit into their rows, each once.
fn reasons_without_space(frame: &ChartFrame<'_>, rows: &[Sparkline], row: f64) -> Option<String> {
    let has_space = |hole: &Hole| row >= REASON_HEIGHT && frame.has_space(hole);
    let mut reasons: Vec<&str> = Vec::new();
    for hole in rows.iter().flat_map(|one| &one.holes).filter(|hole| !has_space(hole)) {
        if !reasons.contains(&&*hole.reason) {
            reasons.push(&hole.reason);
        }
    }
    let named = first_names(&reasons, MAX_REASONS, "other reasons");
    match reasons.as_slice() {
        [] => None,
        ["no data"] => Some("Hatched: no data.".to_owned()),
        _ => Some(format!("Hatched: no data ({named}).")),
    }
}

fn titles(svg: &mut Svg, frame: &ChartFrame<'_>, area: Area, max: f64) {
    let y = frame.head + 8.0;
    let scale = fit_text(&format!("each row from 0 to {max:.0} %"), SIZE, area.width);
    svg.text(at(area.left, y), &scale, frame.dim(Anchor::Start));
    for (nth, (title, _)) in figures(frame.width).iter().enumerate() {
        svg.text(at(area.right() + (nth + 1) as f64 * NUMBER, y), title, frame.dim(Anchor::End));
    }
}

fn draw_row(svg: &mut Svg, frame: &ChartFrame<'_>, one: &Sparkline, area: Area, max: f64) {
    let ink = frame.color("user");
    let plane = Plane { frame, times: &one.times, area, max };
    frame.holes(svg, &one.holes, area);
    plane.band(svg, &one.values, &one.highest, ink);
    plane.area(svg, &one.values, ink);
    svg.line(at(area.left, area.bottom()), at(area.right(), area.bottom()), frame.color("line"));
}

fn texts(svg: &mut Svg, frame: &ChartFrame<'_>, one: &Sparkline, area: Area) {
    let style = TextStyle { anchor: Anchor::End, color: frame.color("text"), ..TextStyle::default() };
    let y = area.top + area.height / 2.0 + 4.0;
    svg.text(at(area.left - 8.0, y), &fit_text(&one.name, SIZE, area.left - 8.0 - PAD), style);
    for (nth, (_, figure)) in figures(frame.width).iter().enumerate() {
        svg.text(at(area.right() + (nth + 1) as f64 * NUMBER, y), &percent(figure(one)), style);
    }
}

pub(super) fn draw_sparklines(
    chart: &Chart,
    rows: &[Sparkline],
    max: f64,
    options: &RenderOptions,
) -> String {
    let rows = if chart.empty.is_some() { &[] } else { rows };
    let left = ChartFrame::names_width(rows.iter().map(|row| &*row.name));
    let mut frame = ChartFrame::new(chart, options, true, |width| {
        (left(width), PAD + figures(width).len() as f64 * NUMBER)
    });
    let first_guess = frame.row_height(rows.len(), TITLES, ROW, FEW);
    if let Some(note) = reasons_without_space(&frame, rows, first_guess) {
        frame.note(note);
    }
    // The note takes space itself, so the height is computed once more.
    let row = frame.row_height(rows.len(), TITLES, ROW, FEW);
    let area = frame.area(TITLES, row * rows.len().max(1) as f64);
    let reached = rows.iter().filter_map(peak).filter(|value| value.is_finite()).fold(max, f64::max);
    let mut svg = frame.begin(options.height.map_or(frame.around() + TITLES + area.height, f64::from));
    if !rows.is_empty() {
        titles(&mut svg, &frame, area, reached);
    }
    let every = every(NAME_DISTANCE, row);
    let between = if row > 8.0 { 3.0 } else { 0.0 };
    for (nth, one) in rows.iter().enumerate() {
        let top = area.top + nth as f64 * row;
        let place = Area { top: top + between, height: row - between, ..area };
        draw_row(&mut svg, &frame, one, place, reached);
        if nth.is_multiple_of(every) {
            texts(&mut svg, &frame, one, place);
        }
        if row >= REASON_HEIGHT {
            frame.reasons(&mut svg, &one.holes, place);
        }
        if let (Some(reason), true) = (&one.empty, nth.is_multiple_of(every)) {
            // The row has no line, so the text needs no plate.
            let y = place.top + place.height / 2.0 + 4.0;
            let shown = fit_text(reason, SIZE, place.width - 20.0);
            svg.text(at(place.left + place.width / 2.0, y), &shown, frame.dim(Anchor::Middle));
        }
    }
    frame.emptiness(&mut svg, chart.empty.as_deref(), area);
    frame.finish(svg, area)
}
