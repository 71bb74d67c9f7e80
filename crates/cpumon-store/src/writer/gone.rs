//! What retention removed and caches may still name.

use std::collections::HashSet;

use crate::rows::{BootRow, HostRow};

/// Rows that are gone.
#[derive(Debug, Default)]
pub(super) struct Gone {
    /// Some of table `process_info`.
    pub(super) infos: bool,
    /// All names of unauthenticated hosts, or they will be.
    pub(super) unauthenticated_names: bool,
    /// Hosts, with all of their data.
    pub(super) hosts: Vec<HostRow>,
    /// Boots of which nothing was stored any more.
    pub(super) boots: Vec<BootRow>,
    /// Names that nothing used. A task may use its name again after days.
    pub(super) processes: GoneIds,
    pub(super) threads: GoneIds,
}

/// Ids of names that went.
#[derive(Debug, Default)]
pub(super) struct GoneIds {
    rows: HashSet<i64>,
    /// First and last id of each block, in order of ids.
    blocks: Vec<[i64; 2]>,
    /// Ids in blocks that have a row as well, which is still there.
    stay: HashSet<i64>,
}

impl GoneIds {
    /// `rows` went.
    pub(super) fn add_rows(&mut self, rows: Vec<i64>) {
        self.rows.extend(rows);
    }

    /// Blocks with these first and last ids went, but not the rows `stay`.
    pub(super) fn add_blocks(&mut self, mut blocks: Vec<[i64; 2]>, stay: Vec<i64>) {
        blocks.sort_unstable();
        self.blocks = blocks;
        self.stay.extend(stay);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.blocks.is_empty()
    }

    pub(super) fn has(&self, id: u64) -> bool {
        let id = id.cast_signed();
        let behind = self.blocks.partition_point(|[first, _]| *first <= id);
        let block = behind.checked_sub(1).and_then(|at| self.blocks.get(at));
        self.rows.contains(&id) || (block.is_some_and(|[_, last]| id <= *last) && !self.stay.contains(&id))
    }
}
