//! Rows as CSV, JSON lines or a JSON array, for commands whose table is not an export of the store.

use std::io::{self, Write};

use cpumon_model::Value as Cell;
use serde_json::{Map, Value};

use crate::cli::Format;
use crate::table::{Table, terminal_columns};

/// Rows with a name for each column. Names are those of CSV and JSON; the table shows them as `UPPER CASE`.
#[derive(Clone, Debug)]
pub struct Records {
    names: &'static [&'static str],
    rows: Vec<Vec<String>>,
}

impl Records {
    /// No rows yet.
    #[must_use]
    pub fn new(names: &'static [&'static str]) -> Self {
        Self { names, rows: Vec::new() }
    }

    /// Adds a row, one cell for each name. The caller escapes text from other machines.
    pub fn push(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Writes all rows.
    pub fn write(&self, format: Format, out: &mut dyn Write) -> anyhow::Result<()> {
        match format {
            Format::Table => self.write_table(out)?,
            Format::Csv => write_csv(self.names, &self.rows, out)?,
            Format::Jsonl => self.write_lines(out)?,
            Format::Json => {
                let mut array = JsonArray::new(out);
                self.write_lines(&mut array)?;
                array.finish()?;
            }
        }
        Ok(())
    }

    fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let titles: Vec<String> =
            self.names.iter().map(|name| name.to_ascii_uppercase().replace('_', " ")).collect();
        let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
        let mut table = Table::new(&titles);
        for row in &self.rows {
            table.row(row.iter().cloned());
        }
        table.write_within(terminal_columns(), out)
    }

    fn write_lines(&self, out: &mut dyn Write) -> io::Result<()> {
        for row in &self.rows {
            let cells = self.names.iter().zip(row);
            let object: Map<String, Value> =
                cells.map(|(name, cell)| ((*name).to_owned(), cell.clone().into())).collect();
            serde_json::to_writer(&mut *out, &object)?;
            writeln!(out)?;
        }
        Ok(())
    }
}

/// Writes CSV (RFC 4180): each text between quotes, nothing for an empty one.
fn write_csv(names: &[&'static str], rows: &[Vec<String>], out: &mut dyn Write) -> anyhow::Result<()> {
    let cell = |cell: &String| match cell.as_str() {
        "" => Cell::Null,
        text => Cell::Text(text.to_owned().into()),
    };
    let cells = rows.iter().map(|row| row.iter().map(cell).collect());
    Ok(cpumon_export::table(cpumon_export::Format::Csv, names, cells, out)?)
}

/// A value as rows of path and value: `receiver.datagrams`, `7`.
#[must_use]
pub fn flattened(value: &Value) -> Records {
    let mut records = Records::new(&["name", "value"]);
    flatten("", value, &mut records);
    records
}

fn flatten(path: &str, value: &Value, records: &mut Records) {
    let inner = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| flatten(&inner(name), field, records));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| flatten(&inner(&at.to_string()), item, records));
        }
        Value::Null => records.push([path.to_owned(), String::new()]),
        Value::String(text) => records.push([path.to_owned(), text.clone()]),
        other => records.push([path.to_owned(), other.to_string()]),
    }
}

/// Turns JSON lines into one JSON array while they are written. [`JsonArray::finish`] writes its end.
pub struct JsonArray<'a> {
    out: &'a mut dyn Write,
    is_empty: bool,
    is_line_start: bool,
}

impl<'a> JsonArray<'a> {
    /// An array that is written to `out`.
    pub fn new(out: &'a mut dyn Write) -> Self {
        Self { out, is_empty: true, is_line_start: true }
    }

    /// Writes the end of the array.
    pub fn finish(self) -> io::Result<()> {
        self.out.write_all(if self.is_empty { b"[]\n" } else { b"\n]\n" })?;
        self.out.flush()
    }
}

impl Write for JsonArray<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        for line in buffer.split_inclusive(|byte| *byte == b'\n') {
            if self.is_line_start {
                self.out.write_all(if self.is_empty { b"[\n" } else { b",\n" })?;
                (self.is_empty, self.is_line_start) = (false, false);
            }
            // The line end is written with the next line, because no comma may follow the last object.
            let body = line.strip_suffix(b"\n");
            self.is_line_start = body.is_some();
            self.out.write_all(body.unwrap_or(line))?;
        }
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: Format) -> String {
        let mut records = Records::new(&["host", "last_seen"]);
        records.push(["=a,b".to_owned(), "now".to_owned()]);
        records.push(["c".to_owned(), String::new()]);
        let mut out = Vec::new();
        records.write(format, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_format_has_the_same_rows() {
        assert_eq!(written(Format::Table), "HOST  LAST SEEN\n=a,b  now\nc\n");
        assert_eq!(written(Format::Csv), "host,last_seen\r\n\"'=a,b\",\"now\"\r\n\"c\",\r\n");
        let lines = "{\"host\":\"=a,b\",\"last_seen\":\"now\"}\n{\"host\":\"c\",\"last_seen\":\"\"}\n";
        assert_eq!(written(Format::Jsonl), lines);
        let array: Vec<Value> = serde_json::from_str(&written(Format::Json)).unwrap();
        let objects: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(array, objects);
    }

    #[test]
    fn an_array_is_the_same_however_its_lines_are_cut() {
        for pieces in [&["{}\n{}\n"][..], &["{", "}\n", "{}", "\n"], &["{}\n{}"], &[]] {
            let mut out = Vec::new();
            let mut array = JsonArray::new(&mut out);
            for piece in pieces {
                array.write_all(piece.as_bytes()).unwrap();
            }
            array.finish().unwrap();
            let count = serde_json::from_slice::<Vec<Value>>(&out).unwrap().len();
            assert_eq!(count, if pieces.is_empty() { 0 } else { 2 }, "{pieces:?}");
        }
    }

    #[test]
    fn a_document_is_flattened_to_paths() {
        let mut out = Vec::new();
        let value = serde_json::json!({"a": {"b": 1, "c": [true, null]}});
        flattened(&value).write(Format::Csv, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "name,value\r\n\"a.b\",\"1\"\r\n\"a.c.0\",\"true\"\r\n\"a.c.1\",\r\n"
        );
    }
}
