//! The selection and the scroll position: [`GridCursor`] of the grid, [`ReportScreen`] of a report. The selection of the grid is a task, not
//! a line: it follows the task when rows change places.

use cpumon_model::Interval;
use cpumon_query::report::{Report, ReportRow};

use crate::rows::{RowId, RowList};

#[derive(Clone, Debug, Default)]
pub(crate) struct GridCursor {
    /// The selected task, in this interval's rows or not.
    pub selected: Option<RowId>,
    /// The selected row, or the last known one.
    pub at: usize,
    /// Whether the selected task has a row.
    pub is_present: bool,
    /// First row in view.
    pub top: usize,
    /// Number of rows in view, as drawn last.
    pub height: usize,
    /// The view follows the selection when rows change places.
    pub follow: bool,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
}

impl GridCursor {
    pub(crate) fn after_rebuild(&mut self, rows: &RowList, interval: &Interval) {
        let place = self.selected.as_ref().and_then(|id| rows.position(interval, id));
        self.is_present = place.is_some();
        if let Some(place) = place {
            self.at = place;
        }
        self.at = self.at.min(rows.rows.len().saturating_sub(1));
        if self.follow && self.is_present {
            self.scroll_to_selection();
        }
        self.top = self.top.min(rows.rows.len().saturating_sub(self.height.max(1)));
    }

    /// Moves the selection. The first move selects the first row in view.
    pub(crate) fn go(&mut self, step: Move, rows: &RowList, interval: &Interval) {
        let last = rows.rows.len().saturating_sub(1);
        // One row of the page before stays in view.
        let page = self.height.saturating_sub(1).max(1);
        let at = match (step, self.selected.is_some()) {
            (Move::Home, _) => 0,
            (Move::End, _) => last,
            (Move::Up | Move::Down, false) => self.top,
            (Move::Up, true) => self.at.saturating_sub(1),
            // Where the selected task has no row, `at` is already the row that took its place.
            (Move::Down, true) => self.at.saturating_add(usize::from(self.is_present)),
            (Move::PageUp, _) => self.at.saturating_sub(page),
            (Move::PageDown, _) => self.at.saturating_add(page),
        };
        self.select(at.min(last), rows, interval);
    }

    /// Selects the row at a place and scrolls to it.
    pub(crate) fn select(&mut self, at: usize, rows: &RowList, interval: &Interval) {
        if let Some(item) = rows.rows.get(at).and_then(|row| rows.item(interval, row)) {
            self.selected = Some(item.id());
            self.is_present = true;
            self.at = at;
            self.scroll_to_selection();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.selected = None;
        self.is_present = false;
    }

    /// Takes in how many rows are in view now.
    pub(crate) fn resize(&mut self, height: usize, count: usize) {
        let was_in_view = self.is_present && (self.top..self.top + self.height.max(1)).contains(&self.at);
        if self.height == 0 {
            // Nothing was drawn yet, so keys scrolled a view without rows.
            self.top = 0;
        }
        self.height = height;
        self.top = self.top.min(count.saturating_sub(height.max(1)));
        // A selection that the user scrolled away from must not pull the view back.
        if was_in_view {
            self.scroll_to_selection();
        }
    }

    fn scroll_to_selection(&mut self) {
        let height = self.height.max(1);
        if self.at < self.top {
            self.top = self.at;
        } else if self.at >= self.top + height {
            self.top = self.at + 1 - height;
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ReportScreen {
    pub report: Report,
    pub at: usize,
    /// First row in view.
    pub top: usize,
    /// Number of rows in view, as drawn last.
    pub height: usize,
    /// The screen's line of the first row, as drawn last.
    pub first_line: u16,
}

impl ReportScreen {
    pub(crate) fn new(report: Report) -> Self {
        Self { report, at: 0, top: 0, height: 0, first_line: 0 }
    }

    pub(crate) fn row(&self) -> Option<&ReportRow> {
        self.report.rows.get(self.at)
    }

    pub(crate) fn select(&mut self, at: usize) {
        self.at = at.min(self.report.rows.len().saturating_sub(1));
    }

    /// Takes in how many rows are in view; the selected one stays among them.
    pub(crate) fn resize(&mut self, height: usize) {
        self.height = height;
        self.top = self.top.min(self.at).max((self.at + 1).saturating_sub(height.max(1)));
    }
}
