//! Rows of cells on their way to a file. In: a header and [`Value`]s. Out: whatever the format makes of them.
//! Why: what a row holds and how it is written are decided apart.

use std::io;

use cpumon_model::{IntervalView, Value};

/// A format for rows with fixed columns.
pub(crate) trait RowSink {
    /// The columns, once, before any row.
    fn header(&mut self, names: &[&'static str]) -> io::Result<()>;
    /// One row, as many values as the header had names.
    fn row(&mut self, values: &[Value<'_>]) -> io::Result<()>;
}

/// A format for pivots: columns come from the data.
pub(crate) trait PivotSink {
    /// The data columns, once, before any row.
    fn header(&mut self, columns: &[String]) -> io::Result<()>;
    /// One interval, as many cells as the header had columns. Of the interval only its wall clock times, length, boot, source,
    /// flags and v1 ticks are told.
    fn row(&mut self, host: &str, view: &IntervalView<'_>, cells: &[Value<'_>]) -> io::Result<()>;
}
