//! The rows of a matrix while they are added up: run time and the highest single interval of each task in
//! each point, and the sum of the tasks that are not shown.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;

use cpumon_model::{Life, Moment, ProcessKey};
use cpumon_store::Segment;

use super::answers::{MatrixRow, Values};
use super::buckets::{Buckets, Share};
use super::life::Lives;
use super::presence::{Presence, TaskStart};
use crate::QueryError;
use crate::keys::TaskKey;
use crate::time::TimeRange;

/// Tasks counted apart while adding up; further ones go into the rest.
const MAX_TASKS: usize = 50_000;

/// Which rows come first.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
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

/// Where a row goes: the points, and those of them that a span lies in.
#[derive(Copy, Clone)]
pub(super) struct Placed<'a> {
    pub(super) buckets: &'a Buckets,
    pub(super) span: &'a Segment<'a>,
    pub(super) shares: &'a [Share],
}

impl<K: Hash + Eq + Ord> TaskRows<K> {
    pub(super) fn new() -> Self {
        Self { rows: HashMap::new(), all: Vec::new() }
    }

    pub(super) fn add(&mut self, key: K, name: impl FnOnce() -> String, placed: Placed<'_>, ran: Ran) {
        let Placed { buckets, span, shares } = placed;
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
