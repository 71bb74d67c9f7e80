//! [`RangeReport`]: who used the CPU in a range of time, as a feed answers it. The feed writes the cells, so that they are those of
//! `cpumon report`; the screens only choose the columns that fit.

/// A column of a report. Cells are safe to show after escaping only: names in them are hostile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportColumn {
    /// Its title.
    pub title: String,
    /// 0: always shown; a higher one is left out earlier on a narrow screen.
    pub rank: u8,
    /// A name, at the left; else a number, at the right.
    pub is_name: bool,
    /// A text for each row.
    pub cells: Vec<String>,
    /// Shorter texts, for where not all columns fit; empty if there are none.
    pub short_cells: Vec<String>,
}

/// A row of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportRow {
    /// The group's name; hostile. `None` for the row of all others and for what is not attributed.
    pub group: Option<String>,
    /// End of the interval in which it ran most, ns since the UNIX epoch.
    pub peak_ns: Option<i64>,
}

/// Who used the CPU in a range of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeReport {
    /// What was measured, a few lines.
    pub head: Vec<String>,
    /// Columns in order.
    pub columns: Vec<ReportColumn>,
    /// As many as each column has cells.
    pub rows: Vec<ReportRow>,
    /// What its columns mean, below it.
    pub notes: Vec<String>,
}
