//! The rows of a matrix while they are added up: run time and the highest single interval of each task in
//! each point, and the sum of the tasks that are not shown.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;

use cpumon_model::{Life, Moment};
use cpumon_store::Segment;

use super::answers::{MatrixRow, Values};
use super::buckets::{Buckets, Share};
use crate::keys::TaskKey;

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
    born: bool,
    ended: bool,
}

impl RowSum {
    fn add(&mut self, span: &Segment<'_>, shares: &[Share], ran: Ran) {
        let end = span.interval.end;
        self.total_ns = self.total_ns.saturating_add(ran.run_ns);
        // The same end means the same span, and so another process of this name.
        self.last_run_ns = ran.run_ns.saturating_add(if self.last == end { self.last_run_ns } else { 0 });
        self.last = end;
        self.born |= matches!(ran.life, Life::Born | Life::BornEnded);
        self.ended = matches!(ran.life, Life::Ended | Life::BornEnded);
        // Sums hold the highest of each process alone: all of a name had at least their mean.
        let together = self.last_run_ns as f64 * 1e9 / (span.interval.duration_ns() as f64).max(1.0);
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
        self.last = later.last;
        self.born |= later.born;
        self.ended = later.ended;
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

    pub(super) fn add(
        &mut self,
        key: K,
        name: impl FnOnce() -> String,
        span: &Segment<'_>,
        shares: &[Share],
        ran: Ran,
    ) {
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
        row.add(span, shares, ran);
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

    /// All rows there are, those that are shown, and the sum of the others.
    pub(super) fn finish(
        mut self,
        buckets: &Buckets,
        shown: ShownRows,
        key: impl Fn(&K) -> Option<TaskKey>,
    ) -> (usize, Vec<MatrixRow>, Values) {
        let total = self.rows.len();
        let mut rows: Vec<(K, RowSum)> = self.rows.drain().collect();
        rows.sort_by(|(a_key, a), (b_key, b)| {
            let busiest = (Reverse(a.total_ns), a_key).cmp(&(Reverse(b.total_ns), b_key));
            match shown.sort {
                MatrixSort::Run => busiest,
                MatrixSort::Highest => b.most_ns_per_s.total_cmp(&a.most_ns_per_s).then(busiest),
            }
        });
        let rows: Vec<_> = rows.into_iter().skip(shown.offset).take(shown.limit).collect();
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
            values: buckets.zero_where_covered(row.cells.iter().map(|cell| (cell.at, cell.run_ns))),
            max: buckets.highest_where_covered(row.cells.iter().map(|cell| (cell.at, cell.most_ns_per_s))),
        });
        (total, rows.collect(), buckets.zero_where_covered(rest))
    }
}
