//! Chosen processes and threads over time. In: keys and names, a range. Out: a line each: every column that adds up, a value a
//! point, and the highest run time of a single interval.

use cpumon_model::{
    Column, ColumnId, DelayHistogram, DelayOf, Fields, HostStatus, IntervalView, Kind, Life, Moment,
    ProcessInterval, ProcessKey, Tables, ThreadInterval, ThreadKey, delay_percent,
};
use cpumon_store::{GapFinder, ProcessFilter, Query, Segment, What};

use super::buckets::{Points, number, view_of};
use super::life::Lives;
use super::past::MAX_GAPS;
use super::waits::WaitLines;
use super::{Buckets, Past, Range, is_extreme, summable};
use crate::api::{
    GapJson, LineJson, Lines, Nanos, Row, WaitLine, key_of_process, key_of_thread, shown_columns, to_ms,
};
use crate::problem::Problem;

/// What the scheduler's events tell: it is read only where a column wants it.
const OF_EVENTS: Fields = Fields::SCHED.union(Fields::WAITS).union(Fields::HISTOGRAMS);

/// What a line is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Process(ProcessKey),
    /// A thread, and whose it is if the asker knows: then the threads of others are not read.
    Thread(ThreadKey, Option<ProcessKey>),
    /// All processes of a name.
    Name(String),
}

impl Wish {
    fn is_thread(&self) -> bool {
        matches!(self, Self::Thread(..))
    }

    fn table(&self) -> Tables {
        if self.is_thread() { Tables::THREAD_INTERVAL } else { Tables::PROCESS_INTERVAL }
    }

    fn is_process(&self, row: &ProcessInterval) -> bool {
        match self {
            Self::Process(key) => row.key == *key,
            Self::Name(name) => *row.info.name == **name,
            Self::Thread(..) => false,
        }
    }

    fn is_thread_row(&self, row: &ThreadInterval) -> bool {
        matches!(self, Self::Thread(key, _) if row.key == *key)
    }
}

/// A line being added up.
pub(super) struct Building {
    pub(super) wish: Wish,
    name: Option<String>,
    columns: Vec<(&'static Column, Points)>,
    /// Run delays by length, a histogram a point: percentiles of several intervals cannot be had from theirs.
    delays: Vec<DelayHistogram>,
    peak: Points,
    pub(super) first_ns: Option<i64>,
    last_ns: Option<i64>,
    /// Begin and end of the last sum it is in, if no interval came after it.
    pub(super) last_sum: Option<(i64, i64)>,
    pub(super) began_ns: Option<i64>,
    ended_ns: Option<i64>,
}

impl Building {
    fn new(wish: Wish, count: usize, wanted: &[String]) -> Self {
        let is_wanted = |column: &Column| wanted.is_empty() || wanted.iter().any(|name| name == column.name);
        let columns = shown_columns(wish.table())
            .filter(|column| column.kind == Kind::Integer && (summable(column) || is_extreme(column)))
            .filter(|column| is_wanted(column));
        let columns: Vec<_> = columns.map(|column| (column, Points::new(count))).collect();
        let has_percentiles = columns.iter().any(|(column, _)| delay_percent(column.id).is_some());
        Self {
            columns,
            delays: vec![DelayHistogram::default(); if has_percentiles { count } else { 0 }],
            name: None,
            peak: Points::new(count),
            first_ns: None,
            last_ns: None,
            last_sum: None,
            began_ns: None,
            ended_ns: None,
            wish,
        }
    }

    /// Idle is zero: every point that was measured has a value for what is measured at all.
    fn touch(&mut self, shares: &[(usize, f64)], view: &IntervalView<'_>) {
        let (process, thread) = (ProcessInterval::default(), ThreadInterval::default());
        for (column, points) in &mut self.columns {
            let cell = if self.wish.is_thread() {
                view.thread(&thread, column.id)
            } else {
                view.process(&process, column.id)
            };
            if number(&cell).is_some() {
                put(points, column, shares, 0.0);
            }
        }
        for (at, _) in shares {
            self.peak.raise(*at, 0.0);
        }
    }

    fn add(
        &mut self,
        span: &Segment<'_>,
        shares: &[(usize, f64)],
        of: DelayOf,
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
            for (at, _) in shares {
                if let Some(sum) = self.delays.get_mut(*at) {
                    *sum += delays;
                }
            }
        }
        let (begin_ns, end_ns) = (span.interval.begin.wall_ns, span.interval.end.wall_ns);
        self.first_ns.get_or_insert(begin_ns);
        self.last_ns = Some(end_ns);
        self.last_sum = span.max_busy_ppm.map(|_| (begin_ns, end_ns));
    }

    /// When a task began and ended, of those that have a key.
    pub(super) fn live(&mut self, end: Moment, life: Life) {
        let start_ns = match &self.wish {
            Wish::Process(key) => key.start_ns,
            Wish::Thread(key, _) => key.start_ns,
            Wish::Name(_) => return,
        };
        let age_ns = (start_ns > 0).then(|| end.boot_ns.checked_sub(start_ns)).flatten();
        if let Some(age_ns) = age_ns.and_then(|ns| i64::try_from(ns).ok()) {
            self.began_ns = end.wall_ns.checked_sub(age_ns);
        }
        if matches!(life, Life::Ended | Life::BornEnded) {
            self.ended_ns = Some(end.wall_ns);
        }
    }

    pub(super) fn see(&mut self, span: &Segment<'_>, view: &IntervalView<'_>, shares: &[(usize, f64)]) {
        self.touch(shares, view);
        let wish = self.wish.clone();
        let (mut run_ns, mut peak) = (0_i64, 0.0_f64);
        for row in span.interval.threads.iter().filter(|row| wish.is_thread_row(row)) {
            self.name = Some(row.comm.to_str_lossy().into_owned());
            let of = DelayOf::Thread(row.process, row.key);
            self.live(span.interval.end, row.life);
            self.add(span, shares, of, |id| number(&view.thread(row, id)));
            run_ns = run_ns.saturating_add(row.delta.run_ns);
        }
        for (at, row) in span.interval.processes.iter().enumerate().filter(|(_, row)| wish.is_process(row)) {
            self.name = Some(row.info.name.to_string());
            self.live(span.interval.end, row.life);
            self.add(span, shares, DelayOf::Process(row.key), |id| number(&view.process(row, id)));
            run_ns = run_ns.saturating_add(row.delta.run_ns);
            peak = peak.max(span.max_run_ns_per_s.get(at).map_or(0.0, |peak| *peak as f64));
        }
        // All of a name together. Sums tell the highest of each alone: all of them had their mean at least.
        let together = run_ns as f64 * 1e9 / (span.interval.duration_ns() as f64).max(1.0);
        for (at, _) in shares {
            self.peak.raise(*at, peak.max(together));
        }
    }

    /// The percentiles of each point, of all its run delays.
    fn fill_percentiles(&mut self) {
        for (column, points) in &mut self.columns {
            let Some(percent) = delay_percent(column.id) else { continue };
            for (at, delays) in self.delays.iter().enumerate() {
                if let Some(ns) = delays.percentile_ns(percent) {
                    points.raise(at, ns as f64);
                }
            }
        }
    }

    fn finish(mut self) -> LineJson {
        self.fill_percentiles();
        let columns = self.columns.iter().filter(|(_, points)| !points.is_empty());
        let (kind, key) = match &self.wish {
            Wish::Process(key) => ("process", Some(key_of_process(*key))),
            Wish::Thread(key, _) => ("thread", Some(key_of_thread(*key))),
            Wish::Name(_) => ("name", None),
        };
        let name = match self.wish {
            Wish::Name(name) => Some(name),
            _ => self.name,
        };
        LineJson {
            kind,
            key,
            name,
            // A sum is longer than what there was of the task in it.
            first_ms: self.first_ns.max(self.began_ns.filter(|_| self.first_ns.is_some())).map(to_ms),
            last_ms: self
                .last_ns
                .map(|last_ns| to_ms(self.ended_ns.map_or(last_ns, |ended_ns| ended_ns.min(last_ns)))),
            began_ms: self.began_ns.map(to_ms),
            ended_ms: self.ended_ns.map(to_ms),
            columns: Row(columns.map(|(column, points)| (column.name.into(), points.finish())).collect()),
            max_run_ns_per_s: self.peak.finish(),
        }
    }
}

/// A value into its points: split by time, or where it is a highest one, whole into each.
fn put(points: &mut Points, column: &Column, shares: &[(usize, f64)], value: f64) {
    for (at, share) in shares {
        if is_extreme(column) {
            points.raise(*at, value);
        } else {
            points.add(*at, value * share);
        }
    }
}

/// The narrowest filter that lets pass what is wanted.
fn filter_of(wishes: &[Wish]) -> ProcessFilter {
    match wishes {
        [Wish::Process(key)] => ProcessFilter::Key(*key),
        [Wish::Name(name)] => ProcessFilter::Name(name.as_str().into()),
        _ => {
            let owner = |wish: &Wish| match wish {
                Wish::Process(key) | Wish::Thread(_, Some(key)) => Some(*key),
                _ => None,
            };
            let owners: Option<_> = wishes.iter().map(owner).collect();
            owners.map_or(ProcessFilter::All, ProcessFilter::AnyOf)
        }
    }
}

/// See the module. Threads are read from intervals, whatever the range: no sums are kept of them. `wanted`: names of columns;
/// none: all.
pub(crate) fn lines(
    past: &Past,
    host: &HostStatus,
    range: Range,
    wishes: Vec<Wish>,
    wanted: &[String],
) -> Result<Lines, Problem> {
    walk(past, host, range, (wishes, wanted), None)
}

/// One process, and what it was blocked by.
pub(crate) fn process(
    past: &Past,
    host: &HostStatus,
    range: Range,
    key: ProcessKey,
) -> Result<(Lines, Vec<WaitLine>), Problem> {
    let mut waits = WaitLines::new(key, range.points.saturating_add(1));
    let lines = walk(past, host, range, (vec![Wish::Process(key)], &[]), Some(&mut waits))?;
    let waits = waits.finish(lines.times.t_ms.len());
    Ok((lines, waits))
}

fn walk(
    past: &Past,
    host: &HostStatus,
    range: Range,
    (wishes, wanted): (Vec<Wish>, &[String]),
    mut waits: Option<&mut WaitLines>,
) -> Result<Lines, Problem> {
    let id = host.info.host;
    let mut plan = past.plan(id, range)?;
    let with_threads = wishes.iter().any(Wish::is_thread);
    if with_threads && plan.resolution.is_some() {
        plan.resolution = None;
    }
    let mut buckets = Buckets::new(range, &plan);
    let mut gaps = GapFinder::new(past.losses(id, (range.since_ns, range.until_ns))?, MAX_GAPS);
    let what = if with_threads { What::Threads } else { What::Processes };
    let mut query = Query::new(id).range(plan.since_ns, plan.until_ns).what(what).filter(filter_of(&wishes));
    let mut building: Vec<Building> =
        wishes.into_iter().map(|wish| Building::new(wish, buckets.count(), wanted)).collect();
    if !building.iter().flat_map(|line| &line.columns).any(|(column, _)| column.needs.intersects(OF_EVENTS)) {
        query = query.without_sched();
    }
    let mut shares = Vec::new();
    past.for_each(&query, plan.resolution, &mut |span| {
        buckets.cover(span, &mut shares);
        gaps.see(span.interval);
        let view = view_of(span);
        for line in &mut building {
            line.see(span, &view, &shares);
        }
        if let Some(waits) = &mut waits {
            waits.see(span, &shares);
        }
    })?;
    if let Some(grain) = plan.resolution {
        let lives = Lives { past, host: id, range, grain };
        for line in &mut building {
            lives.tell(line, &buckets)?;
        }
    }
    Ok(Lines {
        since_ns: Nanos(range.since_ns),
        until_ns: Nanos(range.until_ns),
        times: buckets.times(),
        lines: building.into_iter().map(Building::finish).collect(),
        gaps: gaps.finish().iter().map(GapJson::from).collect(),
    })
}
