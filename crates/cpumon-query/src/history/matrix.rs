//! Tasks by time: the landscape of a host's processes, and the threads of one process. The busiest rows come first; the others are
//! added up in one.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::{Add, AddAssign};

use cpumon_model::{HostStatus, Life, ProcessKey};
use cpumon_store::{ProcessFilter, Query, Segment, What};
use serde::Deserialize;
use utoipa::ToSchema;

use super::History;
use super::answers::{Matrix, MatrixRow, Values};
use super::buckets::{PointShare, Presence};
use super::plot::Plot;
use super::task_line::Lives;
use crate::QueryError;
use crate::fields::has_words;
use crate::json::Nanos;
use crate::keys::TaskKey;
use crate::report::GroupBy;
use crate::tally::{
    Group, GroupKind, GroupOf, Grouping, Now, RowPart, SpanProcessRow, SpanThreadRow, Sums, Tally,
};
use crate::time::{PlotRange, TimeRange};

/// A span, and the plot that read it last.
pub(super) struct PlotSpan<'s> {
    plot: &'s Plot,
    span: &'s Segment<'s>,
}

/// Walks a range, in parts at the same time where that pays, and lets `add` put each interval's rows in.
fn build(
    history: &History,
    query: &Query,
    range: PlotRange,
    shown: ShownRows<'_>,
    add: impl Fn(&mut Tally<CellSums>, &PlotSpan<'_>) + Sync,
) -> Result<Matrix, QueryError> {
    // Threads have sums of hours alone, which are too long for a picture: their intervals are read.
    let empty = Plot::new(history, query.host, range, query.what == What::Threads)?;
    let query = query.clone().without_sched();
    let read = |history: &History, part: TimeRange| {
        let (mut plot, mut tally) = (empty.clone(), Tally::new(CellSums::default()));
        plot.read(history, &query, part, &mut |plot, span| {
            let span = PlotSpan { plot, span };
            add(&mut tally, &span);
            tally.close(&span);
        })?;
        Ok((plot, tally))
    };
    // Sums are read in a moment, and a sum may lie across the edge of a part.
    let parts = if empty.plan.resolution.is_none() { history.parts(empty.time()) } else { 1 };
    let made = history.in_parts(empty.time(), parts, read)?;
    let whole = made.into_iter().reduce(|(mut plot, mut tally), later| {
        plot.append(later.0);
        tally.append(later.1);
        (plot, tally)
    });
    let (plot, tally) = whole.unwrap_or_else(|| (empty, Tally::new(CellSums::default())));
    let lives = plot.plan.resolution.map(|resolution| Lives { history, host: query.host, range, resolution });
    let (total, rows, other) = finish(tally, &plot, shown, lives.as_ref())?;
    let (times, gaps) = plot.finish(history)?;
    Ok(Matrix {
        since_ns: Nanos(range.since_ns),
        until_ns: Nanos(range.until_ns),
        times,
        total,
        rows,
        other,
        gaps,
    })
}

/// The busiest processes of a host over time.
pub fn landscape(
    history: &History,
    host: &HostStatus,
    range: PlotRange,
    by: GroupBy,
    shown: ShownRows<'_>,
) -> Result<Matrix, QueryError> {
    let query = Query::new(host.info.host).what(What::Processes);
    let grouping = if by == GroupBy::Process { Grouping::Keys } else { Grouping::By(by.into()) };
    build(history, &query, range, shown, |tally, at| {
        SpanProcessRow::of(at.span).for_each(|process| tally.add_process(process, &grouping, "", at));
    })
}

/// The busiest threads of a process over time.
pub fn threads(
    history: &History,
    host: &HostStatus,
    range: PlotRange,
    process: ProcessKey,
    shown: ShownRows<'_>,
) -> Result<Matrix, QueryError> {
    let query = Query::new(host.info.host).what(What::Threads).filter(ProcessFilter::Key(process));
    build(history, &query, range, shown, |tally, at| {
        // Intervals in memory have all threads: only the store applies the filter.
        for thread in SpanThreadRow::of(at.span).filter(|thread| thread.row.process == process) {
            let name = thread.row.comm.to_str_lossy();
            tally.add_row(GroupOf::by_key(&name, thread.part.key), at, &thread.part);
        }
    })
}

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
pub struct ShownRows<'s> {
    /// Which come first.
    pub sort: MatrixSort,
    /// Left out at the beginning.
    pub offset: usize,
    /// Most rows of the answer.
    pub limit: usize,
    /// Only rows whose name contains each of these words, in any case.
    pub search: &'s str,
}

/// One point of a row.
#[derive(Copy, Clone)]
struct MatrixCell {
    at: usize,
    run_ns: f64,
    most_ns_per_s: f64,
}

/// What a row did; points without run time are left out.
#[derive(Clone, Default)]
pub(super) struct CellSums {
    cells: Vec<MatrixCell>,
    total_ns: i64,
    most_ns_per_s: f64,
    first_ns: Option<i64>,
    /// The last span on the wall clock.
    last: TimeRange,
    born: bool,
    ended: bool,
    presence: Presence,
}

impl Sums for CellSums {
    type Span<'s> = PlotSpan<'s>;

    fn add(&mut self, at: &PlotSpan<'_>, part: &RowPart<'_>) {
        self.presence.see_boot(part.boot);
        self.presence.see(&at.plot.buckets, part.key, at.span, part.life);
        self.born |= part.life.is_born();
        self.ended = part.life.has_ended();
    }

    fn close(&mut self, at: &PlotSpan<'_>, now: &Now) {
        let interval = at.span.interval;
        self.last = at.span.time();
        self.first_ns.get_or_insert(self.last.since_ns);
        self.total_ns = self.total_ns.saturating_add(now.run_ns);
        let most_ns_per_s = now.most_ns_per_s(interval.measured_in_ns());
        self.most_ns_per_s = self.most_ns_per_s.max(most_ns_per_s);
        for PointShare { at, part } in &at.plot.shares {
            let run_ns = now.run_ns as f64 * part;
            match self.cells.last_mut() {
                Some(cell) if cell.at == *at => {
                    cell.run_ns += run_ns;
                    cell.most_ns_per_s = cell.most_ns_per_s.max(most_ns_per_s);
                }
                _ => self.cells.push(MatrixCell { at: *at, run_ns, most_ns_per_s }),
            }
        }
    }
}

impl AddAssign for CellSums {
    fn add_assign(&mut self, later: Self) {
        self.total_ns = self.total_ns.saturating_add(later.total_ns);
        self.most_ns_per_s = self.most_ns_per_s.max(later.most_ns_per_s);
        self.first_ns = self.first_ns.or(later.first_ns);
        self.last = later.last;
        self.born = self.born || later.born;
        self.ended = later.ended;
        self.presence.append(later.presence);
        self.cells.extend(later.cells);
    }
}

impl CellSums {
    fn run_ns(&self) -> impl Iterator<Item = (usize, f64)> {
        self.cells.iter().map(|cell| (cell.at, cell.run_ns))
    }
}

type CellGroup = Group<CellSums>;

fn key_of(row: &CellGroup) -> Option<TaskKey> {
    row.task.map(|(_, task)| task)
}

/// All rows there are, those that are shown, and the sum of the others. `lives`: where sums were read, which do not say when a task
/// began or ended.
fn finish(
    tally: Tally<CellSums>,
    plot: &Plot,
    shown: ShownRows<'_>,
    lives: Option<&Lives<'_>>,
) -> Result<(usize, Vec<MatrixRow>, Values), QueryError> {
    let buckets = &plot.buckets;
    let is_row = |row: &CellGroup| row.kind != GroupKind::Others;
    let (mut rows, mut hidden): (Vec<CellGroup>, Vec<CellGroup>) = tally.groups.into_iter().partition(is_row);
    rows.retain(|row| has_words(shown.search, &[&*row.name]));
    let total = rows.len();
    rows.sort_by(|a, b| {
        let order = |row: &CellGroup| (Reverse(row.sums.total_ns), row.task);
        let busiest = order(a).cmp(&order(b)).then_with(|| a.name.cmp(&b.name));
        match shown.sort {
            MatrixSort::Run => busiest,
            MatrixSort::Highest => b.sums.most_ns_per_s.total_cmp(&a.sums.most_ns_per_s).then(busiest),
        }
    });
    let begin = shown.offset.min(total);
    hidden.extend(rows.drain(..begin));
    hidden.extend(rows.drain(shown.limit.min(rows.len())..));
    match lives {
        Some(lives) => find_lives(&mut rows, lives, plot)?,
        None => rows.iter_mut().for_each(|row| row.sums.presence.close(buckets, &plot.breaks)),
    }
    let other = buckets.where_there(hidden.iter().flat_map(|row| row.sums.run_ns()), |_| true, f64::add);
    let rows = rows.into_iter().map(|row| {
        let (key, sums) = (key_of(&row), &row.sums);
        let is_there = |at| sums.presence.is_there(at);
        let most = sums.cells.iter().map(|cell| (cell.at, cell.most_ns_per_s));
        MatrixRow {
            key,
            total_ns: sums.total_ns,
            first_ns: Nanos(sums.first_ns.unwrap_or_default()),
            last_ns: Nanos(sums.last.until_ns),
            life: Life::of(sums.born, sums.ended).name(),
            values: buckets.where_there(sums.run_ns(), is_there, f64::add),
            max: buckets.where_there(most, is_there, f64::max),
            name: row.name.into(),
        }
    });
    Ok((total, rows.collect(), other))
}

/// Finds when the tasks of rows that were read from sums began and ended. Of the processes of a name neither is known: their row
/// has zeros from the break before its first sum to the one behind its last.
fn find_lives(rows: &mut [CellGroup], lives: &Lives<'_>, plot: &Plot) -> Result<(), QueryError> {
    let process = |row: &CellGroup| match key_of(row) {
        Some(TaskKey::Process(key)) => Some(key),
        _ => None,
    };
    let wanted: BTreeMap<ProcessKey, _> =
        rows.iter().filter_map(|row| Some((process(row)?, row.sums.presence.first_boot()))).collect();
    let began = lives.began(&wanted)?;
    for row in rows {
        let last = row.sums.last;
        let seen = TimeRange { since_ns: row.sums.first_ns.unwrap_or(i64::MIN), ..last };
        let mut range = row.sums.presence.longest(seen, &plot.breaks);
        if let Some(key) = process(row) {
            range.since_ns = began.get(&key).copied().unwrap_or(range.since_ns);
            // A task that is in the last point is there to its end.
            let behind = TimeRange { since_ns: last.until_ns, until_ns: i64::MAX };
            if !plot.buckets.points_of(behind).is_empty() {
                range.until_ns = lives.ended(key, last)?.unwrap_or(range.until_ns);
            }
        }
        row.sums.presence.mark(&plot.buckets, range);
    }
    Ok(())
}
