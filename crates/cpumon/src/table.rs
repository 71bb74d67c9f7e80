//! What a command prints: rows as a table of the columns that fit (on a narrow terminal the less important ones are left out, and long
//! names are cut) or in a format for programs, JSON documents, and paragraphs.

use std::io::{self, Write};

use anyhow::Context;
use cpumon_export::SinkColumn;
use cpumon_model::{Kind, Value as Cell};
use cpumon_query::fields::Field;
use cpumon_tui::{Columns, is_utf8_locale};
use serde_json::Value;

use crate::cli::Format;

pub(crate) use cpumon_export::TextTable as Table;

/// Columns of the terminal, else those of the environment variable `COLUMNS`. Files and other programs take any width.
pub(crate) fn terminal_columns() -> usize {
    let named = || std::env::var("COLUMNS").ok()?.parse().ok();
    terminal_size::terminal_size().map(|(width, _)| width.0.into()).or_else(named).unwrap_or(usize::MAX)
}

/// Writes a text in lines of at most `columns`.
pub(crate) fn paragraph(text: &str, columns: usize, out: &mut dyn Write) -> io::Result<()> {
    textwrap::wrap(text, columns).iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// Writes a value, indented.
pub(crate) fn write_json(value: &impl serde::Serialize, out: &mut dyn Write) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    writeln!(out, "{text}").context("cannot write JSON")
}

/// Writes rows as a table for people, or in a format for programs, which has all columns.
pub(crate) fn write_rows<R>(
    format: Format,
    fields: &[Field<'_, R>],
    rows: &[R],
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    match format.file() {
        Some(format) => cpumon_export::rows(format, fields, rows, out)?,
        None => write_columns(fields, rows, terminal_columns(), out)?,
    }
    Ok(())
}

/// Writes a table of the columns that fit into lines of `width`. The locale says how names that were cut are marked.
pub(crate) fn write_columns<R>(
    fields: &[Field<'_, R>],
    rows: &[R],
    width: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mark = if is_utf8_locale() { '…' } else { '~' };
    Columns::new(fields, rows).lines(width, mark).iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// Rows with a name for each column. Names are those of CSV and JSON; the table shows them as `UPPER CASE`.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    names: &'static [&'static str],
    rows: Vec<Vec<String>>,
}

impl Records {
    /// No rows yet.
    pub(crate) fn new(names: &'static [&'static str]) -> Self {
        Self { names, rows: Vec::new() }
    }

    /// Adds a row, one cell for each name. The caller escapes text from other machines.
    pub(crate) fn push(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Writes all rows. An empty text is nothing in CSV and Parquet.
    pub(crate) fn write(&self, format: Format, out: &mut dyn Write) -> anyhow::Result<()> {
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
pub(crate) fn flattened(value: &Value) -> Records {
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

    fn records_written(format: Format) -> String {
        let mut records = Records::new(&["host", "last_seen"]);
        records.push(["=a,b".to_owned(), "now".to_owned()]);
        records.push(["c".to_owned(), String::new()]);
        let mut out = Vec::new();
        records.write(format, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_format_has_the_same_rows() {
        assert_eq!(records_written(Format::Table), "HOST  LAST SEEN\n=a,b  now\nc\n");
        assert_eq!(records_written(Format::Csv), "host,last_seen\r\n\"'=a,b\",\"now\"\r\n\"c\",\r\n");
        let lines = "{\"host\":\"=a,b\",\"last_seen\":\"now\"}\n{\"host\":\"c\",\"last_seen\":\"\"}\n";
        assert_eq!(records_written(Format::Jsonl), lines);
        let array: Vec<Value> = serde_json::from_str(&records_written(Format::Json)).unwrap();
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
