//! [`Building`]: one line while it is added up, a value a point for each of its columns.

use cpumon_model::{
    Column, ColumnId, DelayHistogram, DelayOf, IntervalView, Kind, Life, LongestDelay, Moment,
    ProcessInterval, ThreadInterval, delay_percent,
};
use cpumon_store::Segment;

use super::answers::{LineKind, TaskLine};
use super::buckets::{Buckets, Points, Share, number};
use super::columns::{is_extreme, shown_columns, summable};
use super::presence::Presence;
use super::selection::Selection;
use crate::keys::TaskKey;
use crate::time::TimeRange;

/// The run delays of a point.
#[derive(Clone, Default)]
struct PointDelays {
    histogram: DelayHistogram,
    longest: LongestDelay,
}

/// A line being added up.
pub(super) struct Building {
    pub(super) selection: Selection,
    name: Option<String>,
    pub(super) columns: Vec<(&'static Column, Points)>,
    /// Run delays by length, a histogram a point: percentiles of several intervals cannot be had from theirs.
    delays: Vec<PointDelays>,
    peak: Points,
    pub(super) first_ns: Option<i64>,
    last_ns: Option<i64>,
    /// Start and end of the last sum it is in, if no interval came after it.
    pub(super) last_sum: Option<TimeRange>,
    pub(super) began_ns: Option<i64>,
    ended_ns: Option<i64>,
    presence: Presence,
}

impl Building {
    pub(super) fn new(selection: Selection, count: usize, wanted: &[String]) -> Self {
        let is_wanted = |column: &Column| wanted.is_empty() || wanted.iter().any(|name| name == column.name);
        let columns = shown_columns(selection.table())
            .filter(|column| column.kind == Kind::Integer && (summable(column) || is_extreme(column)))
            .filter(|column| is_wanted(column));
        let columns: Vec<_> = columns.map(|column| (column, Points::new(count))).collect();
        let has_percentiles = columns.iter().any(|(column, _)| delay_percent(column.id).is_some());
        Self {
            columns,
            delays: vec![PointDelays::default(); if has_percentiles { count } else { 0 }],
            name: None,
            peak: Points::new(count),
            first_ns: None,
            last_ns: None,
            last_sum: None,
            began_ns: None,
            ended_ns: None,
            presence: Presence::default(),
            selection,
        }
    }

    /// Idle is zero: every point that was measured has a value for what is measured at all.
    fn touch(&mut self, shares: &[Share], view: &IntervalView<'_>) {
        let (process, thread) = (ProcessInterval::default(), ThreadInterval::default());
        for (column, points) in &mut self.columns {
            let cell = if self.selection.is_thread() {
                view.thread(&thread, column.id)
            } else {
                view.process(&process, column.id)
            };
            if number(&cell).is_some() {
                put(points, column, shares, 0.0);
            }
        }
        for Share { at, .. } in shares {
            self.peak.raise(*at, 0.0);
        }
    }

    fn add(
        &mut self,
        span: &Segment<'_>,
        shares: &[Share],
        of: DelayOf,
        longest_ns: Option<u64>,
        cell: impl Fn(ColumnId) -> Option<f64>,
    ) {
        for (column, points) in
            self.columns.iter_mut().filter(|(column, _)| delay_percent(column.id).is_none())
        {
            if let Some(value) = cell(column.id) {
                put(points, column, shares, value);
            }
        }
        if let Some(delays) = span.interval.delays_of(of) {
            for Share { at, .. } in shares {
                if let Some(sum) = self.delays.get_mut(*at) {
                    sum.histogram += delays;
                    sum.longest.add(longest_ns);
                }
            }
        }
        let (begin_ns, end_ns) = (span.interval.begin.wall_ns, span.interval.end.wall_ns);
        self.first_ns.get_or_insert(begin_ns);
        self.last_ns = Some(end_ns);
        self.last_sum = span.max_busy_ppm.map(|_| TimeRange { since_ns: begin_ns, until_ns: end_ns });
    }

    /// When a task began and ended, of those that have a key.
    pub(super) fn live(&mut self, end: Moment, life: Life) {
        let start_ns = match &self.selection {
            Selection::Process(key) => key.start_ns,
            Selection::Thread { key, .. } => key.start_ns,
            Selection::Name(_) => return,
        };
        // 0 is no time of a start: v1 devices send none.
        let age_ns = (start_ns > 0).then(|| end.boot_ns.checked_sub(start_ns)).flatten();
        if let Some(age_ns) = age_ns.and_then(|ns| i64::try_from(ns).ok()) {
            self.began_ns = end.wall_ns.checked_sub(age_ns);
        }
        if matches!(life, Life::Ended | Life::BornEnded) {
            self.ended_ns = Some(end.wall_ns);
        }
    }

    pub(super) fn see(
        &mut self,
        buckets: &Buckets,
        span: &Segment<'_>,
        view: &IntervalView<'_>,
        shares: &[Share],
    ) {
        self.touch(shares, view);
        let selection = self.selection.clone();
        let (mut run_ns, mut peak) = (0_i64, 0.0_f64);
        for row in span.interval.threads.iter().filter(|row| selection.is_thread_row(row)) {
            self.name = Some(row.comm.to_str_lossy().into_owned());
            let of = DelayOf::Thread(row.process, row.key);
            self.live(span.interval.end, row.life);
            self.presence.see(buckets, row.key.into(), span, row.life);
            self.add(span, shares, of, row.sched.longest_ns(), |id| number(&view.thread(row, id)));
            run_ns = run_ns.saturating_add(row.delta.run_ns);
        }
        for (at, row) in
            span.interval.processes.iter().enumerate().filter(|(_, row)| selection.is_process(row))
        {
            self.name = Some(row.info.name.to_string());
            self.live(span.interval.end, row.life);
            self.presence.see(buckets, row.key.into(), span, row.life);
            self.add(span, shares, DelayOf::Process(row.key), row.sched.longest_ns(), |id| {
                number(&view.process(row, id))
            });
            run_ns = run_ns.saturating_add(row.delta.run_ns);
            peak = peak.max(span.max_run_ns_per_s.get(at).map_or(0.0, |peak| *peak as f64));
        }
        // All of a name together. Sums hold the highest of each process alone: together they had at least their mean.
        let together = run_ns as f64 * 1e9 / (span.interval.measured_in_ns() as f64).max(1.0);
        for Share { at, .. } in shares {
            self.peak.raise(*at, peak.max(together));
        }
    }

    /// The percentiles of each point, of all its run delays.
    fn fill_percentiles(&mut self) {
        for (column, points) in &mut self.columns {
            let Some(percent) = delay_percent(column.id) else { continue };
            for (at, delays) in self.delays.iter().enumerate() {
                if let Some(ns) = delays.histogram.percentile_ns(percent, delays.longest.ns()) {
                    points.raise(at, ns as f64);
                }
            }
        }
    }

    /// Takes the zeros away of points in which the task was not there. `from_sums`: they do not say when it began or ended.
    fn blank(&mut self, buckets: &Buckets, from_sums: bool) {
        match &self.selection {
            // Of the processes of a name neither begin nor end is known then.
            Selection::Name(_) if from_sums => return,
            _ if from_sums || self.presence.is_unknown() => self.presence.mark(
                buckets,
                TimeRange {
                    since_ns: self.began_ns.unwrap_or(i64::MIN),
                    until_ns: self.ended_ns.unwrap_or(i64::MAX),
                },
            ),
            _ => self.presence.close(buckets),
        }
        let presence = &self.presence;
        for (_, points) in &mut self.columns {
            points.blank(|at| presence.is_there(at));
        }
        self.peak.blank(|at| presence.is_there(at));
    }

    pub(super) fn finish(mut self, buckets: &Buckets, from_sums: bool) -> TaskLine {
        self.fill_percentiles();
        self.blank(buckets, from_sums);
        let columns = self.columns.iter().filter(|(_, points)| !points.is_empty());
        let (kind, key) = match &self.selection {
            Selection::Process(key) => (LineKind::Process, Some(TaskKey::Process(*key))),
            Selection::Thread { key, .. } => (LineKind::Thread, Some(TaskKey::Thread(*key))),
            Selection::Name(_) => (LineKind::Name, None),
        };
        let name = match self.selection {
            Selection::Name(name) => Some(name),
            _ => self.name,
        };
        TaskLine {
            kind,
            key,
            name,
            // A sum is longer than what there was of the task in it.
            first_ns: self.first_ns.max(self.began_ns.filter(|_| self.first_ns.is_some())),
            last_ns: self
                .last_ns
                .map(|last_ns| self.ended_ns.map_or(last_ns, |ended_ns| ended_ns.min(last_ns))),
            began_ns: self.began_ns,
            ended_ns: self.ended_ns,
            columns: columns.map(|(column, points)| (column.name, points.finish())).collect(),
            max_run_ns_per_s: self.peak.finish(),
        }
    }
}

/// A value into its points: split by time, or where it is a highest one, whole into each.
fn put(points: &mut Points, column: &Column, shares: &[Share], value: f64) {
    for Share { at, part } in shares {
        if is_extreme(column) {
            points.raise(*at, value);
        } else {
            points.add(*at, value * part);
        }
    }
}
