//! Lines and stacks, with value axis and legend. A line ends before a point without data and begins again after it.

use std::fmt::Write;
use std::ops::Range;

use super::data::{Chart, Line, Stroke, Times};
use super::frame::{Frame, PAD, point};
use super::geometry::{Area, at};
use super::legend::{Legend, Mark, ROW as LEGEND_ROW};
use super::options::RenderOptions;
use super::svg::{Anchor, Num, Svg};
use super::{axis, text};

const HEIGHT: u32 = 400;
const SIZE: f64 = 12.0;
/// Least height of the values; the legend is cut before.
const LEAST_PLOT: f64 = 110.0;
/// Least distance between two values of the axis, pixels.
const VALUE_DISTANCE: f64 = 44.0;

/// Turns stacked lines into sums. Where the lowest line has no data, the sum has none either.
pub(super) fn stack(lines: &[Line]) -> Vec<Vec<Option<f64>>> {
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

/// Runs of points with data.
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

fn mark(line: &Line) -> Mark<'_> {
    Mark { label: &line.label, ink: &line.ink, stroke: line.stroke }
}

fn path(d: &str, rest: &str) -> String {
    format!("<path d=\"{d}\" {rest}/>")
}

/// Values drawn in an area: the frame has the scale of time, `max` is that of the values.
pub(super) struct Plane<'f, 'c> {
    pub(super) frame: &'f Frame<'c>,
    pub(super) times: &'f Times,
    pub(super) area: Area,
    /// At the top of the area.
    pub(super) max: f64,
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

    pub(super) fn area(&self, svg: &mut Svg, values: &[Option<f64>], ink: &str) {
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
    pub(super) fn band(&self, svg: &mut Svg, values: &[Option<f64>], highest: &[Option<f64>], ink: &str) {
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
        for (value, label) in axis::values(self.max, count) {
            let y = self.y(value);
            svg.line(at(self.area.left, y), at(self.area.right(), y), self.frame.color("line"));
            svg.text(at(self.area.left - 7.0, y + 4.0), &label, self.frame.dim(Anchor::End));
        }
    }
}

/// The largest value of the chart.
fn largest(lines: &[Line], sums: &[Vec<Option<f64>>]) -> f64 {
    let highest = lines.iter().flat_map(|line| &line.highest);
    sums.iter().flatten().chain(highest).flatten().fold(0.0, |most: f64, value| most.max(*value))
}

pub(super) fn draw(chart: &Chart, lines: &[Line], max: Option<f64>, options: &RenderOptions) -> String {
    let sums = stack(lines);
    let reached = largest(lines, &sums);
    // Intervals are measured with a tolerance, so values up to 5 % above a fixed maximum do not change the axis. Higher values
    // extend it: they are shown, not cut.
    let fixed = max.filter(|max| *max > 0.0 && reached <= *max * 1.05);
    let max = fixed.map_or_else(|| axis::nice(reached), |max| max.max(reached));
    let widest =
        axis::values(max, 8.0).iter().map(|(_, label)| text::width(label, SIZE)).fold(20.0_f64, f64::max);
    let frame = Frame::new(chart, options, |_| (PAD + widest + 8.0, PAD));
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
