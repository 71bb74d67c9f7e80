//! What a check found.

use std::collections::BTreeMap;

use crate::reader::{Damage, DamageReport};

/// Holes that are listed; more are only counted.
const MAX_HOLES: usize = 10_000;

/// Rows of a table that cannot be read, or whose content cannot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostRows {
    /// The table.
    pub table: String,
    /// Rows that are there but cannot be read.
    pub rows: u64,
    /// Places where an unknown number of rows is missing.
    pub ranges: u64,
    /// Why; empty where the pages say it.
    pub detail: String,
}

impl LostRows {
    pub(super) fn new(table: &str) -> Self {
        Self { table: table.to_owned(), ..Self::default() }
    }
}

/// What is right and what is wrong with a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Rows by table that were read.
    pub rows: BTreeMap<String, u64>,
    /// What SQLite finds wrong with the file, at most 20 lines.
    pub pages: Vec<String>,
    /// Intervals that cannot be read.
    pub damage: DamageReport,
    /// What is missing of other tables: names, sums, lists.
    pub lost: Vec<LostRows>,
}

impl CheckReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.pages.is_empty() && self.damage.is_empty() && self.lost.is_empty()
    }

    pub(super) fn count(&mut self, table: &str) {
        if let Some(count) = self.rows.get_mut(table) {
            *count += 1;
        } else {
            self.rows.insert(table.to_owned(), 1);
        }
    }

    pub(super) fn add_hole(&mut self, hole: Damage) {
        if self.damage.holes.len() < MAX_HOLES {
            self.damage.holes.push(hole);
        } else {
            self.damage.more += 1;
        }
    }

    pub(super) fn add_lost(&mut self, lost: LostRows) {
        if lost.rows + lost.ranges > 0 {
            self.lost.push(lost);
        }
    }

    pub(super) fn finish(&mut self) {
        self.damage.holes.sort_by_key(|hole| (hole.host, hole.first_end_wall_ns, hole.last_end_wall_ns));
    }
}
