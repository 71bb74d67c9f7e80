//! CSV as in RFC 4180: comma-separated lines that end in CRLF, fields quoted where needed. Names come from other machines, so a
//! text that a spreadsheet would run as a formula gets a leading apostrophe.

use std::io::{self, Write};

use cpumon_model::{ColumnId, IntervalView, Value};
use cpumon_query::Past;

use crate::rows::{PivotSink, RowSink};
use crate::write_kind::write_kind;
use crate::{ExportError, ExportQuery, Progress, Report};

/// The columns before the data columns of a pivot.
pub(crate) const PIVOT_KEYS: [(ColumnId, &str); 6] = [
    (ColumnId::Host, "host"),
    (ColumnId::BeginUtc, "begin_utc"),
    (ColumnId::EndUtc, "end_utc"),
    (ColumnId::BeginNs, "begin_ns"),
    (ColumnId::EndNs, "end_ns"),
    (ColumnId::DurationNs, "duration_ns"),
];

/// Records are written in pieces of about this size.
const FLUSH_BYTES: usize = 32 << 10;

/// Writes the rows that `query` selects as CSV.
///
/// A text that begins with `=`, `+`, `-`, `@`, a tab or a carriage return gets a leading `'`: spreadsheets would run it as a
/// formula. Numbers stay as they are.
pub fn csv(
    reader: &dyn Past,
    query: &ExportQuery,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, ExportError> {
    let mut sink = Csv::new(out);
    let report = write_kind(reader, query, &mut sink, progress)?;
    sink.flush()?;
    Ok(report)
}

/// Writes records; also used for answers of SQL queries. Fields are not written by the csv crate because most of them are whole
/// numbers, which need no quotes: a day's threads (6.3 M rows) take 5.3 s this way and 7.5 s with the crate
/// (`cargo bench -p cpumon-export`).
pub(crate) struct Csv<'w> {
    out: &'w mut dyn Write,
    buffer: Vec<u8>,
    digits: itoa::Buffer,
    /// Fields of the current record so far.
    fields: usize,
    /// Where the current record begins in `buffer`.
    begin: usize,
}

impl<'w> Csv<'w> {
    pub fn new(out: &'w mut dyn Write) -> Self {
        Self { out, buffer: Vec::new(), digits: itoa::Buffer::new(), fields: 0, begin: 0 }
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        self.begin = 0;
        self.out.flush()
    }

    pub fn field(&mut self, value: &Value<'_>) -> io::Result<()> {
        if let Value::Text(text) = value {
            return self.text_field(text);
        }
        self.separate();
        match value {
            Value::Int(number) => self.buffer.extend_from_slice(self.digits.format(*number).as_bytes()),
            Value::Real(number) => write!(self.buffer, "{number}")?,
            Value::Null | Value::Text(_) => {}
        }
        Ok(())
    }

    pub fn text_field(&mut self, text: &str) -> io::Result<()> {
        self.separate();
        let apostrophe = if is_formula(text) { "'" } else { "" };
        // Most texts need no quotes and are copied without an allocation.
        if !text.contains([',', '"', '\r', '\n']) {
            self.buffer.extend_from_slice(apostrophe.as_bytes());
            self.buffer.extend_from_slice(text.as_bytes());
            return Ok(());
        }
        write!(self.buffer, "\"{apostrophe}{}\"", text.replace('"', "\"\""))
    }

    fn separate(&mut self) {
        if self.fields > 0 {
            self.buffer.push(b',');
        }
        self.fields += 1;
    }

    pub fn end_record(&mut self) -> io::Result<()> {
        // A record of one empty field would be an empty line, which readers skip.
        if self.fields == 1 && self.buffer.len() == self.begin {
            self.buffer.extend_from_slice(b"\"\"");
        }
        self.buffer.extend_from_slice(b"\r\n");
        // Only between records, because `begin` is a position in the buffer.
        if self.buffer.len() >= FLUSH_BYTES {
            self.out.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        (self.fields, self.begin) = (0, self.buffer.len());
        Ok(())
    }
}

/// Whether a spreadsheet would run `text` as a formula.
#[must_use]
pub fn is_formula(text: &str) -> bool {
    text.starts_with(['=', '+', '-', '@', '\t', '\r'])
}

impl RowSink for Csv<'_> {
    fn header(&mut self, names: &[&'static str]) -> io::Result<()> {
        names.iter().try_for_each(|name| self.text_field(name))?;
        self.end_record()
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

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use proptest::prelude::*;

    use super::*;

    fn any_value() -> impl Strategy<Value = Value<'static>> {
        prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::Int),
            any::<f64>().prop_map(Value::Real),
            "[a=,\"\r\n\u{e4} '\\-]{0,5}".prop_map(|text| Value::Text(Cow::Owned(text))),
        ]
    }

    fn plain(value: &Value<'_>) -> String {
        match value {
            Value::Null => String::new(),
            Value::Int(number) => number.to_string(),
            Value::Real(number) => number.to_string(),
            Value::Text(text) if is_formula(text) => format!("'{text}"),
            Value::Text(text) => text.to_string(),
        }
    }

    proptest! {
        #[test]
        fn a_csv_library_writes_the_same(
            rows in prop::collection::vec(prop::collection::vec(any_value(), 1..5), 0..5),
        ) {
            let mut mine = Vec::new();
            let mut sink = Csv::new(&mut mine);
            let mut theirs = ::csv::WriterBuilder::new()
                .terminator(::csv::Terminator::CRLF)
                .flexible(true)
                .from_writer(Vec::new());
            for row in &rows {
                RowSink::row(&mut sink, row).unwrap();
                theirs.write_record(row.iter().map(plain)).unwrap();
            }
            sink.flush().unwrap();
            prop_assert_eq!(
                String::from_utf8(mine).unwrap(),
                String::from_utf8(theirs.into_inner().unwrap()).unwrap()
            );
        }
    }
}
