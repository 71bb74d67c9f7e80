//! Search: selects rows that contain a text.

use cpumon_model::Interval;

use crate::app::App;
use crate::rows::{RowKind, thread_name};
use crate::text::contains;

impl App {
    /// Selects the next row that holds the search text, around the end.
    pub(super) fn find_next(&mut self, is_forward: bool) -> bool {
        let count = self.rows.rows.len();
        // Without a selection the search forward wraps to the first row.
        let from = if self.cursor.is_present { self.cursor.at } else { count.saturating_sub(1) };
        let step =
            |n: usize| if is_forward { (from + n) % count } else { (from + count - n % count) % count };
        self.select_match((1..=count).map(step));
        true
    }

    pub(super) fn select_match(&mut self, places: impl Iterator<Item = usize>) {
        let Some(shown) = self.shown.clone() else { return };
        let needle = self.search.to_ascii_lowercase();
        if needle.is_empty() {
            return;
        }
        let mut places = places.filter(|&at| self.row_holds(at, &needle, &shown));
        match places.next() {
            Some(at) => self.cursor.select(at, &self.rows, &shown),
            None => self.on_notice(format!("no row holds {:?}", self.search)),
        }
    }

    fn row_holds(&self, at: usize, needle: &str, shown: &Interval) -> bool {
        let Some(row) = self.rows.rows.get(at) else { return false };
        match row.kind {
            RowKind::Group(at) => {
                self.rows.groups.get(at as usize).is_some_and(|group| contains(&group.name, needle))
            }
            RowKind::Process(at) => shown.processes.get(at as usize).is_some_and(|row| {
                contains(&row.info.name, needle)
                    || (self.view.cmdline && contains(&row.info.cmdline, needle))
                    || row.key.pid.to_string() == needle
            }),
            RowKind::Thread(at) => shown.threads.get(at as usize).is_some_and(|row| {
                contains(&thread_name(shown, row), needle) || row.key.tid.to_string() == needle
            }),
        }
    }
}
