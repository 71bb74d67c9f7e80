//! Which processes are alive. The store has no rows of idle processes, but idle (0) is not the same as gone (empty), so a pivot
//! follows births and ends to know which columns are 0.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cpumon_model::{BootId, Flags, Interval, Life, ProcessInfo, ProcessInterval, ProcessKey, SourceKind};
use foldhash::fast::RandomState;

/// Most processes that are noted, restarts of the host included. Beyond it, idle before the first row is empty instead of 0.
const MAX_NOTED: usize = 1 << 20;

/// A stretch of one host between two restarts: within it, a process that is alive and has no row did nothing.
#[derive(Default)]
struct Stretch {
    boot: BootId,
    number: u64,
    is_begun: bool,
}

impl Stretch {
    /// Whether a new stretch begins with `interval`.
    fn enter(&mut self, interval: &Interval) -> bool {
        let is_new = !self.is_begun || self.boot != interval.boot || interval.flags.contains(Flags::RESTART);
        if is_new {
            self.number += u64::from(self.is_begun);
            self.is_begun = true;
            self.boot = interval.boot;
        }
        is_new
    }
}

/// Whether a missing row means idle. A v1 device lists whichever processes it likes, so without a row nothing is known.
fn reports_lives(interval: &Interval) -> bool {
    !matches!(interval.source, SourceKind::V1 | SourceKind::Legacy)
}

fn begins(row: &ProcessInterval) -> bool {
    matches!(row.life, Life::Born | Life::BornEnded) || row.flags.contains(Flags::FIRST_SIGHT)
}

pub(super) fn ends(row: &ProcessInterval) -> bool {
    matches!(row.life, Life::Ended | Life::BornEnded)
}

/// First pass: processes that were alive before their first row, by stretch.
#[derive(Default)]
pub(super) struct EarlyLives {
    stretch: Stretch,
    alive: HashSet<ProcessKey, RandomState>,
    early: HashMap<u64, Vec<(ProcessKey, Arc<ProcessInfo>)>>,
    noted: usize,
}

impl EarlyLives {
    pub fn observe(&mut self, interval: &Interval) {
        if !reports_lives(interval) {
            return;
        }
        if self.stretch.enter(interval) {
            self.alive.clear();
        }
        for row in &interval.processes {
            let is_known = if ends(row) { self.alive.remove(&row.key) } else { !self.alive.insert(row.key) };
            // Its first row does not say that it began, so it was alive and idle before.
            if !is_known && !begins(row) && self.noted < MAX_NOTED {
                self.noted += 1;
                self.early.entry(self.stretch.number).or_default().push((row.key, row.info.clone()));
            }
        }
    }
}

/// Second pass: how many processes of each column are alive.
pub(super) struct Alive {
    stretch: Stretch,
    early: HashMap<u64, Vec<(ProcessKey, Arc<ProcessInfo>)>>,
    columns: HashMap<ProcessKey, usize, RandomState>,
    counts: Vec<u32>,
    is_reported: bool,
}

impl Alive {
    pub fn new(lives: EarlyLives) -> Self {
        Self {
            stretch: Stretch::default(),
            early: lives.early,
            columns: HashMap::default(),
            counts: Vec::new(),
            is_reported: false,
        }
    }

    /// Call before the rows of `interval`.
    pub fn enter(&mut self, interval: &Interval, column: impl Fn(&ProcessInfo, ProcessKey) -> Option<usize>) {
        self.is_reported = reports_lives(interval);
        if !self.is_reported || !self.stretch.enter(interval) {
            return;
        }
        self.columns.clear();
        self.counts.clear();
        for (key, info) in self.early.remove(&self.stretch.number).unwrap_or_default() {
            if let Some(column) = column(&info, key) {
                self.add(key, column);
            }
        }
    }

    /// Sets the columns with a live process to 0.
    pub fn fill_zeros(&self, sums: &mut [Option<i64>]) {
        if self.is_reported {
            for (sum, _) in sums.iter_mut().zip(&self.counts).filter(|(_, count)| **count > 0) {
                *sum = Some(0);
            }
        }
    }

    /// Call after a row of a process was added up. A process whose name changed counts in the column of its newest name.
    pub fn follow(&mut self, key: ProcessKey, ends: bool, column: Option<usize>) {
        let Some(column) = column.filter(|_| self.is_reported) else { return };
        if !ends && self.columns.get(&key) == Some(&column) {
            return;
        }
        if let Some(count) = self.columns.remove(&key).and_then(|old| self.counts.get_mut(old)) {
            *count = count.saturating_sub(1);
        }
        if !ends {
            self.add(key, column);
        }
    }

    fn add(&mut self, key: ProcessKey, column: usize) {
        if self.counts.len() <= column {
            self.counts.resize(column + 1, 0);
        }
        self.counts[column] += 1;
        self.columns.insert(key, column);
    }
}
