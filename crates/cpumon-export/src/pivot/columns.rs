//! The columns of a pivot, and the column of each process. Names are known only after the first pass, and a hostile host
//! may send any number of names.
//!
//! And which processes are alive. The store has no rows of idle processes, but idle (0) is not the same as gone (empty), so a pivot
//! follows births and ends to know which columns are 0.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cpumon_model::{BootId, Flags, Interval, ProcessInfo, ProcessInterval, ProcessKey, SourceKind};
use cpumon_query::{GroupBy, OTHERS, group_name};
use foldhash::fast::RandomState;

/// Most columns; spreadsheets end at 16,384. Later names are added up in one more column.
pub(crate) const MAX_COLUMNS: usize = 16_000;

/// One process: host (its number in the export), boot and key.
type Identity = (usize, BootId, ProcessKey);

/// The columns, and the column of each process.
#[derive(Default)]
pub(super) struct PivotNames {
    by: GroupBy,
    max_columns: usize,
    columns: Vec<String>,
    by_name: HashMap<Box<str>, usize, RandomState>,
    by_process: HashMap<Identity, usize, RandomState>,
    /// Number of processes of one host with the same name and pid.
    twins: HashMap<(usize, String), u32>,
    /// Position in the output by column; filled by [`PivotNames::sort`].
    position: Vec<usize>,
    /// Upper bound of the number of names beyond `max_columns`.
    pub folded: u64,
}

impl PivotNames {
    /// `max_columns`: most columns before `(other)`.
    pub fn new(by: GroupBy, max_columns: usize) -> Self {
        Self { by, max_columns, ..Self::default() }
    }

    /// First pass: adds a process; returns its column in the order of the first pass, `None` beyond the limit.
    pub fn collect(&mut self, host: usize, interval: &Interval, row: &ProcessInterval) -> Option<usize> {
        match self.by {
            GroupBy::Process => self.add_process((host, interval.boot, row.key), &row.info),
            by => self.add_name(&group_name(by, interval.source, &row.info)),
        }
    }

    fn add_name(&mut self, name: &str) -> Option<usize> {
        if let Some(&at) = self.by_name.get(name) {
            return Some(at);
        }
        if self.columns.len() >= self.max_columns {
            // Names beyond the limit are not remembered, so a name that comes again is counted again: an upper bound.
            self.folded += 1;
            return None;
        }
        self.by_name.insert(name.into(), self.columns.len());
        self.columns.push(name.to_owned());
        Some(self.columns.len() - 1)
    }

    fn add_process(&mut self, identity: Identity, info: &ProcessInfo) -> Option<usize> {
        if let Some(&at) = self.by_process.get(&identity) {
            return Some(at);
        }
        if self.columns.len() >= self.max_columns {
            self.folded += 1;
            return None;
        }
        let label = format!("{}[{}]", info.name, identity.2.pid);
        let count = self.twins.entry((identity.0, label.clone())).or_insert(0);
        *count += 1;
        // A pid that was used again must not add two processes up in one column.
        let label = if *count > 1 { format!("{label}#{count}") } else { label };
        // The same label on another host is the same column: the row has the host.
        let at = *self.by_name.entry(label.as_str().into()).or_insert_with(|| {
            self.columns.push(label);
            self.columns.len() - 1
        });
        self.by_process.insert(identity, at);
        Some(at)
    }

    /// Ends the first pass; returns the columns in binary order of their names.
    pub fn sort(&mut self) -> Vec<String> {
        let mut order: Vec<usize> = (0..self.columns.len()).collect();
        order.sort_by(|a, b| self.columns[*a].cmp(&self.columns[*b]));
        self.position = vec![0; order.len()];
        for (position, &column) in order.iter().enumerate() {
            self.position[column] = position;
        }
        let mut sorted: Vec<_> = order.iter().map(|&at| std::mem::take(&mut self.columns[at])).collect();
        if self.folded > 0 {
            self.position.push(sorted.len());
            sorted.push(OTHERS.to_owned());
        }
        // Only the first pass numbers twins.
        self.twins = HashMap::new();
        sorted
    }

    /// Number of columns in the output.
    pub fn len(&self) -> usize {
        self.position.len()
    }

    /// Second pass: the column of a process. `None` if the first pass did not see it (the store has grown since).
    pub fn column(
        &self,
        host: usize,
        interval: &Interval,
        info: &ProcessInfo,
        key: ProcessKey,
    ) -> Option<usize> {
        self.position(
            match self.by {
                GroupBy::Process => self.by_process.get(&(host, interval.boot, key)),
                by => self.by_name.get(&*group_name(by, interval.source, info)),
            }
            .copied(),
        )
    }

    /// Second pass: the position in the output of a column of the first pass.
    pub fn position(&self, column: Option<usize>) -> Option<usize> {
        // Without folded names there is no such column, and a process that came after the first pass is left
        // out.
        let others = || (self.folded > 0).then(|| self.position.len() - 1);
        column.and_then(|at| self.position.get(at).copied()).or_else(others)
    }
}

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
    row.life.is_born() || row.flags.contains(Flags::FIRST_SIGHT)
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
            let is_known =
                if row.life.has_ended() { self.alive.remove(&row.key) } else { !self.alive.insert(row.key) };
            // Its first row is not flagged as begun, so it was alive and idle before.
            if !is_known && !begins(row) && self.noted < MAX_NOTED {
                self.noted += 1;
                self.early.entry(self.stretch.number).or_default().push((row.key, row.info.clone()));
            }
        }
    }
}

/// Second pass: how many processes of each column are alive.
#[derive(Default)]
pub(super) struct Alive {
    stretch: Stretch,
    early: HashMap<u64, Vec<(ProcessKey, Arc<ProcessInfo>)>>,
    columns: HashMap<ProcessKey, usize, RandomState>,
    counts: Vec<u32>,
    is_reported: bool,
}

impl Alive {
    pub fn new(lives: EarlyLives) -> Self {
        Self { early: lives.early, ..Self::default() }
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
