//! The report of a range on screen: its rows and which one is selected.

use cpumon_query::report::ReportQuery;

use crate::report::{RangeReport, ReportRow};

/// A report and the place in it.
#[derive(Clone, Debug)]
pub(crate) struct ReportScreen {
    pub query: ReportQuery,
    pub report: RangeReport,
    /// The selected row.
    pub at: usize,
    /// First row in view.
    pub top: usize,
    /// Rows in view, as drawn last.
    pub height: usize,
    /// The screen's line of the first row, as drawn last.
    pub first_line: u16,
}

impl ReportScreen {
    pub(crate) fn new(query: ReportQuery, report: RangeReport) -> Self {
        Self { query, report, at: 0, top: 0, height: 0, first_line: 0 }
    }

    pub(crate) fn row(&self) -> Option<&ReportRow> {
        self.report.rows.get(self.at)
    }

    /// Selects a row.
    pub(crate) fn select(&mut self, at: usize) {
        self.at = at.min(self.report.rows.len().saturating_sub(1));
    }

    /// Takes in how many rows are in view; the selected one stays among them.
    pub(crate) fn resize(&mut self, height: usize) {
        self.height = height;
        self.top = self.top.min(self.at).max((self.at + 1).saturating_sub(height.max(1)));
    }
}
