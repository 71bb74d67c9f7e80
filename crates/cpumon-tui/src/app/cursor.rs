//! The selection and the scroll position: [`GridCursor`] of the grid, [`ReportScreen`] of a report. The selection of the grid is a task, not
//! a line: it follows the task when rows change places.

use cpumon_model::Interval;
use cpumon_query::report::{Report, ReportRow};
use ratatui::crossterm::event::KeyCode;

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

/// The place in a list after a key; `None` for keys that do not move.
pub(crate) fn moved(code: KeyCode, at: usize, last: usize, page: usize) -> Option<usize> {
    Some(match code {
        KeyCode::Up | KeyCode::Char('k') => at.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => (at + 1).min(last),
        KeyCode::PageUp => at.saturating_sub(page),
        KeyCode::PageDown => (at + page).min(last),
        KeyCode::Home => 0,
        KeyCode::End => last,
        _ => return None,
    })
}

/// The first row in view that has the row `at` among `height` rows, as near to `top` as can be.
fn scrolled(top: usize, at: usize, height: usize) -> usize {
    top.min(at).max((at + 1).saturating_sub(height.max(1)))
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

    /// The place of the selection after a key, in a list of `rows` rows; `None` for keys that do not move. The first move is to the first
    /// row in view.
    pub(crate) fn moved(&self, code: KeyCode, rows: usize) -> Option<usize> {
        let last = rows.saturating_sub(1);
        // One row of the page before stays in view.
        let page = self.height.saturating_sub(1).max(1);
        let at = match code {
            KeyCode::Up | KeyCode::Down | KeyCode::Char('j' | 'k') if self.selected.is_none() => self.top,
            // Where the selected task has no row, `at` is already the row that took its place.
            KeyCode::Down | KeyCode::Char('j') if !self.is_present => self.at,
            _ => moved(code, self.at, last, page)?,
        };
        Some(at.min(last))
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
        self.top = scrolled(self.top, self.at, self.height);
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
        self.top = scrolled(self.top, self.at, height);
    }
}
