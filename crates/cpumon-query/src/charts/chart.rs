//! A chart: what is to be seen, before it is drawn (`cpumon-export` draws it), and what all charts share: title, points, holes with
//! reasons, and the text of a chart without data.

use cpumon_model::HostStatus;
use cpumon_store::Gap;

use super::query::{ChartRequest, Percent};
use crate::history::BucketTimes;
use crate::time::{Available, to_ms};

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
        let holes: Vec<Hole> =
            if is_covered { holes(draft.times, draft.gaps, self.available) } else { Vec::new() };
        Chart {
            title: draft.title,
            unit: draft.unit.to_owned(),
            since_ms: to_ms(self.range.since_ns),
            until_ms: to_ms(self.range.until_ns),
            times: times(draft.times),
            body: draft.body,
            holes,
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

pub(super) fn line(label: impl Into<String>, ink: Ink, stroke: Stroke, values: Vec<Option<f64>>) -> Line {
    Line { label: label.into(), ink, stroke, values, highest: Vec::new() }
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
    Times { begin_ms: from.begins_ns().map(to_ms).collect(), width_ms: from.width_ns as f64 / 1e6 }
}

/// What a percentage is divided by, and how it is called.
pub(super) fn scale(percent: Percent, cpus: u32) -> (f64, &'static str) {
    match percent {
        Percent::Host if cpus > 0 => (f64::from(cpus), "%host: 100 = all CPUs"),
        _ => (1.0, "%CPU: 100 = one CPU"),
    }
}

/// Known holes, and points without data that none of them explains. `available`: what there is of the host.
pub(super) fn holes(times: &BucketTimes, gaps: &[Gap], available: Option<Available>) -> Vec<Hole> {
    let width_ms = times.width_ns as f64 / 1e6;
    let known = gaps.iter().map(|gap| Hole {
        begin_ms: to_ms(gap.begin_wall_ns),
        end_ms: to_ms(gap.end_wall_ns),
        reason: gap.reason.clone(),
    });
    let mut holes: Vec<Hole> = known.collect();
    // Only these are known reasons; holes added below must not explain the points after them.
    let gap_count = holes.len();
    let mut is_open = false;
    for (begin_ns, covered_ns) in times.begins_ns().zip(&times.covered_ns) {
        let begin_ms = to_ms(begin_ns);
        let end_ms = begin_ms + width_ms;
        let is_known = holes[..gap_count].iter().any(|gap| gap.begin_ms < end_ms && gap.end_ms > begin_ms);
        if *covered_ns > 0 || is_known {
            is_open = false;
            continue;
        }
        let reason = match available {
            // Data seldom begin or end exactly at a point's border, so one width is allowed.
            Some(known) if end_ms <= to_ms(known.first_ns) + width_ms => "before the first data",
            Some(known) if begin_ms >= to_ms(known.last_ns) - width_ms => "after the last data",
            _ => "no data",
        };
        match holes.last_mut().filter(|hole| is_open && hole.reason == reason) {
            Some(hole) => hole.end_ms = end_ms,
            None => holes.push(Hole { begin_ms, end_ms, reason: reason.to_owned() }),
        }
        is_open = true;
    }
    holes.sort_by(|a, b| a.begin_ms.total_cmp(&b.begin_ms));
    holes
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn every_point_without_data_has_a_reason() {
        let times = BucketTimes {
            resolution: None,
            begin_ns: 0,
            width_ns: 1_000_000,
            covered_ns: vec![0, 0, 5, 0, 0, 5, 0, 0],
        };
        let gap = Gap {
            begin_wall_ns: 3_000_000,
            end_wall_ns: 4_000_000,
            intervals: 1,
            reason: "restart".into(),
            wall_shift_ns: 0,
        };
        let found = holes(&times, &[gap], Some(Available { first_ns: 2_000_000, last_ns: 6_000_000 }));
        let found: Vec<_> = found.iter().map(|hole| (hole.begin_ms, hole.end_ms, &*hole.reason)).collect();
        let expected = [
            (0.0, 2.0, "before the first data"),
            (3.0, 4.0, "restart"),
            (4.0, 5.0, "no data"),
            (6.0, 8.0, "after the last data"),
        ];
        assert_eq!(found, expected);
    }
}
