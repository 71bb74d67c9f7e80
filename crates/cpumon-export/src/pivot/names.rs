//! The columns of a pivot, and the column of each process. Names are known only after the first pass, and a hostile host may have
//! any number of them.

use std::collections::HashMap;

use cpumon_model::{BootId, Interval, ProcessInfo, ProcessInterval, ProcessKey};
use cpumon_query::{GroupBy, OTHERS, group_name};
use foldhash::fast::RandomState;

/// Most columns; spreadsheets end at 16,384. Later names are added up in one more column.
pub(crate) const MAX_COLUMNS: usize = 16_000;

/// One process: host (its number in the export), boot and key.
type Identity = (usize, BootId, ProcessKey);

/// The columns, and which process is in which.
pub(super) struct Names {
    by: GroupBy,
    max_columns: usize,
    columns: Vec<String>,
    by_name: HashMap<Box<str>, usize, RandomState>,
    by_process: HashMap<Identity, usize, RandomState>,
    /// Number of processes of one host with the same name and pid.
    twins: HashMap<(usize, String), u32>,
    /// Position in the output by column; filled by [`Names::sort`].
    position: Vec<usize>,
    folded: u64,
}

impl Names {
    /// With so many columns at most.
    pub fn new(by: GroupBy, max_columns: usize) -> Self {
        Self {
            by,
            max_columns,
            columns: Vec::new(),
            by_name: HashMap::default(),
            by_process: HashMap::default(),
            twins: HashMap::new(),
            position: Vec::new(),
            folded: 0,
        }
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

    pub fn folded(&self) -> u64 {
        self.folded
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
