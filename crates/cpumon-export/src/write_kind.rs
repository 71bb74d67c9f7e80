//! Writes the rows of any [`Kind`] to any format that has a layout for all of them.

use cpumon_store::Reader;

use crate::error::ExportError;
use crate::query::{ExportQuery, Kind, Progress, Report};
use crate::rows::{PivotSink, RowSink};
use crate::{compare, kinds, pivot};

/// Writes the header and the rows that `query` selects to `sink`.
pub(crate) fn write_kind(
    reader: &Reader,
    query: &ExportQuery,
    sink: &mut (impl RowSink + PivotSink),
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, ExportError> {
    match query.kind {
        Kind::Pivot => pivot::run(reader, query, sink, progress),
        Kind::Compare => compare::run(reader, query, sink, progress),
        Kind::Processes | Kind::Threads | Kind::Cgroups | Kind::Ledger => {
            kinds::run(reader, query, sink, progress)
        }
    }
}
