//! Opens and closes what is below the selected row.

use cpumon_model::Interval;

use crate::app::{App, Pane};
use crate::rows::{Fold, RowId};
use crate::view::Layout;

impl App {
    /// Opens (`Some(true)`), closes or turns over what is below the selected row.
    pub(super) fn fold(&mut self, open: Option<bool>) -> bool {
        let Some(shown) = self.shown.clone() else { return true };
        let Some(row) = self.rows.rows.get(self.cursor.at).copied().filter(|_| self.cursor.is_present) else {
            return true;
        };
        let Some(id) = self.rows.item(&shown, &row).map(|item| item.id()) else { return true };
        match (row.fold, open) {
            (Fold::Closed, Some(true) | None) => self.unfold(id),
            (Fold::Open, Some(false) | None) => self.close(&id),
            (Fold::Open, Some(true)) => {
                self.view.open.insert(id);
            }
            (_, Some(false)) => self.go_to_parent(row.depth, &shown),
            (Fold::Leaf, None) if self.pane == Pane::Auto && !self.is_pane_shown() => self.pane = Pane::Shown,
            (Fold::Leaf, _) => {}
        }
        self.rebuild();
        true
    }

    fn unfold(&mut self, id: RowId) {
        // In the tree a closed row hides its children: they come back before its threads open.
        if let RowId::Process(key) = id
            && self.view.closed.remove(&key)
        {
            return;
        }
        self.view.open.insert(id);
    }

    /// Hides the threads first, then (in the tree) the children.
    fn close(&mut self, id: &RowId) {
        if !self.view.open.remove(id)
            && let RowId::Process(key) = id
            && self.view.layout == Layout::Tree
        {
            self.view.closed.insert(*key);
        }
    }

    fn go_to_parent(&mut self, depth: u16, shown: &Interval) {
        let above = self.rows.rows.get(..self.cursor.at).unwrap_or_default();
        if let Some(parent) = above.iter().rposition(|row| row.depth < depth) {
            self.cursor.select(parent, &self.rows, shown);
        }
    }
}
