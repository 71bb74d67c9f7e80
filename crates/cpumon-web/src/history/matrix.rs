//! Time on one side, tasks on the other. In: a range. Out: run time a point and a task, the busiest tasks first, the rest
//! summed up: the landscape of a host's processes, and the threads of one process as a heat map.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;

use cpumon_model::{HostStatus, Interval, Life, ProcessKey, ThreadKey};
use cpumon_store::{GapFinder, ProcessFilter, Query, What};

use super::past::MAX_GAPS;
use super::{Buckets, Past, Range};
use crate::api::{GapJson, Matrix, MatrixRow, Nanos, key_of_process, key_of_thread, to_ms};
use crate::problem::Problem;

/// Tasks kept apart while adding up; further ones go into the rest.
const MAX_TASKS: usize = 50_000;

/// What makes a row of the landscape.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, serde::Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum By {
    /// Processes of a name together.
    #[default]
    Name,
    /// Each process.
    Process,
}

/// A row being added up; points without run time are left out.
#[derive(Default)]
struct RowSum {
    name: String,
    points: Vec<(usize, f64)>,
    total_ns: i64,
    first_ns: i64,
    last_ns: i64,
    born: bool,
    ended: bool,
}

impl RowSum {
    fn add(&mut self, interval: &Interval, shares: &[(usize, f64)], run_ns: i64, life: Life) {
        self.total_ns = self.total_ns.saturating_add(run_ns);
        self.last_ns = interval.end.wall_ns;
        self.born |= matches!(life, Life::Born | Life::BornEnded);
        self.ended = matches!(life, Life::Ended | Life::BornEnded);
        for (at, share) in shares {
            let ns = run_ns as f64 * share;
            match self.points.last_mut() {
                Some((last, sum)) if last == at => *sum += ns,
                _ => self.points.push((*at, ns)),
            }
        }
    }

    /// Takes what the same task did later.
    fn append(&mut self, later: Self) {
        self.total_ns = self.total_ns.saturating_add(later.total_ns);
        self.last_ns = later.last_ns;
        self.born |= later.born;
        self.ended = later.ended;
        self.points.extend(later.points);
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
struct Rows<K> {
    rows: HashMap<K, RowSum>,
    all: Vec<(usize, f64)>,
}

impl<K: Hash + Eq + Ord> Rows<K> {
    fn new() -> Self {
        Self { rows: HashMap::new(), all: Vec::new() }
    }

    fn add(
        &mut self,
        key: K,
        name: impl FnOnce() -> String,
        interval: &Interval,
        shares: &[(usize, f64)],
        (run_ns, life): (i64, Life),
    ) {
        let is_full = self.rows.len() >= MAX_TASKS;
        self.all.extend(shares.iter().map(|(at, share)| (*at, run_ns as f64 * share)));
        if is_full && !self.rows.contains_key(&key) {
            return;
        }
        let row = self.rows.entry(key).or_insert_with(|| RowSum {
            name: name(),
            first_ns: interval.begin.wall_ns,
            ..RowSum::default()
        });
        row.add(interval, shares, run_ns, life);
    }

    /// Takes the rows of a later part of the range.
    fn append(&mut self, later: Self) {
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
    fn fold(&mut self) {
        let mut sums: HashMap<usize, f64> = HashMap::new();
        for (at, ns) in self.all.drain(..) {
            *sums.entry(at).or_default() += ns;
        }
        self.all.extend(sums);
    }

    fn finish(
        mut self,
        buckets: &Buckets,
        (offset, limit): (usize, usize),
        key: impl Fn(&K) -> Option<String>,
    ) -> (usize, Vec<MatrixRow>, Vec<Option<i64>>) {
        let total = self.rows.len();
        let mut rows: Vec<(K, RowSum)> = self.rows.drain().collect();
        rows.sort_by(|a, b| (Reverse(a.1.total_ns), &a.0).cmp(&(Reverse(b.1.total_ns), &b.0)));
        let rows: Vec<_> = rows.into_iter().skip(offset).take(limit).collect();
        let mut rest = std::mem::take(&mut self.all);
        for (_, row) in &rows {
            rest.extend(row.points.iter().map(|(at, ns)| (*at, -ns)));
        }
        let rows = rows.iter().map(|(of, row)| MatrixRow {
            key: key(of),
            name: row.name.clone(),
            total_ns: row.total_ns,
            first_ms: to_ms(row.first_ns),
            last_ms: to_ms(row.last_ns),
            life: row.life(),
            values: buckets.zero_where_covered(&row.points),
        });
        (total, rows.collect(), buckets.zero_where_covered(&rest))
    }
}

/// Sums of points are shortened when there are this many.
const FOLD: usize = 1 << 20;

/// What was read of a part of a range.
struct Part<K> {
    buckets: Buckets,
    gaps: GapFinder,
    rows: Rows<K>,
}

impl<K: Hash + Eq + Ord> Part<K> {
    fn append(mut self, later: Self) -> Self {
        self.buckets.append(&later.buckets);
        self.gaps.append(later.gaps);
        self.rows.append(later.rows);
        self
    }
}

/// Walks a range, in `parts` at the same time, and lets `add` put each interval's rows in.
fn build<K: Hash + Eq + Ord + Send>(
    past: &Past,
    (query, range): (Query, Range),
    (shown, parts): ((usize, usize), Option<usize>),
    (key, add): (impl Fn(&K) -> Option<String>, impl Fn(&mut Rows<K>, &Interval, &[(usize, f64)]) + Sync),
) -> Result<Matrix, Problem> {
    let mut plan = past.plan(query.host, range)?;
    if query.what == What::Threads {
        // No sums are kept of threads.
        plan.grain = None;
    }
    let (buckets, all) = (Buckets::new(range, &plan), (plan.since_ns, plan.until_ns));
    let gaps = GapFinder::new(past.losses(query.host, (range.since_ns, range.until_ns))?, MAX_GAPS);
    let read = |past: &Past, span: (i64, i64)| {
        let mut part = Part { buckets: buckets.clone(), gaps: gaps.clone(), rows: Rows::new() };
        let query = query.clone().range(span.0, span.1).without_sched();
        let mut shares = Vec::new();
        past.for_each(&query, plan.grain, &mut |span| {
            part.buckets.cover(span, &mut shares);
            part.gaps.see(span.interval);
            add(&mut part.rows, span.interval, &shares);
            if part.rows.all.len() > FOLD {
                part.rows.fold();
            }
        })?;
        Ok(part)
    };
    // Sums are read in a moment, and one of them may lie on an edge.
    let parts = if plan.grain.is_none() { parts.unwrap_or_else(|| past.parts(all)) } else { 1 };
    let whole = past.in_parts(all, parts, read)?.into_iter().reduce(Part::append);
    let Part { buckets, gaps, rows } = whole.unwrap_or(Part { buckets, gaps, rows: Rows::new() });
    let (total, rows, other) = rows.finish(&buckets, shown, key);
    Ok(Matrix {
        since_ns: Nanos(range.since_ns),
        until_ns: Nanos(range.until_ns),
        times: buckets.times(),
        total,
        rows,
        other,
        gaps: gaps.finish().iter().map(GapJson::from).collect(),
    })
}

/// The busiest processes of a host over time. `shown`: how many rows are left out at the beginning, and how many given.
pub(crate) fn landscape(
    past: &Past,
    host: &HostStatus,
    range: Range,
    by: By,
    shown: (usize, usize),
) -> Result<Matrix, Problem> {
    let what = (Query::new(host.info.host).what(What::Processes), range);
    match by {
        By::Name => build(past, what, (shown, None), (|_: &String| None, add_names)),
        By::Process => {
            build(past, what, (shown, None), (|key: &ProcessKey| Some(key_of_process(*key)), add_processes))
        }
    }
}

fn add_names(rows: &mut Rows<String>, interval: &Interval, shares: &[(usize, f64)]) {
    for row in &interval.processes {
        let name = row.info.name.to_string();
        rows.add(name.clone(), || name, interval, shares, (row.delta.run_ns, row.life));
    }
}

fn add_processes(rows: &mut Rows<ProcessKey>, interval: &Interval, shares: &[(usize, f64)]) {
    for row in &interval.processes {
        let name = || row.info.name.to_string();
        rows.add(row.key, name, interval, shares, (row.delta.run_ns, row.life));
    }
}

/// The busiest threads of a process over time. `parts`: in how many the range is read at the same time; `None`: as many as pay.
pub(crate) fn threads(
    past: &Past,
    host: &HostStatus,
    range: Range,
    process: ProcessKey,
    (shown, parts): ((usize, usize), Option<usize>),
) -> Result<Matrix, Problem> {
    let query = Query::new(host.info.host).what(What::Threads).filter(ProcessFilter::Key(process));
    let add = |rows: &mut Rows<ThreadKey>, interval: &Interval, shares: &[(usize, f64)]| {
        for row in interval.threads.iter().filter(|row| row.process == process) {
            let name = || row.comm.to_str_lossy().into_owned();
            rows.add(row.key, name, interval, shares, (row.delta.run_ns, row.life));
        }
    };
    build(past, (query, range), (shown, parts), (|key: &ThreadKey| Some(key_of_thread(*key)), add))
}
