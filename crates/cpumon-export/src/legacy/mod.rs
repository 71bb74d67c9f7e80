//! The original receiver's pivot, processes and threads files, so that scripts written for them keep working.
//!
//! Fields are separated by `;`, lines end in CRLF, times are in ms. Pivots have time stamps in ticks of 100 ns since 0001-01-01,
//! rows the time of day of those ticks on a twelve-hour clock. Faults of the original are not repeated: processes of one name
//! add up in the pivot instead of hiding each other, no quote is missing, every row is written exactly once and in full, and
//! devices do not mix.

mod layout;
mod rows;

use std::io::{self, Write};

use cpumon_model::{IntervalView, Value};
use cpumon_store::Reader;

use crate::rows::PivotSink;
use crate::source::ExportSource;
use crate::{ExportError, ExportQuery, GroupBy, LegacyYear, PivotValue, Progress, Report, pivot};
pub(crate) use layout::{LegacyLayout, layout_of};
use layout::{ms, ticks, write_between, write_pivot_name};

/// Writes the rows that `query` selects in the original's layout of that year. Pivots are by name and hold user time, as the
/// original's.
///
/// Process and thread rows are in the order of `Idx`: first those of imported databases, with the original's own numbers, then
/// those of other hosts, one host after the other, with running numbers. The layouts of 2012 have no column for the device, so
/// they fail for several devices.
pub(crate) fn legacy(
    reader: &Reader,
    year: LegacyYear,
    query: &ExportQuery,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, ExportError> {
    let source = ExportSource::open(reader, query, 1)?;
    let report = match layout_of(&source, year, query.kind)? {
        LegacyLayout::Pivot => {
            let by_name =
                ExportQuery { group_by: GroupBy::Name, pivot_value: PivotValue::User, ..query.clone() };
            pivot::run(reader, &by_name, pivot::MAX_COLUMNS, &mut LegacyPivot { year, out }, progress)?
        }
        LegacyLayout::Rows(layout) => {
            rows::write(reader, query, layout, rows::Limits::default(), out, progress)?
        }
    };
    out.flush()?;
    Ok(report)
}

struct LegacyPivot<'w> {
    year: LegacyYear,
    out: &'w mut dyn Write,
}

impl PivotSink for LegacyPivot<'_> {
    fn header(&mut self, columns: &[String]) -> io::Result<()> {
        if self.year == LegacyYear::Y2013 {
            self.out.write_all(b"'RemoteIP';")?;
        }
        self.out.write_all(b"'Time';")?;
        for name in columns {
            write_between(self.out, b'\'', name)?;
            self.out.write_all(b";")?;
        }
        self.out.write_all(b"\r\n")
    }

    fn row(&mut self, host: &str, view: &IntervalView<'_>, cells: &[Value<'_>]) -> io::Result<()> {
        if self.year == LegacyYear::Y2013 {
            write_pivot_name(self.out, host)?;
            self.out.write_all(b";")?;
        }
        write!(self.out, "{};", ticks(view.interval()))?;
        for cell in cells {
            if let Value::Int(ns) = cell {
                write!(self.out, "{}", ms(*ns))?;
            }
            self.out.write_all(b";")?;
        }
        self.out.write_all(b"\r\n")
    }
}
