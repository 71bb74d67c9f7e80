//! Compares two ranges of time, to answer "what grew?": one row for each group of processes, the largest change first. The page,
//! its file and the command line all use this.

use std::collections::HashMap;
use std::ops::ControlFlow;

use cpumon_model::{Delta, Fields, Interval, ProcessKey, Value};
use cpumon_store::{Plan, Query, Reader, Resolution, TimeRange, What};
use foldhash::fast::RandomState;

use crate::group::{OTHERS, group_name};
use crate::rows::RowSink;
use crate::source::Source;
use crate::{ExportError, ExportQuery, GroupBy, Progress, Report, Span};

/// Most groups; later ones are added up in one more.
const MAX_GROUPS: usize = 50_000;

/// A range of more than this many minutes is read from sums of a minute, one of more than this many hours from sums of an hour.
pub const COMPARE_POINTS: usize = 120;

/// Names of the columns after `host`, in order.
pub const COMPARE_COLUMNS: [&str; 17] = [
    "name",
    "pid",
    "start_ns",
    "before_cpu_pct",
    "after_cpu_pct",
    "change_cpu_pct",
    "before_run_ns",
    "after_run_ns",
    "before_user_ns",
    "after_user_ns",
    "before_system_ns",
    "after_system_ns",
    "before_run_delay_ns",
    "after_run_delay_ns",
    "before_duration_ns",
    "after_duration_ns",
    "grain",
];

/// One of the two ranges.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first range, `--before`.
    Before,
    /// The second range, `--after`.
    After,
}

/// What was measured in one range.
#[derive(Copy, Clone, Debug)]
struct Covered {
    measured_ns: u64,
    /// Counters that every interval of it has.
    fields: Fields,
    resolution: Option<Resolution>,
}

impl Default for Covered {
    fn default() -> Self {
        Self { measured_ns: 0, fields: Fields::all(), resolution: None }
    }
}

/// A group of processes, or a single process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    name: Box<str>,
    process: Option<ProcessKey>,
    /// Before and after.
    deltas: [Delta; 2],
}

/// Two ranges that are being added up.
#[derive(Debug, Default)]
pub struct Comparison {
    by: GroupBy,
    groups: Vec<Group>,
    positions: HashMap<(Box<str>, Option<ProcessKey>), usize, RandomState>,
    covered: [Covered; 2],
    others: [Delta; 2],
    folded: u64,
}

/// A row: a group before and after.
#[derive(Copy, Clone, Debug)]
pub struct Change<'c> {
    group: &'c Group,
    covered: &'c [Covered; 2],
}

impl Covered {
    /// Percent of one CPU; `None` if the range holds no data.
    fn cpu_pct(&self, delta: &Delta) -> Option<f64> {
        let is_known = self.measured_ns > 0 && self.fields.contains(Fields::RUN);
        is_known.then(|| delta.run_ns as f64 * 100.0 / self.measured_ns as f64)
    }

    fn ns(&self, needs: Fields, ns: i64) -> Value<'static> {
        if self.measured_ns > 0 && self.fields.contains(needs) { Value::Int(ns) } else { Value::Null }
    }
}

impl Comparison {
    /// A comparison without intervals.
    #[must_use]
    pub fn new(by: GroupBy) -> Self {
        Self { by, ..Self::default() }
    }

    /// Sets what a side is read from; `None` is single intervals.
    pub fn read_from(&mut self, side: Side, resolution: Option<Resolution>) {
        self.covered[side as usize].resolution = resolution;
    }

    /// Adds an interval, or a sum of some, to one side.
    pub fn add(&mut self, side: Side, interval: &Interval) {
        let covered = &mut self.covered[side as usize];
        covered.measured_ns = covered.measured_ns.saturating_add(interval.duration_ns());
        covered.fields &= interval.fields;
        for row in &interval.processes {
            let name = group_name(self.by, interval.source, &row.info);
            let process = (self.by == GroupBy::Process).then_some(row.key);
            match self.position(&name, process) {
                Some(at) => self.groups[at].deltas[side as usize] += &row.delta,
                None => self.others[side as usize] += &row.delta,
            }
        }
    }

    fn position(&mut self, name: &str, process: Option<ProcessKey>) -> Option<usize> {
        // A lookup by a borrowed pair would need a type of its own; names are short.
        let key = (Box::from(name), process);
        if let Some(&at) = self.positions.get(&key) {
            return Some(at);
        }
        if self.groups.len() >= MAX_GROUPS {
            self.folded += 1;
            return None;
        }
        self.groups.push(Group { name: key.0.clone(), process, deltas: [Delta::default(); 2] });
        self.positions.insert(key, self.groups.len() - 1);
        Some(self.groups.len() - 1)
    }

    /// Groups beyond the limit. Each is counted whenever it appears, so this is an upper bound.
    #[must_use]
    pub fn folded(&self) -> u64 {
        self.folded
    }

    /// Ends the adding up and orders the rows, the largest change first. If one range holds no data, the largest utilization in
    /// the other comes first.
    pub fn sort(&mut self) {
        if self.folded > 0 {
            let (name, deltas) = (OTHERS.into(), std::mem::take(&mut self.others));
            self.groups.push(Group { name, process: None, deltas });
            self.folded = 0;
        }
        let covered = &self.covered;
        let weight = |group: &Group| Change { group, covered }.weight();
        self.groups.sort_by(|a, b| {
            let by_change = weight(b).total_cmp(&weight(a));
            by_change.then_with(|| (&a.name, a.process).cmp(&(&b.name, b.process)))
        });
        self.positions = HashMap::default();
    }

    /// The rows in the order of [`Comparison::sort`].
    #[must_use]
    pub fn rows(&self) -> impl ExactSizeIterator<Item = Change<'_>> {
        self.groups.iter().map(|group| Change { group, covered: &self.covered })
    }

    /// Measured time of a side, ns; 0 if it holds no data.
    #[must_use]
    pub fn measured_ns(&self, side: Side) -> u64 {
        self.covered[side as usize].measured_ns
    }
}

/// `interval`, `minute` or `hour`: the coarser resolution of the two ranges.
fn coarser(covered: &[Covered; 2]) -> &'static str {
    let resolutions =
        covered.map(|side| side.resolution.map_or((0, "interval"), |sums| (sums.length_ns(), sums.name())));
    resolutions.into_iter().max_by_key(|of| of.0).map_or("interval", |of| of.1)
}

impl<'c> Change<'c> {
    fn pct(self, side: Side) -> Option<f64> {
        self.covered[side as usize].cpu_pct(&self.group.deltas[side as usize])
    }

    fn change(self) -> Option<f64> {
        Some(self.pct(Side::After)? - self.pct(Side::Before)?)
    }

    fn weight(self) -> f64 {
        let known = self.change().or_else(|| self.pct(Side::After)).or_else(|| self.pct(Side::Before));
        known.unwrap_or(0.0).abs()
    }

    /// The cells, in the order of [`COMPARE_COLUMNS`].
    #[must_use]
    pub fn cells(self) -> [Value<'c>; COMPARE_COLUMNS.len()] {
        let real = |value: Option<f64>| value.map_or(Value::Null, Value::Real);
        let ns = |side: Side, needs, part: fn(&Delta) -> i64| {
            self.covered[side as usize].ns(needs, part(&self.group.deltas[side as usize]))
        };
        let length = |side: Side| Value::count(self.covered[side as usize].measured_ns);
        let process = self.group.process;
        [
            Value::Text((&*self.group.name).into()),
            process.map_or(Value::Null, |key| Value::Int(i64::from(key.pid))),
            process.map_or(Value::Null, |key| Value::count(key.start_ns)),
            real(self.pct(Side::Before)),
            real(self.pct(Side::After)),
            real(self.change()),
            ns(Side::Before, Fields::RUN, |delta| delta.run_ns),
            ns(Side::After, Fields::RUN, |delta| delta.run_ns),
            ns(Side::Before, Fields::USER, |delta| delta.user_ns),
            ns(Side::After, Fields::USER, |delta| delta.user_ns),
            ns(Side::Before, Fields::SYSTEM, |delta| delta.system_ns),
            ns(Side::After, Fields::SYSTEM, |delta| delta.system_ns),
            ns(Side::Before, Fields::RUN_DELAY, |delta| delta.run_delay_ns),
            ns(Side::After, Fields::RUN_DELAY, |delta| delta.run_delay_ns),
            length(Side::Before),
            length(Side::After),
            Value::Text(coarser(self.covered).into()),
        ]
    }
}

/// The two ranges of a comparison.
pub(crate) fn ranges_of(query: &ExportQuery) -> Result<(Span, Span), ExportError> {
    query.spans.ok_or(ExportError::NoRanges)
}

/// Compares the two ranges of each host and writes the rows to `sink`.
pub(crate) fn run(
    reader: &Reader,
    query: &ExportQuery,
    sink: &mut dyn RowSink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, ExportError> {
    let (before, after) = ranges_of(query)?;
    let source = Source::open(reader, query, 1)?;
    let mut names = vec!["host"];
    names.extend(COMPARE_COLUMNS);
    sink.header(&names)?;
    let mut report = Report::default();
    for host in &source.hosts {
        let label = source.label(host);
        let mut comparison = Comparison::new(query.group_by);
        for (side, range) in [(Side::Before, before), (Side::After, after)] {
            let asked = Query::new(host.info.host).what(What::Processes).filter(source.filter().clone());
            report.intervals += add_range(reader, &asked, side, range, &mut comparison)?;
        }
        report.folded += comparison.folded();
        comparison.sort();
        for row in comparison.rows() {
            let mut cells = Vec::with_capacity(1 + COMPARE_COLUMNS.len());
            cells.push(Value::Text(label.as_str().into()));
            cells.extend(row.cells());
            sink.row(&cells)?;
            report.rows += 1;
        }
        report.hosts += u64::from(comparison.rows().len() > 0);
        progress(Progress { intervals: report.intervals, rows: report.rows, ratio: None });
    }
    Ok(report)
}

fn add_range(
    reader: &Reader,
    query: &Query,
    side: Side,
    range: Span,
    comparison: &mut Comparison,
) -> Result<u64, ExportError> {
    let Some(Plan { since_ns, until_ns, resolution, .. }) =
        reader.plan(query.host, TimeRange::new(range.0, range.1), COMPARE_POINTS)?
    else {
        return Ok(0);
    };
    comparison.read_from(side, resolution);
    let mut intervals = 0;
    reader.for_each_segment(&query.clone().range(since_ns, until_ns), resolution, &mut |span| {
        comparison.add(side, span.interval);
        intervals += 1;
        ControlFlow::Continue(())
    })?;
    Ok(intervals)
}
