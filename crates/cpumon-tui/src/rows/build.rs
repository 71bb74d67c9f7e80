//! Arranges an interval as a list, a tree or groups. All rows are arranged, only the visible ones are formatted: 10,000 threads
//! take milliseconds (`cargo bench -p cpumon-tui`).

use cpumon_model::Interval;

use crate::history::RunTotals;
use crate::rows::input::Input;
use crate::rows::sort::Sorter;
use crate::rows::types::{Fold, GridRow, RowKind, RowList, index};
use crate::rows::{groups, tree};
use crate::view::{Layout, View};

impl RowList {
    pub(crate) fn build(interval: &Interval, view: &View, seen: &RunTotals) -> Self {
        let input = Input { interval, view, sorter: Sorter::new(interval, view, seen) };
        let mut list = match view.layout {
            Layout::List if view.threads => input.flat_threads(),
            Layout::List => input.list(),
            Layout::Tree => tree::build(&input),
            Layout::Groups => groups::build(&input),
        };
        list.rows.truncate(view.limit.unwrap_or(usize::MAX));
        list
    }
}

impl Input<'_> {
    fn list(&self) -> RowList {
        let threads = self.threads_by_process();
        let mut out = RowList::default();
        let mut shown: Vec<u32> = self.matching(&threads);
        self.sorter.processes(&mut shown);
        for at in shown {
            let row = GridRow::top(RowKind::Process(at), self.thread_fold(at, &threads));
            out.rows.push(row);
            self.push_threads(&row, at, &threads, &mut out.rows);
        }
        out
    }

    fn flat_threads(&self) -> RowList {
        // Once for each process: all of its threads share the answer.
        let wanted: Vec<bool> = self
            .interval
            .processes
            .iter()
            .map(|process| self.allows_pid(process.key.pid) && self.allows_user(process))
            .collect();
        let named: Vec<bool> =
            self.interval.processes.iter().map(|process| self.names_match(process)).collect();
        let mut shown: Vec<u32> = Vec::with_capacity(self.interval.threads.len());
        for (at, thread) in self.interval.threads.iter().enumerate() {
            let owner = self.interval.processes.binary_search_by_key(&thread.process, |row| row.key);
            let (is_wanted, is_named) = owner
                .map_or((self.allows_pid(thread.process.pid) && self.view.user.is_none(), false), |owner| {
                    (wanted[owner], named[owner])
                });
            if is_wanted && !self.is_hidden(&thread.delta) && (is_named || self.thread_matches(thread)) {
                shown.push(index(at));
            }
        }
        self.sorter.threads(&mut shown);
        let rows = shown.into_iter().map(|at| GridRow::top(RowKind::Thread(at), Fold::Leaf)).collect();
        RowList { rows, groups: Vec::new() }
    }
}
