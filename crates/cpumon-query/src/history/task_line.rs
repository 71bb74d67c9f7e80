//! [`Building`]: one line of [`Lines`](super::Lines) while it is added up, of the task of a [`Selection`]; and when that task began and
//! ended. Sums have neither, and leave out a process that ran in one interval only: then the minute of its last row is read.

use std::collections::HashMap;

use cpumon_model::{
    Column, ColumnId, DelayHistogram, DelayOf, HostId, IntervalView, Kind, Life, LongestDelay, Moment,
    ProcessInterval, ProcessKey, Tables, ThreadInterval, ThreadKey, delay_percent,
};
use cpumon_store::{ProcessFilter, Query, Resolution, Segment, What};

use super::answers::{LineKind, TaskLine};
use super::buckets::{Buckets, Points, Share, number, view_of};
use super::columns::{is_extreme, shown_columns, summable};
use super::past::History;
use super::presence::Presence;
use crate::QueryError;
use crate::keys::TaskKey;
use crate::parse::{parse_process_key, parse_thread_key};
use crate::time::{PlotRange, TimeRange};

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

/// What a line is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// One process.
    Process(ProcessKey),
    /// One thread.
    Thread {
        /// Its key.
        key: ThreadKey,
        /// Its process, if the caller knows it: then the threads of others are not read.
        process: Option<ProcessKey>,
    },
    /// All processes of a name.
    Name(String),
}

impl Selection {
    pub(super) fn is_thread(&self) -> bool {
        matches!(self, Self::Thread { .. })
    }

    pub(super) fn table(&self) -> Tables {
        if self.is_thread() { Tables::THREAD_INTERVAL } else { Tables::PROCESS_INTERVAL }
    }

    pub(super) fn is_process(&self, row: &ProcessInterval) -> bool {
        match self {
            Self::Process(key) => row.key == *key,
            Self::Name(name) => *row.info.name == **name,
            Self::Thread { .. } => false,
        }
    }

    pub(super) fn is_thread_row(&self, row: &ThreadInterval) -> bool {
        matches!(self, Self::Thread { key, .. } if row.key == *key)
    }
}

/// Reads `TID-STARTNS`, or `PID-STARTNS/TID-STARTNS`.
pub fn parse_thread_selection(text: &str) -> Result<Selection, QueryError> {
    let (process, thread) = match text.split_once('/') {
        Some((process, thread)) => (Some(process), thread),
        None => (None, text),
    };
    let key = parse_thread_key(thread)?;
    Ok(Selection::Thread { key, process: process.map(parse_process_key).transpose()? })
}

/// Time since boot and the wall clock are not read at the same instant, and the latter may have been set in between.
const SLACK_NS: i64 = 1_000_000_000;

/// What is known of one host.
pub(super) struct Lives<'a> {
    pub(super) history: &'a History,
    pub(super) host: HostId,
    pub(super) range: PlotRange,
    pub(super) resolution: Resolution,
}

impl Lives<'_> {
    /// Sets when a line's process began and ended.
    pub(super) fn complete(&self, line: &mut Building, buckets: &Buckets) -> Result<(), QueryError> {
        let Selection::Process(key) = line.selection else { return Ok(()) };
        if let Some(bucket) = line.last_sum {
            self.find_end(key, bucket, &mut |end, life| line.live(end, life))?;
        }
        if line.began_ns.is_none() {
            line.began_ns = self.began(&[key])?.get(&key).copied();
        }
        match (line.first_ns, line.began_ns) {
            (None, Some(began_ns)) => self.add_short(line, key, began_ns, buckets),
            _ => Ok(()),
        }
    }

    /// When processes began, of those that the store knows.
    pub(super) fn began(&self, keys: &[ProcessKey]) -> Result<HashMap<ProcessKey, i64>, QueryError> {
        if keys.is_empty() { Ok(HashMap::new()) } else { self.history.began(self.host, keys) }
    }

    /// When a process ended, if it did in the last sum that it is in.
    pub(super) fn ended(&self, key: ProcessKey, bucket: TimeRange) -> Result<Option<i64>, QueryError> {
        let mut ended_ns = None;
        self.find_end(key, bucket, &mut |end, life| {
            if matches!(life, Life::Ended | Life::BornEnded) {
                ended_ns = Some(end.wall_ns);
            }
        })?;
        Ok(ended_ns)
    }

    fn query(&self, key: ProcessKey, range: TimeRange) -> Query {
        let query = Query::new(self.host)
            .range(range.since_ns, range.until_ns)
            .what(What::Processes)
            .without_resting();
        query.filter(ProcessFilter::Key(key))
    }

    /// Reads the intervals of the last minute in which it did something: there is its end, if it ended.
    fn find_end(
        &self,
        key: ProcessKey,
        bucket: TimeRange,
        see: &mut dyn FnMut(Moment, Life),
    ) -> Result<(), QueryError> {
        let mut minute = bucket;
        // The sums of minutes find the minute, so intervals of one minute are read instead of sixty.
        if self.resolution == Resolution::Hour {
            let query = self.query(key, bucket).without_sched();
            self.history.for_each(&query, Some(Resolution::Minute), &mut |span| {
                if !span.interval.processes.is_empty() {
                    let (begin, end) = (span.interval.begin, span.interval.end);
                    minute = TimeRange { since_ns: begin.wall_ns, until_ns: end.wall_ns };
                }
            })?;
        }
        let query = self.query(key, minute).without_sched();
        self.history.for_each(&query, None, &mut |span| {
            for row in &span.interval.processes {
                see(span.interval.end, row.life);
            }
        })
    }

    /// Adds what a process did that is not named in sums.
    fn add_short(
        &self,
        line: &mut Building,
        key: ProcessKey,
        began_ns: i64,
        buckets: &Buckets,
    ) -> Result<(), QueryError> {
        let Some(end_ns) = self.history.end_after(self.host, began_ns)? else { return Ok(()) };
        let since_ns = began_ns.saturating_sub(SLACK_NS).max(self.range.since_ns);
        let until_ns = end_ns.saturating_add(SLACK_NS).min(self.range.until_ns);
        let mut shares = Vec::new();
        self.history.for_each(&self.query(key, TimeRange { since_ns, until_ns }), None, &mut |span| {
            if !span.interval.processes.is_empty() {
                // Not `cover`: the sums counted this time as measured already.
                buckets.place_of(span, &mut shares);
                line.see(buckets, span, &view_of(span), &shares);
            }
        })
    }
}
