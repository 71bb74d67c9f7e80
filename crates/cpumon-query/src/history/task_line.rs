//! One line of [`Lines`](super::Lines): [`LineSums`] adds up the spans of the task of a [`Selection`], and [`Lives`] finds when that task
//! began and ended. Sums have neither, and leave out a process that ran in one interval only: then the minute of its last row is read.

use std::collections::{BTreeMap, HashMap};

use cpumon_model::{
    BootId, Column, ColumnId, DelayHistogram, DelayOf, HostId, IntervalView, Kind, Life, LongestDelay,
    Moment, ProcessInterval, ProcessKey, Tables, ThreadInterval, ThreadKey, delay_percent,
};
use cpumon_store::{ProcessFilter, Query, Resolution, Segment, What};

use super::History;
use super::answers::{LineKind, TaskLine, is_extreme, shown_columns, summable};
use super::buckets::{Buckets, PointShare, Points, Presence, number, view_of};
use super::plot::Plot;
use crate::QueryError;
use crate::json::Nanos;
use crate::keys::{TaskKey, parse_process_key, parse_thread_key};
use crate::tally::{self, Group, GroupOf, Now, RowPart, SpanProcessRow, SpanThreadRow, Sums, Tally, TaskRow};
use crate::time::{PlotRange, TimeRange};

#[derive(Clone, Default)]
struct PointDelays {
    histogram: DelayHistogram,
    longest: LongestDelay,
}

/// A span with the points that it lies in.
pub(super) struct LineSpan<'s> {
    buckets: &'s Buckets,
    shares: &'s [PointShare],
    pub(super) span: &'s Segment<'s>,
    view: IntervalView<'s>,
}

impl<'s> LineSpan<'s> {
    pub(super) fn new(buckets: &'s Buckets, shares: &'s [PointShare], span: &'s Segment<'s>) -> Self {
        Self { buckets, shares, span, view: view_of(span) }
    }
}

/// Sums of a line while its spans are read.
#[derive(Clone, Default)]
pub(super) struct LineSums {
    pub(super) columns: Vec<(&'static Column, Points)>,
    /// Run delays by length, a histogram a point: percentiles of several intervals cannot be had from theirs.
    delays: Vec<PointDelays>,
    peak: Points,
    /// It is of one task, which has a begin and an end.
    is_task: bool,
    first_ns: Option<i64>,
    last_ns: Option<i64>,
    /// Start and end of the last sum it is in, if no interval came after it.
    last_sum: Option<TimeRange>,
    began_ns: Option<i64>,
    ended_ns: Option<i64>,
    presence: Presence,
}

pub(super) type LineGroup = Group<LineSums>;

impl LineSums {
    fn new(selection: &Selection, count: usize, wanted: &[String]) -> Self {
        let is_wanted = |column: &Column| wanted.is_empty() || wanted.iter().any(|name| name == column.name);
        let columns = shown_columns(selection.table())
            .filter(|column| column.kind == Kind::Integer && (summable(column) || is_extreme(column)))
            .filter(|column| is_wanted(column));
        let columns: Vec<_> = columns.map(|column| (column, Points::new(count))).collect();
        let has_percentiles = columns.iter().any(|(column, _)| delay_percent(column.id).is_some());
        Self {
            columns,
            delays: vec![PointDelays::default(); if has_percentiles { count } else { 0 }],
            peak: Points::new(count),
            is_task: !matches!(selection, Selection::Name(_)),
            ..Self::default()
        }
    }

    /// Idle is zero: in every measured point, every column that the interval measures has a value.
    fn touch(&mut self, at: &LineSpan<'_>, is_thread: bool) {
        let (process, thread) = (ProcessInterval::default(), ThreadInterval::default());
        let row = if is_thread { TaskRow::Thread(&thread) } else { TaskRow::Process(&process) };
        for (column, points) in &mut self.columns {
            if cell(&at.view, row, column.id).is_some() {
                put(points, column, at.shares, 0.0);
            }
        }
        for PointShare { at, .. } in at.shares {
            self.peak.raise(*at, 0.0);
        }
    }

    /// When a task began and ended, of those that have a key.
    fn live(&mut self, start_ns: u64, end: Moment, life: Life) {
        if !self.is_task {
            return;
        }
        // 0 is no time of a start: v1 devices send none.
        let age_ns = (start_ns > 0).then(|| end.boot_ns.checked_sub(start_ns)).flatten();
        if let Some(age_ns) = age_ns.and_then(|ns| i64::try_from(ns).ok()) {
            self.began_ns = end.wall_ns.checked_sub(age_ns);
        }
        if life.has_ended() {
            self.ended_ns = Some(end.wall_ns);
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

    /// When the task of its first row began: of several, the begin of the last one is known.
    fn first_began_ns(&self) -> Option<i64> {
        self.began_ns.filter(|_| !self.presence.has_boots())
    }

    /// Takes the zeros away of points in which the task was not there. `from_sums`: they do not say when it began or ended. Of the processes
    /// of a name neither is known then: they are there from break to break.
    fn blank(&mut self, plot: &Plot, from_sums: bool) {
        if from_sums || self.presence.is_unknown() {
            let seen = self.first_ns.zip(self.last_ns);
            let seen = seen.map(|(since_ns, until_ns)| TimeRange { since_ns, until_ns });
            let there = seen.map_or(TimeRange::ALL, |seen| self.presence.longest(seen, &plot.breaks));
            let range = TimeRange {
                since_ns: self.first_began_ns().unwrap_or(there.since_ns),
                until_ns: self.ended_ns.unwrap_or(there.until_ns),
            };
            self.presence.mark(&plot.buckets, range);
        } else {
            self.presence.close(&plot.buckets, &plot.breaks);
        }
        let presence = &self.presence;
        for (_, points) in &mut self.columns {
            points.blank(|at| presence.is_there(at));
        }
        self.peak.blank(|at| presence.is_there(at));
    }
}

impl Sums for LineSums {
    type Span<'s> = LineSpan<'s>;

    fn add(&mut self, at: &LineSpan<'_>, part: &RowPart<'_>) {
        let interval = at.span.interval;
        self.live(part.key.start_ns(), interval.end, part.life);
        self.presence.see_boot(part.boot);
        self.presence.see(at.buckets, part.key, at.span, part.life);
        for (column, points) in
            self.columns.iter_mut().filter(|(column, _)| delay_percent(column.id).is_none())
        {
            if let Some(value) = cell(&at.view, part.row, column.id) {
                put(points, column, at.shares, value);
            }
        }
        let (of, longest_ns) = match part.row {
            TaskRow::Process(row) => (DelayOf::Process(row.key), row.sched.longest_ns()),
            TaskRow::Thread(row) => (DelayOf::Thread(row.process, row.key), row.sched.longest_ns()),
        };
        let Some(delays) = interval.delays_of(of) else { return };
        for PointShare { at, .. } in at.shares {
            if let Some(sum) = self.delays.get_mut(*at) {
                sum.histogram += delays;
                sum.longest.add(longest_ns);
            }
        }
    }

    fn close(&mut self, at: &LineSpan<'_>, now: &Now) {
        let interval = at.span.interval;
        let most_ns_per_s = now.most_ns_per_s(interval.measured_in_ns());
        for PointShare { at, .. } in at.shares {
            self.peak.raise(*at, most_ns_per_s);
        }
        let time = at.span.time();
        self.first_ns.get_or_insert(time.since_ns);
        self.last_ns = Some(time.until_ns);
        self.last_sum = at.span.max_busy_ppm.map(|_| time);
    }
}

/// A tally of these selections, and the place of each: one may be there twice.
pub(super) fn begin(
    selections: &[Selection],
    count: usize,
    wanted: &[String],
) -> (Tally<LineSums>, Vec<usize>) {
    let mut tally = Tally::of_groups(LineSums::default(), selections.iter().map(Selection::group));
    let places: Vec<usize> = selections.iter().filter_map(|one| tally.place(one.group())).collect();
    for (selection, at) in selections.iter().zip(&places) {
        tally.groups[*at].sums = LineSums::new(selection, count, wanted);
    }
    (tally, places)
}

/// Adds the rows of a span that are selected.
pub(super) fn add_span(tally: &mut Tally<LineSums>, at: &LineSpan<'_>, selections: &[Selection]) {
    for group in &mut tally.groups {
        let is_thread = matches!(group.task, Some((_, TaskKey::Thread(_))));
        group.sums.touch(at, is_thread);
    }
    let interval = at.span.interval;
    for (nth, row) in interval.threads.iter().enumerate() {
        if selections.iter().any(|one| one.is_thread_row(row)) {
            let part = SpanThreadRow::at(at.span, nth).part;
            tally.add_row(GroupOf::by_key(&row.comm.to_str_lossy(), part.key), at, &part);
        }
    }
    for (nth, row) in interval.processes.iter().enumerate() {
        if selections.iter().any(|one| one.is_process(row)) {
            let part = SpanProcessRow::at(at.span, nth).part;
            tally.add_row(GroupOf::by_key(&row.info.name, part.key), at, &part);
            tally.add_row(GroupOf::named(tally::GroupKind::Whole, &row.info.name), at, &part);
        }
    }
    tally.close(at);
}

pub(super) fn finish(group: LineGroup, plot: &Plot, from_sums: bool) -> TaskLine {
    let Group { name, task, sums: mut line, .. } = group;
    line.fill_percentiles();
    line.blank(plot, from_sums);
    let columns = line.columns.iter().filter(|(_, points)| !points.is_empty());
    let key = task.map(|(_, task)| task);
    TaskLine {
        kind: match key {
            Some(TaskKey::Process(_)) => LineKind::Process,
            Some(TaskKey::Thread(_)) => LineKind::Thread,
            None => LineKind::Name,
        },
        key,
        name: (key.is_none() || line.first_ns.is_some()).then(|| name.into()),
        // A sum is longer than what there was of the task in it.
        first_ns: line.first_ns.max(line.first_began_ns().filter(|_| line.first_ns.is_some())).map(Nanos),
        last_ns: line
            .last_ns
            .map(|last_ns| Nanos(line.ended_ns.map_or(last_ns, |ended_ns| ended_ns.min(last_ns)))),
        began_ns: line.began_ns.map(Nanos),
        ended_ns: line.ended_ns.map(Nanos),
        columns: columns.map(|(column, points)| (column.name, points.finish())).collect(),
        max_run_ns_per_s: line.peak.finish(),
    }
}

/// Value of a column in a row; `None` if it is not a number.
fn cell(view: &IntervalView<'_>, row: TaskRow<'_>, id: ColumnId) -> Option<f64> {
    match row {
        TaskRow::Process(row) => number(&view.process(row, id)),
        TaskRow::Thread(row) => number(&view.thread(row, id)),
    }
}

/// A value into its points: split by time, or where it is a highest one, whole into each.
fn put(points: &mut Points, column: &Column, shares: &[PointShare], value: f64) {
    for PointShare { at, part } in shares {
        if is_extreme(column) {
            points.raise(*at, value);
        } else {
            points.add(*at, value * part);
        }
    }
}

/// What a line shows: one process, one thread, or all processes of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// One process.
    Process(ProcessKey),
    /// One thread.
    Thread {
        /// Id and start of the thread.
        key: ThreadKey,
        /// Its process, if the caller knows it: then the threads of others are not read.
        process: Option<ProcessKey>,
    },
    /// All processes of this name.
    Name(String),
}

impl Selection {
    pub(super) fn is_thread(&self) -> bool {
        matches!(self, Self::Thread { .. })
    }

    fn table(&self) -> Tables {
        if self.is_thread() { Tables::THREAD_INTERVAL } else { Tables::PROCESS_INTERVAL }
    }

    /// The group of a tally that the selection names.
    fn group(&self) -> GroupOf<'_> {
        match self {
            Self::Process(key) => GroupOf::by_key("", TaskKey::Process(*key)),
            Self::Thread { key, .. } => GroupOf::by_key("", TaskKey::Thread(*key)),
            Self::Name(name) => GroupOf::named(tally::GroupKind::Whole, name),
        }
    }

    fn is_process(&self, row: &ProcessInterval) -> bool {
        match self {
            Self::Process(key) => row.key == *key,
            Self::Name(name) => *row.info.name == **name,
            Self::Thread { .. } => false,
        }
    }

    fn is_thread_row(&self, row: &ThreadInterval) -> bool {
        matches!(self, Self::Thread { key, .. } if row.key == *key)
    }
}

/// Parses `TID-STARTNS`, or `PID-STARTNS/TID-STARTNS`.
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

/// Finds when processes of one host began and ended.
pub(super) struct Lives<'a> {
    pub(super) history: &'a History,
    pub(super) host: HostId,
    pub(super) range: PlotRange,
    pub(super) resolution: Resolution,
}

impl Lives<'_> {
    /// Sets when a line's process began and ended.
    pub(super) fn complete(&self, group: &mut LineGroup, buckets: &Buckets) -> Result<(), QueryError> {
        let Some((_, TaskKey::Process(key))) = group.task else { return Ok(()) };
        let line = &mut group.sums;
        if let Some(bucket) = line.last_sum {
            self.find_end(key, bucket, &mut |end, life| line.live(key.start_ns, end, life))?;
        }
        if line.began_ns.is_none() {
            let wanted = BTreeMap::from([(key, line.presence.first_boot())]);
            line.began_ns = self.began(&wanted)?.get(&key).copied();
        }
        match (line.first_ns, line.began_ns) {
            (None, Some(began_ns)) => self.add_short(group, key, began_ns, buckets),
            _ => Ok(()),
        }
    }

    /// When processes of these boots began, of those that the store knows.
    pub(super) fn began(
        &self,
        wanted: &BTreeMap<ProcessKey, Option<BootId>>,
    ) -> Result<HashMap<ProcessKey, i64>, QueryError> {
        if wanted.is_empty() {
            Ok(HashMap::new())
        } else {
            self.history.ask(|reader| reader.began(self.host, wanted))
        }
    }

    /// When a process ended, if it did in the last sum that it is in.
    pub(super) fn ended(&self, key: ProcessKey, bucket: TimeRange) -> Result<Option<i64>, QueryError> {
        let mut ended_ns = None;
        self.find_end(key, bucket, &mut |end, life| {
            if life.has_ended() {
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
            let mut segments = self.history.segments(&query, Some(Resolution::Minute))?;
            while let Some(segment) = segments.read()? {
                if !segment.interval.processes.is_empty() {
                    minute = segment.time();
                }
            }
        }
        let query = self.query(key, minute).without_sched();
        let mut segments = self.history.segments(&query, None)?;
        while let Some(Segment { interval, .. }) = segments.read()? {
            for row in &interval.processes {
                see(interval.end, row.life);
            }
        }
        Ok(())
    }

    /// Adds what a process did that is not named in sums.
    fn add_short(
        &self,
        group: &mut LineGroup,
        key: ProcessKey,
        began_ns: i64,
        buckets: &Buckets,
    ) -> Result<(), QueryError> {
        let Some(end_ns) = self.history.end_after(self.host, began_ns)? else { return Ok(()) };
        let since_ns = began_ns.saturating_sub(SLACK_NS).max(self.range.since_ns);
        let until_ns = end_ns.saturating_add(SLACK_NS).min(self.range.until_ns);
        let (selections, mut shares) = ([Selection::Process(key)], Vec::new());
        let mut alone = Tally::of_groups(std::mem::take(&mut group.sums), [group.of()]);
        let query = self.query(key, TimeRange { since_ns, until_ns });
        let mut segments = self.history.segments(&query, None)?;
        while let Some(segment) = segments.read()? {
            if !segment.interval.processes.is_empty() {
                // Not `cover`: the sums counted this time as measured already.
                buckets.place_of(&segment, &mut shares);
                add_span(&mut alone, &LineSpan::new(buckets, &shares, &segment), &selections);
            }
        }
        if let Some(line) = alone.groups.pop() {
            *group = line;
        }
        Ok(())
    }
}
