//! Tasks by time: the landscape of a host's processes, and the threads of one process. The busiest rows come first; the others are
//! added up in one.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;

use cpumon_model::{BootId, HostStatus, Life, Moment, ProcessInterval, ProcessKey, SourceKind, ThreadKey};
use cpumon_store::{ProcessFilter, Query, Segment, What};
use serde::Deserialize;
use utoipa::ToSchema;

use super::answers::{Matrix, MatrixRow, Values};
use super::buckets::{Buckets, Share};
use super::past::History;
use super::plot::Plot;
use super::presence::{Presence, TaskStart};
use super::task_line::Lives;
use crate::QueryError;
use crate::group::{GroupBy, group_name};
use crate::keys::TaskKey;
use crate::time::{PlotRange, TimeRange};

/// Walks a range, in parts at the same time where that pays, and lets `add` put each interval's rows in.
fn build<K: Hash + Eq + Ord + Send>(
    history: &History,
    query: &Query,
    range: PlotRange,
    shown: ShownRows,
    key: impl Fn(&K) -> Option<TaskKey>,
    add: impl Fn(&mut TaskRows<K>, &Plot, &Segment<'_>) + Sync,
) -> Result<Matrix, QueryError> {
    // There are no sums of threads.
    let empty = Plot::new(history, query.host, range, query.what == What::Threads)?;
    let query = query.clone().without_sched();
    let read = |history: &History, part: TimeRange| {
        let (mut plot, mut rows) = (empty.clone(), TaskRows::new());
        plot.read(history, &query, part, &mut |plot, span| {
            add(&mut rows, plot, span);
            rows.fold();
        })?;
        Ok((plot, rows))
    };
    // Sums are read in a moment, and one of them may lie on an edge.
    let parts = if empty.plan.resolution.is_none() { history.parts(empty.time()) } else { 1 };
    let made = history.in_parts(empty.time(), parts, read)?;
    let whole = made.into_iter().reduce(|(mut plot, mut rows), later| {
        plot.append(later.0);
        rows.append(later.1);
        (plot, rows)
    });
    let (plot, rows) = whole.unwrap_or_else(|| (empty, TaskRows::new()));
    let lives = plot.plan.resolution.map(|resolution| Lives { history, host: query.host, range, resolution });
    let (total, rows, other) = rows.finish(&plot.buckets, shown, lives.as_ref(), key)?;
    let (times, gaps) = plot.finish(history)?;
    Ok(Matrix { since_ns: range.since_ns, until_ns: range.until_ns, times, total, rows, other, gaps })
}

/// The busiest processes of a host over time.
pub fn landscape(
    history: &History,
    host: &HostStatus,
    range: PlotRange,
    by: GroupBy,
    shown: ShownRows,
) -> Result<Matrix, QueryError> {
    let query = Query::new(host.info.host).what(What::Processes);
    if by == GroupBy::Process {
        let key = |key: &ProcessKey| Some(TaskKey::Process(*key));
        return build(history, &query, range, shown, key, add_processes);
    }
    let add = |rows: &mut TaskRows<String>, plot: &Plot, span: &Segment<'_>| add_groups(rows, plot, span, by);
    build(history, &query, range, shown, |_: &String| None, add)
}

/// The process rows of a span.
fn ran<'a>(span: &'a Segment<'_>) -> impl Iterator<Item = (&'a ProcessInterval, Ran)> {
    let most = |at: usize| span.max_run_ns_per_s.get(at).copied();
    span.interval.processes.iter().enumerate().map(move |(at, row)| {
        let ran =
            Ran { run_ns: row.delta.run_ns, most_ns_per_s: most(at), life: row.life, task: row.key.into() };
        (row, ran)
    })
}

fn add_groups(rows: &mut TaskRows<String>, plot: &Plot, span: &Segment<'_>, by: GroupBy) {
    let interval = span.interval;
    let is_sum = span.max_busy_ppm.is_some();
    for (at, (row, ran)) in ran(span).enumerate() {
        // Sums do not name their source; only v1 devices send no boot. One row has all short-lived processes of a description.
        let boot = span.boots.get(at).copied().unwrap_or(interval.boot);
        let is_v1 = is_sum && boot == BootId::default() && row.key.pid != 0;
        let source = if is_v1 { SourceKind::V1 } else { interval.source };
        let name = group_name(by, source, &row.info).into_owned();
        rows.add(name.clone(), || name, plot, span, ran);
    }
}

fn add_processes(rows: &mut TaskRows<ProcessKey>, plot: &Plot, span: &Segment<'_>) {
    for (row, ran) in ran(span) {
        rows.add(row.key, || row.info.name.to_string(), plot, span, ran);
    }
}

/// The busiest threads of a process over time.
pub fn threads(
    history: &History,
    host: &HostStatus,
    range: PlotRange,
    process: ProcessKey,
    shown: ShownRows,
) -> Result<Matrix, QueryError> {
    let query = Query::new(host.info.host).what(What::Threads).filter(ProcessFilter::Key(process));
    let add = |rows: &mut TaskRows<ThreadKey>, plot: &Plot, span: &Segment<'_>| {
        // Intervals in memory have all threads: only the store applies the filter.
        for row in span.interval.threads.iter().filter(|row| row.process == process) {
            let name = || row.comm.to_str_lossy().into_owned();
            let ran =
                Ran { run_ns: row.delta.run_ns, most_ns_per_s: None, life: row.life, task: row.key.into() };
            rows.add(row.key, name, plot, span, ran);
        }
    };
    build(history, &query, range, shown, |key: &ThreadKey| Some(TaskKey::Thread(*key)), add)
}

/// Tasks counted apart while adding up; further ones go into the rest.
const MAX_TASKS: usize = 50_000;

/// Which rows come first.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MatrixSort {
    /// Those with the most run time in the range.
    #[default]
    Run,
    /// Those with the highest single interval in it.
    Highest,
}

/// Rows that are given, and their order.
#[derive(Copy, Clone, Debug)]
pub struct ShownRows {
    /// Which come first.
    pub sort: MatrixSort,
    /// Left out at the beginning.
    pub offset: usize,
    /// Most rows of the answer.
    pub limit: usize,
}

/// Sums of points are shortened when there are this many.
const FOLD: usize = 1 << 20;

/// A row of a span: what ran, at most in one interval of it (of sums, ns per second), and what is known of its life.
#[derive(Copy, Clone)]
pub(super) struct Ran {
    pub(super) run_ns: i64,
    pub(super) most_ns_per_s: Option<i64>,
    pub(super) life: Life,
    /// Which task it is: a row of a name has several.
    pub(super) task: TaskStart,
}

/// One point of a row.
#[derive(Copy, Clone)]
struct Cell {
    at: usize,
    run_ns: f64,
    most_ns_per_s: f64,
}

/// A row being added up; points without run time are left out.
#[derive(Default)]
struct RowSum {
    name: String,
    cells: Vec<Cell>,
    total_ns: i64,
    most_ns_per_s: f64,
    first_ns: i64,
    /// End of the last span, and what ran in it: a name has several processes.
    last: Moment,
    last_run_ns: i64,
    /// The last span on the wall clock.
    last_sum: TimeRange,
    born: bool,
    ended: bool,
    presence: Presence,
}

impl RowSum {
    fn add(&mut self, buckets: &Buckets, span: &Segment<'_>, shares: &[Share], ran: Ran) {
        self.presence.see(buckets, ran.task, span, ran.life);
        let (begin, end) = (span.interval.begin, span.interval.end);
        self.last_sum = TimeRange { since_ns: begin.wall_ns, until_ns: end.wall_ns };
        self.total_ns = self.total_ns.saturating_add(ran.run_ns);
        // The same end means the same span, and so another process of this name.
        self.last_run_ns = ran.run_ns.saturating_add(if self.last == end { self.last_run_ns } else { 0 });
        self.last = end;
        self.born |= matches!(ran.life, Life::Born | Life::BornEnded);
        self.ended = matches!(ran.life, Life::Ended | Life::BornEnded);
        // Sums hold the highest of each process alone: all of a name had at least their mean.
        let together = self.last_run_ns as f64 * 1e9 / (span.interval.measured_in_ns() as f64).max(1.0);
        let most_ns_per_s = ran.most_ns_per_s.map_or(together, |most| together.max(most as f64));
        self.most_ns_per_s = self.most_ns_per_s.max(most_ns_per_s);
        for Share { at, part } in shares {
            let run_ns = ran.run_ns as f64 * part;
            match self.cells.last_mut() {
                Some(cell) if cell.at == *at => {
                    cell.run_ns += run_ns;
                    cell.most_ns_per_s = cell.most_ns_per_s.max(most_ns_per_s);
                }
                _ => self.cells.push(Cell { at: *at, run_ns, most_ns_per_s }),
            }
        }
    }

    /// Takes what the same task did later.
    fn append(&mut self, later: Self) {
        self.total_ns = self.total_ns.saturating_add(later.total_ns);
        self.most_ns_per_s = self.most_ns_per_s.max(later.most_ns_per_s);
        (self.last, self.last_sum) = (later.last, later.last_sum);
        self.born |= later.born;
        self.ended = later.ended;
        self.presence.append(later.presence);
        self.cells.extend(later.cells);
    }

    fn life(&self) -> &'static str {
        match (self.born, self.ended) {
            (true, true) => Life::BornEnded,
            (true, false) => Life::Born,
            (false, true) => Life::Ended,
            (false, false) => Life::Alive,
        }
        .name()
    }
}

/// Rows by key, and what did not fit.
pub(super) struct TaskRows<K> {
    rows: HashMap<K, RowSum>,
    all: Vec<(usize, f64)>,
}

impl<K: Hash + Eq + Ord> TaskRows<K> {
    pub(super) fn new() -> Self {
        Self { rows: HashMap::new(), all: Vec::new() }
    }

    /// Adds a row of the span that the plot read last.
    pub(super) fn add(
        &mut self,
        key: K,
        name: impl FnOnce() -> String,
        plot: &Plot,
        span: &Segment<'_>,
        ran: Ran,
    ) {
        let Plot { buckets, shares, .. } = plot;
        let is_full = self.rows.len() >= MAX_TASKS;
        // Before the limit is checked, so that the rest is right however many tasks there are.
        self.all.extend(shares.iter().map(|share| (share.at, ran.run_ns as f64 * share.part)));
        if is_full && !self.rows.contains_key(&key) {
            return;
        }
        let row = self.rows.entry(key).or_insert_with(|| RowSum {
            name: name(),
            first_ns: span.interval.begin.wall_ns,
            ..RowSum::default()
        });
        row.add(buckets, span, shares, ran);
    }

    /// Takes the rows of a later part of the range.
    pub(super) fn append(&mut self, later: Self) {
        self.all.extend(later.all);
        for (key, row) in later.rows {
            if let Some(known) = self.rows.get_mut(&key) {
                known.append(row);
            } else if self.rows.len() < MAX_TASKS {
                self.rows.insert(key, row);
            }
        }
    }

    /// Keeps the sums of points short.
    pub(super) fn fold(&mut self) {
        if self.all.len() <= FOLD {
            return;
        }
        let mut sums: HashMap<usize, f64> = HashMap::new();
        for (at, ns) in self.all.drain(..) {
            *sums.entry(at).or_default() += ns;
        }
        self.all.extend(sums);
    }

    /// All rows there are, those that are shown, and the sum of the others. `lives`: where sums were read, which do not say when
    /// a task began or ended.
    pub(super) fn finish(
        mut self,
        buckets: &Buckets,
        shown: ShownRows,
        lives: Option<&Lives<'_>>,
        key: impl Fn(&K) -> Option<TaskKey>,
    ) -> Result<(usize, Vec<MatrixRow>, Values), QueryError> {
        let total = self.rows.len();
        let mut rows: Vec<(K, RowSum)> = self.rows.drain().collect();
        rows.sort_by(|(a_key, a), (b_key, b)| {
            let busiest = (Reverse(a.total_ns), a_key).cmp(&(Reverse(b.total_ns), b_key));
            match shown.sort {
                MatrixSort::Run => busiest,
                MatrixSort::Highest => b.most_ns_per_s.total_cmp(&a.most_ns_per_s).then(busiest),
            }
        });
        let mut rows: Vec<_> = rows.into_iter().skip(shown.offset).take(shown.limit).collect();
        match lives {
            Some(lives) => find_lives(&mut rows, lives, buckets, &key)?,
            None => rows.iter_mut().for_each(|(_, row)| row.presence.close(buckets)),
        }
        let mut rest = std::mem::take(&mut self.all);
        for (_, row) in &rows {
            // The rest is all less what is shown, because tasks over the limit have no row to add up.
            rest.extend(row.cells.iter().map(|cell| (cell.at, -cell.run_ns)));
        }
        let rows = rows.iter().map(|(of, row)| MatrixRow {
            key: key(of),
            name: row.name.clone(),
            total_ns: row.total_ns,
            first_ns: row.first_ns,
            last_ns: row.last.wall_ns,
            life: row.life(),
            values: buckets.zero_where_there(row.cells.iter().map(|cell| (cell.at, cell.run_ns)), |at| {
                row.presence.is_there(at)
            }),
            max: buckets
                .highest_where_there(row.cells.iter().map(|cell| (cell.at, cell.most_ns_per_s)), |at| {
                    row.presence.is_there(at)
                }),
        });
        Ok((total, rows.collect(), buckets.zero_where_there(rest, |_| true)))
    }
}

/// Finds when the tasks of rows that were read from sums began and ended. Of the processes of a name neither is known: their row
/// has zeros throughout.
fn find_lives<K>(
    rows: &mut [(K, RowSum)],
    lives: &Lives<'_>,
    buckets: &Buckets,
    key: impl Fn(&K) -> Option<TaskKey>,
) -> Result<(), QueryError> {
    let process = |of: &K| match key(of) {
        Some(TaskKey::Process(key)) => Some(key),
        _ => None,
    };
    let keys: Vec<ProcessKey> = rows.iter().filter_map(|(of, _)| process(of)).collect();
    let began = lives.began(&keys)?;
    for (of, row) in rows {
        let mut range = TimeRange { since_ns: i64::MIN, until_ns: i64::MAX };
        if let Some(key) = process(of) {
            range.since_ns = began.get(&key).copied().unwrap_or(i64::MIN);
            // A task that is in the last point is there to its end.
            if !buckets.points_of(TimeRange { since_ns: row.last.wall_ns, until_ns: i64::MAX }).is_empty() {
                range.until_ns = lives.ended(key, row.last_sum)?.unwrap_or(i64::MAX);
            }
        }
        row.presence.mark(buckets, range);
    }
    Ok(())
}
