//! Rows of texts, as a table or in a format for programs.

use std::io::{self, Write};

use cpumon_export::SinkColumn;
use cpumon_model::{Kind, Value as Cell};
use serde_json::Value;

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

    /// Writes all rows. An empty text is nothing in CSV and Parquet.
    pub fn write(&self, format: Format, out: &mut dyn Write) -> anyhow::Result<()> {
        let Some(file) = format.file() else { return Ok(self.write_table(out)?) };
        let column = |name| SinkColumn { name, kind: Some(Kind::Text) };
        let columns: Vec<_> = self.names.iter().copied().map(column).collect();
        let cell = |cell: &String| match cell.as_str() {
            "" if matches!(format, Format::Csv | Format::Parquet) => Cell::Null,
            text => Cell::Text(text.to_owned().into()),
        };
        let cells = self.rows.iter().map(|row| row.iter().map(cell).collect());
        Ok(cpumon_export::table(file, &columns, cells, out)?)
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
