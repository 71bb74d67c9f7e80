//! A chart before it is drawn (`cpumon-export` draws it), and the parts that all charts share: title, points, holes with reasons, and the
//! text of a chart without data.

use std::collections::HashMap;

use cpumon_model::HostStatus;
use cpumon_store::Gap;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::query::{Cells, ChartRequest, Percent};
use crate::history::{BucketTimes, Kept};
use crate::json::Nanos;
use crate::time::to_ms;

/// A range of time without data.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Hole {
    /// Start, ms since the UNIX epoch.
    pub begin_ms: f64,
    /// End, ms since the UNIX epoch.
    pub end_ms: f64,
    /// Why there is no data, for people.
    pub reason: String,
}

/// Points in time, evenly spaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
#[schema(as = ChartTimes)]
pub struct Times {
    /// Start of each point, ms since the UNIX epoch.
    pub begin_ms: Vec<f64>,
    /// From one point to the next, ms.
    pub width_ms: f64,
    /// Measured time in each point, ms; 0: nothing was measured, and no line or row has a value there.
    pub covered_ms: Vec<f64>,
}

/// A colour by its meaning; the theme gives the actual one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ink {
    /// A name in `web/src/charts.json`.
    Named(&'static str),
    /// The colour of the nth line; the colours repeat.
    Nth(usize),
}

/// How the values of a line are drawn.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stroke {
    /// An area, stacked on the areas before it.
    Area,
    /// A solid line.
    Solid,
    /// A thin, dashed line.
    Dashed,
}

/// One series of a chart of lines.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = ChartLine)]
pub struct Line {
    /// Name in the legend; may come from another machine.
    pub label: String,
    /// Identity of the series: the key of a task, a group as in [`ReportRow::id`](crate::report::ReportRow::id), or the column of a CPU
    /// mode or ledger line; null for all other series.
    pub key: Option<String>,
    /// Colour of the line and of its mark in the legend.
    pub ink: Ink,
    /// How the values are drawn.
    pub stroke: Stroke,
    /// One value for each point; null: no data, or, in a measured point, the task was not running.
    #[serde(serialize_with = "rounded")]
    pub values: Vec<Option<f64>>,
    /// The highest single interval in each point, where it is known: a faint band above the line.
    #[serde(serialize_with = "rounded")]
    pub highest: Vec<Option<f64>>,
}

/// One row of a heatmap: a process, a thread, a group or a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct HeatmapRow {
    /// Name at the left; may come from another machine.
    pub name: String,
    /// Identity of the row: the key of a task, the name of a group or the id of a host; null for the row of all others together.
    pub key: Option<String>,
    /// Life of a task in the range, as far as known: `alive`, `born`, `ended` or `born_ended`; null for rows that are no task.
    pub life: Option<&'static str>,
    /// Run time in the range, ns; null for a host.
    pub run_ns: Option<i64>,
    /// Tasks of a host that were running or ready for each of its CPUs, on average.
    pub run_queue_per_cpu: Option<f64>,
    /// Mean of the range.
    pub mean: Option<f64>,
    /// The highest single interval of the range; null where it is not known, as for all others together.
    pub max: Option<f64>,
    /// The mean of each point; null: no data, or, in a measured point, it was not running.
    #[serde(serialize_with = "rounded")]
    pub values: Vec<Option<f64>>,
    /// The highest single interval in each point, where it is known.
    #[serde(serialize_with = "rounded")]
    pub highest: Vec<Option<f64>>,
}

impl HeatmapRow {
    /// The values that are drawn.
    pub fn drawn(&self, cells: Cells) -> &[Option<f64>] {
        match cells {
            Cells::Mean => &self.values,
            Cells::Highest => &self.highest,
        }
    }
}

/// One kind of segment of a bar, e.g. user time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct BarPart {
    /// Name in the legend.
    pub label: String,
    /// Colour of the segment.
    pub ink: Ink,
}

/// A horizontal bar of percentages, e.g. one CPU.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Bar {
    /// Name at the left; may come from another machine.
    pub name: String,
    /// Percent of each part, in the order of the parts; empty is no data. The remainder up to 100 is the background.
    pub shares: Vec<f64>,
}

/// A small line with its mean, last and highest value beside it, e.g. one host.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Sparkline {
    /// Name at the left; may come from another machine.
    pub name: String,
    /// The points. Rows may have different ones: a host may be read from intervals while another one is read from sums.
    pub times: Times,
    /// One value for each point; `None` is no data.
    #[serde(serialize_with = "rounded")]
    pub values: Vec<Option<f64>>,
    /// The highest single interval in each point.
    #[serde(serialize_with = "rounded")]
    pub highest: Vec<Option<f64>>,
    /// Mean of the whole range.
    pub mean: Option<f64>,
    /// Ranges without data, in order of time.
    pub holes: Vec<Hole>,
    /// Text in the middle of a row without data.
    pub empty: Option<String>,
}

/// The values of a chart, by the way in which they are drawn.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[schema(as = ChartBody)]
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
        /// Which values of a row are drawn.
        cells: Cells,
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
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
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
    /// Ranges in which the process of the chart did not exist; empty for charts of anything else.
    pub absences: Vec<Hole>,
    /// Further lines below the chart, e.g. how many rows are not shown.
    pub notes: Vec<String>,
    /// Text in the middle of a chart without data.
    pub empty: Option<String>,
}

/// Charts of a host over one range.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct HostCharts {
    /// Start of the range that they show.
    pub since_ns: Nanos,
    /// End of the range.
    pub until_ns: Nanos,
    /// Range of the host's data; null: none.
    pub kept: Option<Kept>,
    /// CPUs that it has now.
    pub cpus: u32,
    /// In the order in which they were asked for.
    pub charts: Vec<Chart>,
}

/// Values for drawing: four digits behind the point are more than a screen shows.
fn rounded<S: Serializer>(values: &[Option<f64>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(|value| value.map(|value| (value * 1e4).round() / 1e4)))
}

/// A chart before its notes.
pub(super) struct Draft<'d> {
    pub(super) title: String,
    pub(super) unit: &'d str,
    pub(super) times: &'d BucketTimes,
    pub(super) gaps: &'d [Gap],
    pub(super) body: Body,
    /// The text if there was data, but none of this.
    pub(super) unmeasured: &'d str,
}

/// A heatmap, whose strongest colour is that of the highest cell, and of 1 % at least, so that next to nothing is not drawn in it.
pub(super) fn heatmap(rows: Vec<HeatmapRow>, cells: Cells) -> Body {
    let values = rows.iter().flat_map(|row| row.drawn(cells)).flatten();
    let max = values.fold(1.0, |most: f64, value| most.max(*value));
    Body::Heatmap { rows, cells, max }
}

fn has_values(body: &Body) -> bool {
    match body {
        Body::Lines { lines, .. } => lines.iter().any(|line| line.values.iter().any(Option::is_some)),
        Body::Heatmap { rows, .. } => rows.iter().any(|row| row.values.iter().any(Option::is_some)),
        Body::Bars { bars, .. } => bars.iter().any(|bar| !bar.shares.is_empty()),
        Body::Sparklines { rows, .. } => rows.iter().any(|row| row.values.iter().any(Option::is_some)),
    }
}

impl ChartRequest<'_> {
    pub(super) fn chart(&self, draft: Draft<'_>) -> Chart {
        let is_covered = draft.times.is_covered();
        let empty = if !is_covered {
            Some("No data in this range".to_owned())
        } else if !has_values(&draft.body) {
            Some(draft.unmeasured.to_owned())
        } else {
            None
        };
        // A blank picture says it once, in its middle.
        let holes = if is_covered { holes(draft.gaps) } else { Vec::new() };
        Chart {
            title: draft.title,
            unit: draft.unit.to_owned(),
            since_ms: to_ms(self.range.since_ns),
            until_ms: to_ms(self.range.until_ns),
            times: times(draft.times),
            body: draft.body,
            holes,
            absences: Vec::new(),
            notes: Vec::new(),
            empty,
        }
    }

    /// `kitchen: `, or the id of a host without a name.
    pub(super) fn titled(&self, what: &str) -> String {
        format!("{}: {what}", name_of(self.host))
    }
}

/// The name of a host, or its id where it has none.
pub(super) fn name_of(host: &HostStatus) -> String {
    let info = &host.info;
    if info.hostname.is_empty() { info.host.to_string() } else { info.hostname.to_string() }
}

/// The first of these names, with commas, and how many `others` there are.
pub fn first_names<T: AsRef<str>>(names: &[T], most: usize, others: &str) -> String {
    let named = names.iter().take(most).map(AsRef::as_ref).collect::<Vec<&str>>().join(", ");
    match names.len().saturating_sub(most) {
        0 => named,
        more => format!("{named} and {more} {others}"),
    }
}

/// These names; where several are alike, with the mark of each behind.
pub(super) fn distinct(names: Vec<String>, mark: impl Fn(usize) -> Option<String>) -> Vec<String> {
    let mut times: HashMap<&str, usize> = HashMap::new();
    for name in &names {
        *times.entry(name).or_default() += 1;
    }
    let is_alike: Vec<bool> = names.iter().map(|name| times[&**name] > 1).collect();
    let marked = |(at, name): (usize, String)| match is_alike[at].then(|| mark(at)).flatten() {
        Some(mark) => format!("{name} [{mark}]"),
        None => name,
    };
    names.into_iter().enumerate().map(marked).collect()
}

pub(super) fn line(label: impl Into<String>, ink: Ink, stroke: Stroke, values: Vec<Option<f64>>) -> Line {
    Line { label: label.into(), key: None, ink, stroke, values, highest: Vec::new() }
}

/// ns in a point as percent of the time that was measured in it.
pub(super) fn shares(values: Option<&[Option<i64>]>, times: &BucketTimes, divide: f64) -> Vec<Option<f64>> {
    known(values, times, |value, covered| value * 100.0 / covered / divide)
}

/// Rates in ns a second as percent.
pub(super) fn rates(values: Option<&[Option<i64>]>, times: &BucketTimes, divide: f64) -> Vec<Option<f64>> {
    known(values, times, |value, _| value / 1e7 / divide)
}

/// Values of points that were measured, each made into another with the measured time.
pub(super) fn known(
    values: Option<&[Option<i64>]>,
    times: &BucketTimes,
    make: impl Fn(f64, f64) -> f64,
) -> Vec<Option<f64>> {
    let value = |at: usize| values.and_then(|values| values.get(at).copied().flatten());
    let covered = times.covered_ns.iter().enumerate();
    covered
        .map(|(at, covered)| {
            value(at).filter(|_| *covered > 0).map(|value| make(value as f64, *covered as f64))
        })
        .collect()
}

pub(super) fn times(from: &BucketTimes) -> Times {
    let ms = |ns: &i64| *ns as f64 / 1e6;
    Times {
        begin_ms: from.begins_ns().map(to_ms).collect(),
        width_ms: ms(&from.width_ns),
        covered_ms: from.covered_ns.iter().map(ms).collect(),
    }
}

/// What a percentage is divided by, and how it is called.
pub(super) fn scale(percent: Percent, cpus: u32) -> (f64, &'static str) {
    match percent {
        Percent::Host if cpus > 0 => (f64::from(cpus), "%host: 100 = all CPUs"),
        _ => (1.0, "%CPU: 100 = one CPU"),
    }
}

/// Holes as they are drawn.
pub(super) fn holes(gaps: &[Gap]) -> Vec<Hole> {
    let hole = |gap: &Gap| Hole {
        begin_ms: to_ms(gap.begin_wall_ns),
        end_ms: to_ms(gap.end_wall_ns),
        reason: gap.reason.clone(),
    };
    gaps.iter().map(hole).collect()
}

/// When a task was not there: its points without a value that were measured.
pub(super) fn absences(values: &[Option<f64>], times: &BucketTimes) -> Vec<Hole> {
    let (first, last) = (values.iter().position(Option::is_some), values.iter().rposition(Option::is_some));
    let width_ms = times.width_ns as f64 / 1e6;
    let mut found: Vec<Hole> = Vec::new();
    let mut is_open = false;
    let points = times.begins_ns().zip(&times.covered_ns).zip(values).enumerate();
    for (at, ((begin_ns, covered_ns), value)) in points {
        let is_absent = *covered_ns > 0 && value.is_none();
        if is_absent {
            let begin_ms = to_ms(begin_ns);
            match found.last_mut().filter(|_| is_open) {
                Some(hole) => hole.end_ms = begin_ms + width_ms,
                None => found.push(Hole {
                    begin_ms,
                    end_ms: begin_ms + width_ms,
                    reason: match (first, last) {
                        (Some(first), _) if at < first => "not started yet",
                        (_, Some(last)) if at > last => "ended",
                        _ => "not running",
                    }
                    .to_owned(),
                }),
            }
        }
        is_open = is_absent;
    }
    found
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn a_point_without_a_task_is_before_it_after_it_or_between() {
        let times = BucketTimes {
            resolution: None,
            begin_ns: 0,
            width_ns: 1_000_000,
            covered_ns: vec![5, 5, 0, 5, 5, 5, 5, 5],
        };
        let values = [None, None, None, Some(1.0), None, Some(0.0), None, None];
        let found = absences(&values, &times);
        let found: Vec<_> = found.iter().map(|hole| (hole.begin_ms, hole.end_ms, &*hole.reason)).collect();
        assert_eq!(found, [(0.0, 2.0, "not started yet"), (4.0, 5.0, "not running"), (6.0, 8.0, "ended")]);
        assert_eq!(absences(&[None, None], &times)[0].reason, "not running", "it did nothing in this range");
    }
}
