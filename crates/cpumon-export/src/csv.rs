//! CSV after RFC 4180. In: rows. Out: comma-separated lines ending in CRLF, quoted where needed. Why: every table program
//! reads it. Names are hostile: a text that a spreadsheet would run as a formula gets a leading apostrophe.

use std::fmt::Write as _;
use std::io::{self, Write};

use cpumon_model::{ColumnId, IntervalView, Value};
use cpumon_store::Reader;

use crate::rows::{PivotSink, RowSink};
use crate::{ExportError, ExportQuery, Kind, Progress, Report, kinds, pivot};

/// The columns that stand before the data columns of a pivot.
pub(crate) const PIVOT_KEYS: [(ColumnId, &str); 6] = [
    (ColumnId::Host, "host"),
    (ColumnId::BeginUtc, "begin_utc"),
    (ColumnId::EndUtc, "end_utc"),
    (ColumnId::BeginNs, "begin_ns"),
    (ColumnId::EndNs, "end_ns"),
    (ColumnId::DurationNs, "duration_ns"),
];

/// Writes what `query` asks for as CSV.
///
/// A text that begins with `=`, `+`, `-`, `@`, a tab or a carriage return gets a leading `'`, because spreadsheets would
/// take it for a formula. Numbers are never touched.
pub fn csv(
    reader: &Reader,
    query: &ExportQuery,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, ExportError> {
    let mut sink = Csv::new(out);
    let report = match query.kind {
        Kind::Pivot => pivot::run(reader, query, &mut sink, progress)?,
        _ => kinds::run(reader, query, &mut sink, progress)?,
    };
    sink.flush()?;
    Ok(report)
}

/// Writes records; also used for answers of SQL queries.
pub(crate) struct Csv<'w> {
    writer: ::csv::Writer<&'w mut dyn Write>,
    text: String,
}

impl<'w> Csv<'w> {
    pub fn new(out: &'w mut dyn Write) -> Self {
        let writer =
            ::csv::WriterBuilder::new().terminator(::csv::Terminator::CRLF).flexible(true).from_writer(out);
        Self { writer, text: String::new() }
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }

    pub fn field(&mut self, value: &Value<'_>) -> io::Result<()> {
        self.text.clear();
        match value {
            Value::Null => {}
            // Writing into a String cannot fail.
            Value::Int(number) => {
                let _infallible = write!(self.text, "{number}");
            }
            Value::Real(number) => {
                let _infallible = write!(self.text, "{number}");
            }
            Value::Text(text) => return self.text_field(text),
        }
        self.writer.write_field(&self.text).map_err(into_io)
    }

    pub fn text_field(&mut self, text: &str) -> io::Result<()> {
        if !is_formula(text) {
            return self.writer.write_field(text).map_err(into_io);
        }
        self.text.clear();
        self.text.push('\'');
        self.text.push_str(text);
        self.writer.write_field(&self.text).map_err(into_io)
    }

    pub fn end_record(&mut self) -> io::Result<()> {
        self.writer.write_record(None::<&[u8]>).map_err(into_io)
    }
}

/// Whether a spreadsheet would take `text` for a formula.
pub(crate) fn is_formula(text: &str) -> bool {
    text.starts_with(['=', '+', '-', '@', '\t', '\r'])
}

fn into_io(error: ::csv::Error) -> io::Error {
    match error.into_kind() {
        ::csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

impl RowSink for Csv<'_> {
    fn header(&mut self, names: &[&'static str]) -> io::Result<()> {
        self.writer.write_record(names).map_err(into_io)
    }

    fn row(&mut self, values: &[Value<'_>]) -> io::Result<()> {
        values.iter().try_for_each(|value| self.field(value))?;
        self.end_record()
    }
}

impl PivotSink for Csv<'_> {
    fn header(&mut self, columns: &[String]) -> io::Result<()> {
        PIVOT_KEYS.iter().try_for_each(|(_, name)| self.text_field(name))?;
        columns.iter().try_for_each(|name| self.text_field(name))?;
        self.end_record()
    }

    fn row(&mut self, _host: &str, view: &IntervalView<'_>, cells: &[Value<'_>]) -> io::Result<()> {
        PIVOT_KEYS.iter().try_for_each(|(id, _)| self.field(&view.host(*id)))?;
        cells.iter().try_for_each(|cell| self.field(cell))?;
        self.end_record()
    }
}
