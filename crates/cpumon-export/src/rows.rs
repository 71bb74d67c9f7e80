//! What a format writes: a header and rows of [`Value`]s. The kinds of exports use these traits, the formats implement them.

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
    /// One interval, with as many cells as the header had columns. The interval has only its wall-clock times, length, boot,
    /// source, flags and v1 ticks: the pivot does not hold more of it between its two passes.
    fn row(&mut self, host: &str, view: &IntervalView<'_>, cells: &[Value<'_>]) -> io::Result<()>;
}
