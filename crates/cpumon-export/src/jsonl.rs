//! JSON lines: one object for each row; no data is null. Scripts need not guess types.

use std::io::{self, Write};

use cpumon_model::{IntervalView, Value};
use cpumon_store::Reader;

use crate::csv::PIVOT_KEYS;
use crate::rows::{PivotSink, RowSink};
use crate::write_kind::write_kind;
use crate::{ExportError, ExportQuery, Progress, Report};

/// Writes the rows that `query` selects as JSON lines. A pivot's cells are an object of their own under `values`.
pub fn jsonl(
    reader: &Reader,
    query: &ExportQuery,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, ExportError> {
    let mut sink = Jsonl::new(out);
    let report = write_kind(reader, query, &mut sink, progress)?;
    sink.flush()?;
    Ok(report)
}

/// Writes objects; also used for answers of SQL queries.
pub(crate) struct Jsonl<'w> {
    out: &'w mut dyn Write,
    buffer: Vec<u8>,
    keys: Vec<Vec<u8>>,
}

impl<'w> Jsonl<'w> {
    pub fn new(out: &'w mut dyn Write) -> Self {
        Self { out, buffer: Vec::new(), keys: Vec::new() }
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Sets the keys of all objects, in order.
    pub fn keys<'k>(&mut self, names: impl Iterator<Item = &'k str>) -> io::Result<()> {
        self.keys =
            names.map(|name| serde_json::to_vec(name).map_err(io::Error::from)).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Appends `{"key":value,…}` to the line.
    fn object(&mut self, values: &[Value<'_>]) -> io::Result<()> {
        self.buffer.push(b'{');
        for (at, (key, value)) in self.keys.iter().zip(values).enumerate() {
            if at > 0 {
                self.buffer.push(b',');
            }
            self.buffer.extend_from_slice(key);
            self.buffer.push(b':');
            write_value(&mut self.buffer, value)?;
        }
        self.buffer.push(b'}');
        Ok(())
    }

    /// Writes one object as a line.
    pub fn line(&mut self, values: &[Value<'_>]) -> io::Result<()> {
        self.object(values)?;
        self.end_line()
    }

    fn end_line(&mut self) -> io::Result<()> {
        self.buffer.push(b'\n');
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

fn write_value(line: &mut Vec<u8>, value: &Value<'_>) -> io::Result<()> {
    match value {
        Value::Null => line.extend_from_slice(b"null"),
        Value::Int(number) => write!(line, "{number}")?,
        Value::Real(number) => serde_json::to_writer(line, number)?,
        Value::Text(text) => serde_json::to_writer(line, text)?,
    }
    Ok(())
}

impl RowSink for Jsonl<'_> {
    fn header(&mut self, names: &[&'static str]) -> io::Result<()> {
        self.keys(names.iter().copied())
    }

    fn row(&mut self, values: &[Value<'_>]) -> io::Result<()> {
        self.line(values)
    }
}

impl PivotSink for Jsonl<'_> {
    fn header(&mut self, columns: &[String]) -> io::Result<()> {
        self.keys(columns.iter().map(String::as_str))
    }

    fn row(&mut self, _host: &str, view: &IntervalView<'_>, cells: &[Value<'_>]) -> io::Result<()> {
        self.buffer.push(b'{');
        for (id, name) in PIVOT_KEYS {
            write!(self.buffer, "\"{name}\":")?;
            write_value(&mut self.buffer, &view.host(id))?;
            self.buffer.push(b',');
        }
        self.buffer.extend_from_slice(b"\"values\":");
        self.object(cells)?;
        self.buffer.push(b'}');
        self.end_line()
    }
}
