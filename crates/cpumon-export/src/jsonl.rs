//! JSON: an object for each row, as lines or in one array; no data is null. Scripts need not guess types.

use std::io::{self, Write};

use cpumon_model::Value;

use crate::rows::{RowSink, SinkColumn, unique_names};

/// Writes objects. A pivot's cells are an object of their own under `values`.
pub(crate) struct Jsonl<'w> {
    out: &'w mut dyn Write,
    buffer: Vec<u8>,
    keys: Vec<Vec<u8>>,
    /// Columns from here on are in the inner object.
    nested: Option<usize>,
    array: Option<Array>,
}

/// The part of an array that is written.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Array {
    Nothing,
    Rows,
}

impl<'w> Jsonl<'w> {
    /// Writes JSON lines.
    pub(crate) fn new(out: &'w mut dyn Write) -> Self {
        Self { out, buffer: Vec::new(), keys: Vec::new(), nested: None, array: None }
    }

    /// Writes one array of all rows.
    pub(crate) fn array(out: &'w mut dyn Write) -> Self {
        Self { array: Some(Array::Nothing), ..Self::new(out) }
    }

    fn pairs(&mut self, from: usize, values: &[Value<'_>]) -> io::Result<()> {
        for (at, (key, value)) in self.keys.iter().skip(from).zip(values).enumerate() {
            if at > 0 {
                self.buffer.push(b',');
            }
            self.buffer.extend_from_slice(key);
            self.buffer.push(b':');
            write_value(&mut self.buffer, value)?;
        }
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
    fn columns(&mut self, columns: &[SinkColumn<'_>], nested: Option<usize>) -> io::Result<()> {
        self.nested = nested;
        let (flat, inner) = columns.split_at(nested.unwrap_or(columns.len()));
        let names = unique_names(flat).into_iter().chain(unique_names(inner));
        self.keys = names.map(|name| serde_json::to_vec(&name)).collect::<Result<_, _>>()?;
        Ok(())
    }

    fn row(&mut self, values: &[Value<'_>]) -> io::Result<()> {
        let begin: &[u8] = match self.array {
            None => b"{",
            Some(Array::Nothing) => b"[\n{",
            Some(Array::Rows) => b",\n{",
        };
        self.buffer.extend_from_slice(begin);
        let (flat, inner) = values.split_at(self.nested.unwrap_or(values.len()));
        self.pairs(0, flat)?;
        if self.nested.is_some() {
            self.buffer.extend_from_slice(b",\"values\":{");
            self.pairs(flat.len(), inner)?;
            self.buffer.push(b'}');
        }
        self.buffer.push(b'}');
        match &mut self.array {
            None => self.buffer.push(b'\n'),
            Some(array) => *array = Array::Rows,
        }
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        match self.array {
            None => {}
            Some(Array::Nothing) => self.out.write_all(b"[]\n")?,
            Some(Array::Rows) => self.out.write_all(b"\n]\n")?,
        }
        self.out.flush()
    }
}
