//! Two ranges of time side by side as a file: one row a group of processes, the largest change first.

use std::ops::ControlFlow;

use cpumon_model::{Kind as ValueKind, Value};
use cpumon_query::report::{Change, Comparison, Side};
use cpumon_query::spans::{Cut, Span};
use cpumon_store::{Query, Reader, TimeRange, What};

use crate::rows::{RowSink, SinkColumn, columns};
use crate::source::Source;
use crate::{Compared, ExportError, ExportQuery, Progress, Report};

/// The two ranges of a comparison.
pub(crate) fn ranges_of(query: &ExportQuery) -> Result<Compared, ExportError> {
    query.compared.ok_or(ExportError::NoRanges)
}

/// Compares the two ranges of each host and writes the rows to `sink`.
pub(crate) fn run(
    reader: &Reader,
    query: &ExportQuery,
    sink: &mut dyn RowSink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, ExportError> {
    let Compared { before, after } = ranges_of(query)?;
    let source = Source::open(reader, query, 1)?;
    let host = SinkColumn { name: "host", kind: Some(ValueKind::Text) };
    let columns: Vec<_> = std::iter::once(host).chain(columns(&Change::fields())).collect();
    sink.columns(&columns, None)?;
    let mut report = Report::default();
    for host in &source.hosts {
        let label = source.label(host);
        let mut comparison = Comparison::new(query.group_by);
        for (side, range) in [(Side::Before, before), (Side::After, after)] {
            let asked = Query::new(host.info.host).what(What::Processes).filter(source.filter().clone());
            report.intervals += add_range(reader, &asked, side, range, &mut comparison)?;
        }
        report.folded += comparison.folded();
        comparison.sort();
        let fields = Change::fields();
        for row in comparison.rows() {
            let host = std::iter::once(Value::Text(label.as_str().into()));
            sink.row(&host.chain(fields.iter().map(|field| field.value(&row))).collect::<Vec<_>>())?;
            report.rows += 1;
        }
        report.hosts += u64::from(comparison.rows().len() > 0);
        progress(Progress { intervals: report.intervals, rows: report.rows, ratio: None });
    }
    Ok(report)
}

fn add_range(
    reader: &Reader,
    query: &Query,
    side: Side,
    range: TimeRange,
    comparison: &mut Comparison,
) -> Result<u64, ExportError> {
    let Some(cut) = Cut::of(reader, query.host, range)? else { return Ok(0) };
    comparison.read_from(side, cut.coarsest());
    let mut intervals = 0;
    for Span { range, resolution } in cut.spans {
        let query = query.clone().range(range.since_ns, range.until_ns);
        reader.for_each_segment(&query, resolution, &mut |span| {
            comparison.add(side, span);
            intervals += 1;
            ControlFlow::Continue(())
        })?;
    }
    Ok(intervals)
}
