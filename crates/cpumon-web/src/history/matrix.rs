//! Time on one side, tasks on the other. In: a range. Out: run time a point and a task, and the highest single interval in it; the
//! busiest tasks first, the rest summed up: the landscape of a host's processes, and the threads of one process as a heat map.

use std::hash::Hash;

use cpumon_model::{HostStatus, ProcessInterval, ProcessKey, ThreadKey};
use cpumon_store::{GapFinder, ProcessFilter, Query, Segment, What};

use super::past::MAX_GAPS;
use super::rows::{Ran, Rows, Shown};
use super::{Buckets, Past, Range};
use crate::api::{GapJson, Matrix, Nanos, key_of_process, key_of_thread};
use crate::problem::Problem;

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
    (shown, parts): (Shown, Option<usize>),
    (key, add): (impl Fn(&K) -> Option<String>, impl Fn(&mut Rows<K>, &Segment<'_>, &[(usize, f64)]) + Sync),
) -> Result<Matrix, Problem> {
    let mut plan = past.plan(query.host, range)?;
    if query.what == What::Threads {
        // No sums are kept of threads.
        plan.resolution = None;
    }
    let (buckets, all) = (Buckets::new(range, &plan), (plan.since_ns, plan.until_ns));
    let gaps = GapFinder::new(past.losses(query.host, (range.since_ns, range.until_ns))?, MAX_GAPS);
    let read = |past: &Past, span: (i64, i64)| {
        let mut part = Part { buckets: buckets.clone(), gaps: gaps.clone(), rows: Rows::new() };
        let query = query.clone().range(span.0, span.1).without_sched();
        let mut shares = Vec::new();
        past.for_each(&query, plan.resolution, &mut |span| {
            part.buckets.cover(span, &mut shares);
            part.gaps.see(span.interval);
            add(&mut part.rows, span, &shares);
            part.rows.fold();
        })?;
        Ok(part)
    };
    // Sums are read in a moment, and one of them may lie on an edge.
    let parts = if plan.resolution.is_none() { parts.unwrap_or_else(|| past.parts(all)) } else { 1 };
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

/// The busiest processes of a host over time.
pub(crate) fn landscape(
    past: &Past,
    host: &HostStatus,
    range: Range,
    by: By,
    shown: Shown,
) -> Result<Matrix, Problem> {
    let what = (Query::new(host.info.host).what(What::Processes), range);
    match by {
        By::Name => build(past, what, (shown, None), (|_: &String| None, add_names)),
        By::Process => {
            build(past, what, (shown, None), (|key: &ProcessKey| Some(key_of_process(*key)), add_processes))
        }
    }
}

/// The rows of a span that tell processes.
fn ran<'a>(span: &'a Segment<'_>) -> impl Iterator<Item = (&'a ProcessInterval, Ran)> {
    let most = |at: usize| span.max_run_ns_per_s.get(at).copied();
    span.interval.processes.iter().enumerate().map(move |(at, row)| {
        (row, Ran { run_ns: row.delta.run_ns, most_ns_per_s: most(at), life: row.life })
    })
}

fn add_names(rows: &mut Rows<String>, span: &Segment<'_>, shares: &[(usize, f64)]) {
    for (row, ran) in ran(span) {
        let name = row.info.name.to_string();
        rows.add(name.clone(), || name, span, shares, ran);
    }
}

fn add_processes(rows: &mut Rows<ProcessKey>, span: &Segment<'_>, shares: &[(usize, f64)]) {
    for (row, ran) in ran(span) {
        rows.add(row.key, || row.info.name.to_string(), span, shares, ran);
    }
}

/// The busiest threads of a process over time. `parts`: in how many the range is read at the same time; `None`: as many as pay.
pub(crate) fn threads(
    past: &Past,
    host: &HostStatus,
    range: Range,
    process: ProcessKey,
    (shown, parts): (Shown, Option<usize>),
) -> Result<Matrix, Problem> {
    let query = Query::new(host.info.host).what(What::Threads).filter(ProcessFilter::Key(process));
    let add = |rows: &mut Rows<ThreadKey>, span: &Segment<'_>, shares: &[(usize, f64)]| {
        for row in span.interval.threads.iter().filter(|row| row.process == process) {
            let name = || row.comm.to_str_lossy().into_owned();
            let ran = Ran { run_ns: row.delta.run_ns, most_ns_per_s: None, life: row.life };
            rows.add(row.key, name, span, shares, ran);
        }
    };
    build(past, (query, range), (shown, parts), (|key: &ThreadKey| Some(key_of_thread(*key)), add))
}
