//! A host over time. In: a range. Out: [`HostSeries`]: CPU modes, ledger lines, run queue and counts, a value a point, with the
//! highest and lowest single interval in it, and the holes with their reasons.

use cpumon_model::{Column, ColumnId, HostStatus, Interval, Tables};
use cpumon_store::{GapFinder, Query, RunQueue, Segment, What};

use super::buckets::{Points, number, view_of};
use super::past::MAX_GAPS;
use super::{Buckets, Past, Range, summable};
use crate::api::{GapJson, HostSeries, Kept, Nanos, Row, SeriesColumn, shown_columns};
use crate::problem::Problem;

/// ns of one second.
const SECOND_NS: f64 = 1e9;

/// Sum, lowest and highest rate of one column.
struct Line {
    sum: Points,
    min: Points,
    max: Points,
}

impl Line {
    fn new(count: usize) -> Self {
        Self { sum: Points::new(count), min: Points::new(count), max: Points::new(count) }
    }

    fn add(&mut self, shares: &[(usize, f64)], value: f64, length_ns: f64) {
        for (at, share) in shares {
            self.sum.add(*at, value * share);
            if length_ns > 0.0 {
                let rate = value * SECOND_NS / length_ns;
                self.min.lower(*at, rate);
                self.max.raise(*at, rate);
            }
        }
    }

    fn finish(&self, with_extremes: bool) -> Option<SeriesColumn> {
        let extreme = |points: &Points| (with_extremes && !points.is_empty()).then(|| points.finish());
        (!self.sum.is_empty()).then(|| SeriesColumn {
            sum: Some(self.sum.finish()),
            min: extreme(&self.min),
            max: extreme(&self.max),
        })
    }
}

/// Run queues of all CPUs: tasks running or ready, integrated over time, and the highest.
struct QueueLine {
    sum: Points,
    max: Points,
    longest: Points,
}

impl QueueLine {
    fn new(count: usize) -> Self {
        Self { sum: Points::new(count), max: Points::new(count), longest: Points::new(count) }
    }

    fn add(&mut self, shares: &[(usize, f64)], queue: &RunQueue) {
        for (at, share) in shares {
            self.sum.add(*at, queue.run_queue_ns as f64 * share);
            self.max.raise(*at, queue.max_run_queue_ns_per_s as f64);
            self.longest.raise(*at, queue.run_queue_max as f64);
        }
    }

    fn finish(&self) -> impl Iterator<Item = (&'static str, Option<SeriesColumn>)> {
        let column = |sum, max: &Points| SeriesColumn { sum, min: None, max: Some(max.finish()) };
        let known = !self.sum.is_empty();
        [
            ("run_queue_ns", known.then(|| column(Some(self.sum.finish()), &self.max))),
            ("run_queue_max", known.then(|| column(None, &self.longest))),
        ]
        .into_iter()
    }
}

/// Time that was neither idle nor stolen; `None` if the CPUs are not known.
fn busy_ns(interval: &Interval) -> Option<f64> {
    let ledger = &interval.ledger;
    let idle_ns = ledger.idle_ns.saturating_add(ledger.steal_ns);
    (ledger.capacity_ns > 0).then(|| ledger.capacity_ns.saturating_sub(idle_ns) as f64)
}

/// Counts of which the highest in a point is told.
const COUNTS: [ColumnId; 2] = [ColumnId::ThreadCount, ColumnId::ProcessCount];

/// A series being added up.
struct Building {
    buckets: Buckets,
    columns: Vec<(&'static Column, Line)>,
    counts: Vec<(&'static Column, Points)>,
    busy: Line,
    run_queue: QueueLine,
    gaps: GapFinder,
    shares: Vec<(usize, f64)>,
    with_extremes: bool,
}

impl Building {
    fn new(buckets: Buckets, gaps: GapFinder, wanted: &[String]) -> Self {
        let count = buckets.count();
        let is_wanted = |column: &Column| wanted.is_empty() || wanted.iter().any(|name| name == column.name);
        let columns = shown_columns(Tables::HOST_INTERVAL)
            .filter(|column| summable(column) && is_wanted(column))
            .map(|column| (column, Line::new(count)));
        let counts = shown_columns(Tables::HOST_INTERVAL)
            .filter(|column| COUNTS.contains(&column.id))
            .map(|column| (column, Points::new(count)));
        Self {
            columns: columns.collect(),
            counts: counts.collect(),
            busy: Line::new(count),
            run_queue: QueueLine::new(count),
            buckets,
            gaps,
            shares: Vec::new(),
            with_extremes: !wanted.is_empty(),
        }
    }

    fn add(&mut self, span: &Segment<'_>) {
        self.buckets.cover(span, &mut self.shares);
        self.gaps.see(span.interval);
        let (view, length_ns) = (view_of(span), span.interval.duration_ns() as f64);
        for (column, line) in &mut self.columns {
            if let Some(value) = number(&view.host(column.id)) {
                line.add(&self.shares, value, length_ns);
            }
        }
        if span.max_busy_ppm.is_none() {
            for (column, points) in &mut self.counts {
                if let Some(value) = number(&view.host(column.id)) {
                    self.shares.iter().for_each(|(at, _)| points.raise(*at, value));
                }
            }
        }
        if let Some(busy_ns) = busy_ns(span.interval) {
            self.busy.add(&self.shares, busy_ns, length_ns);
        }
        if let Some(queue) = span.run_queue {
            self.run_queue.add(&self.shares, &queue);
        }
        if let Some(ppm) = span.max_busy_ppm.filter(|_| length_ns > 0.0) {
            // Of sums the highest single interval is kept as a share of the capacity.
            let capacity = span.interval.ledger.capacity_ns as f64 * SECOND_NS / length_ns;
            self.shares.iter().for_each(|(at, _)| self.busy.max.raise(*at, ppm as f64 / 1e6 * capacity));
        }
    }

    fn finish(self) -> (Buckets, Row<SeriesColumn>, Vec<GapJson>) {
        let with_extremes = self.with_extremes;
        let mut columns = Row::default();
        let lines = self.columns.iter().map(|(column, line)| (column.name, line.finish(with_extremes)));
        let busy = std::iter::once(("busy_ns", self.busy.finish(true)));
        for (name, column) in lines.chain(busy).chain(self.run_queue.finish()) {
            columns.0.extend(column.map(|column| (name.into(), column)));
        }
        for (column, points) in self.counts.iter().filter(|(_, points)| !points.is_empty()) {
            let series = SeriesColumn { sum: None, min: None, max: Some(points.finish()) };
            columns.0.push((column.name.into(), series));
        }
        (self.buckets, columns, self.gaps.finish().iter().map(GapJson::from).collect())
    }
}

/// See the module. `wanted`: names of columns; none: all, with extremes of the busy time and the run queue only. `is_finest`: intervals are
/// read where sums would do.
pub(crate) fn series(
    past: &Past,
    host: &HostStatus,
    range: Range,
    (wanted, is_finest): (&[String], bool),
) -> Result<HostSeries, Problem> {
    let id = host.info.host;
    let mut plan = past.plan(id, range)?;
    if is_finest {
        plan.resolution = None;
    }
    let gaps = GapFinder::new(past.losses(id, (range.since_ns, range.until_ns))?, MAX_GAPS);
    let mut building = Building::new(Buckets::new(range, &plan), gaps, wanted);
    let query = Query::new(id).range(plan.since_ns, plan.until_ns).what(What::Meta);
    past.for_each(&query, plan.resolution, &mut |span| building.add(span))?;
    let (buckets, columns, gaps) = building.finish();
    let kept = past.kept(id)?;
    Ok(HostSeries {
        since_ns: Nanos(range.since_ns),
        until_ns: Nanos(range.until_ns),
        kept: kept.map(|(first, last)| Kept { first_ns: Nanos(first), last_ns: Nanos(last) }),
        times: buckets.times(),
        columns,
        gaps,
    })
}
