//! Tasks by time: the landscape of a host's processes, and the threads of one process. The busiest rows come
//! first; the others are summed up in one.

use std::hash::Hash;

use cpumon_model::{BootId, HostStatus, ProcessInterval, ProcessKey, SourceKind, ThreadKey};
use cpumon_store::{GapFinder, ProcessFilter, Query, Segment, What};

use super::answers::Matrix;
use super::buckets::Buckets;
use super::life::Lives;
use super::rows::{Placed, Ran, ShownRows, TaskRows};
use super::short_holes::ShortHoles;
use super::source::{History, MAX_GAPS};
use crate::QueryError;
use crate::group::{GroupBy, group_name};
use crate::keys::TaskKey;
use crate::time::{PlotRange, TimeRange};

/// What was read of a part of a range.
struct Part<K> {
    buckets: Buckets,
    gaps: GapFinder,
    /// Sums are read in one part.
    short_holes: ShortHoles,
    rows: TaskRows<K>,
}

impl<K: Hash + Eq + Ord> Part<K> {
    fn append(mut self, later: Self) -> Self {
        self.buckets.append(&later.buckets);
        self.gaps.append(later.gaps);
        self.rows.append(later.rows);
        self
    }
}

struct Asked {
    query: Query,
    range: PlotRange,
    shown: ShownRows,
}

/// Walks a range, in parts at the same time where that pays, and lets `add` put each interval's rows in.
fn build<K: Hash + Eq + Ord + Send>(
    history: &History,
    asked: Asked,
    key: impl Fn(&K) -> Option<TaskKey>,
    add: impl Fn(&mut TaskRows<K>, Placed<'_>) + Sync,
) -> Result<Matrix, QueryError> {
    let Asked { query, range, shown } = asked;
    let host = query.host;
    let mut plan = history.plan(host, range)?;
    if query.what == What::Threads && plan.resolution.is_some() {
        // There are no sums of threads.
        plan = history.over_intervals(host, plan, range)?;
    }
    let (buckets, all) =
        (Buckets::new(range, &plan), TimeRange { since_ns: plan.since_ns, until_ns: plan.until_ns });
    let gaps = GapFinder::new(history.losses(query.host, range.time())?, MAX_GAPS);
    let read = |history: &History, range: TimeRange| {
        let mut part = Part {
            buckets: buckets.clone(),
            gaps: gaps.clone(),
            short_holes: ShortHoles::default(),
            rows: TaskRows::new(),
        };
        let query = query.clone().range(range.since_ns, range.until_ns).without_sched();
        let mut shares = Vec::new();
        history.for_each(&query, plan.resolution, &mut |span| {
            part.buckets.cover(span, &mut shares);
            part.gaps.see(span.interval);
            part.short_holes.see(span);
            add(&mut part.rows, Placed { buckets: &part.buckets, span, shares: &shares });
            part.rows.fold();
        })?;
        Ok(part)
    };
    // Sums are read in a moment, and one of them may lie on an edge.
    let parts = if plan.resolution.is_none() { history.parts(all) } else { 1 };
    let whole = history.in_parts(all, parts, read)?.into_iter().reduce(Part::append);
    let empty = Part { buckets, gaps, short_holes: ShortHoles::default(), rows: TaskRows::new() };
    let Part { buckets, gaps, short_holes, rows } = whole.unwrap_or(empty);
    let mut gaps = gaps.finish();
    short_holes.add_to(&mut gaps, history, host, plan.resolution)?;
    let lives = plan.resolution.map(|resolution| Lives { history, host, range, resolution });
    let (total, rows, other) = rows.finish(&buckets, shown, lives.as_ref(), key)?;
    let (since_ns, until_ns) = (range.since_ns, range.until_ns);
    Ok(Matrix { since_ns, until_ns, times: buckets.times(), total, rows, other, gaps })
}

/// The busiest processes of a host over time.
pub fn landscape(
    history: &History,
    host: &HostStatus,
    range: PlotRange,
    by: GroupBy,
    shown: ShownRows,
) -> Result<Matrix, QueryError> {
    let asked = Asked { query: Query::new(host.info.host).what(What::Processes), range, shown };
    if by == GroupBy::Process {
        return build(history, asked, |key: &ProcessKey| Some(TaskKey::Process(*key)), add_processes);
    }
    build(history, asked, |_: &String| None, |rows, placed| add_groups(rows, placed, by))
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

fn add_groups(rows: &mut TaskRows<String>, placed: Placed<'_>, by: GroupBy) {
    let interval = placed.span.interval;
    let is_sum = placed.span.max_busy_ppm.is_some();
    for (at, (row, ran)) in ran(placed.span).enumerate() {
        // Sums do not name their source; only v1 devices send no boot. One row has all short-lived processes of a description.
        let boot = placed.span.boots.get(at).copied().unwrap_or(interval.boot);
        let is_v1 = is_sum && boot == BootId::default() && row.key.pid != 0;
        let source = if is_v1 { SourceKind::V1 } else { interval.source };
        let name = group_name(by, source, &row.info).into_owned();
        rows.add(name.clone(), || name, placed, ran);
    }
}

fn add_processes(rows: &mut TaskRows<ProcessKey>, placed: Placed<'_>) {
    for (row, ran) in ran(placed.span) {
        rows.add(row.key, || row.info.name.to_string(), placed, ran);
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
    let add = |rows: &mut TaskRows<ThreadKey>, placed: Placed<'_>| {
        // Intervals in memory have all threads: only the store applies the filter.
        for row in placed.span.interval.threads.iter().filter(|row| row.process == process) {
            let name = || row.comm.to_str_lossy().into_owned();
            let ran =
                Ran { run_ns: row.delta.run_ns, most_ns_per_s: None, life: row.life, task: row.key.into() };
            rows.add(row.key, name, placed, ran);
        }
    };
    let asked = Asked { query, range, shown };
    build(history, asked, |key: &ThreadKey| Some(TaskKey::Thread(*key)), add)
}
