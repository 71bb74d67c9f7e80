//! Output of a command: rows as a table of the columns that fit (on a narrow terminal the less important ones are left
//! out, and long names are cut) or in a format for programs, JSON documents, and paragraphs.

use std::io::{self, Write};

use anyhow::Context;
use cpumon_export::SinkColumn;
use cpumon_model::{Kind, Value as Cell};
use cpumon_query::fields::Field;
use cpumon_tui::{Columns, is_utf8_locale};
use serde_json::Value;

use crate::cli::OutputFormat;
use crate::exit::Outcome;

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

/// Writes a value as indented JSON.
pub(crate) fn write_json(value: &impl serde::Serialize, out: &mut dyn Write) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    writeln!(out, "{text}").context("cannot write JSON")
}

/// Writes rows as a table for people, or in a format for programs, which has all columns.
pub(crate) fn write_rows<R>(
    format: OutputFormat,
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

/// Writes rows of texts with a name for each column: that of CSV and JSON, in a table in upper case. An empty text is nothing in CSV
/// and Parquet. The caller escapes text from other machines.
pub(crate) fn write_texts<const N: usize>(
    names: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
    format: OutputFormat,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let rows = rows.into_iter();
    if let Some(file) = format.file() {
        let is_empty_nothing = matches!(format, OutputFormat::Csv | OutputFormat::Parquet);
        let cell = |text: String| match text.as_str() {
            "" if is_empty_nothing => Cell::Null,
            _ => Cell::Text(text.into()),
        };
        let columns = names.map(|name| SinkColumn { name, kind: Some(Kind::Text) });
        cpumon_export::table(file, &columns, rows.map(|row| row.map(cell).into()), out)?;
    } else {
        let titles = names.map(|name| name.to_ascii_uppercase().replace('_', " "));
        let mut table = Table::new(&titles.each_ref().map(String::as_str));
        rows.for_each(|row| table.row(row));
        table.write_within(terminal_columns(), out).context("cannot write the rows")?;
    }
    Ok(Outcome::Done)
}

/// Writes a value for programs: JSON on a line or on many, or rows of path and value (`receiver.datagrams`, `7`).
pub(crate) fn write_document(
    value: &impl serde::Serialize,
    format: OutputFormat,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    match format {
        OutputFormat::Csv | OutputFormat::Parquet => {
            let mut rows = Vec::new();
            flatten("", &serde_json::to_value(value)?, &mut rows);
            write_texts(["name", "value"], rows, format, out).map(|_done| ())
        }
        OutputFormat::Jsonl => {
            writeln!(out, "{}", serde_json::to_string(value)?).context("cannot write JSON")
        }
        OutputFormat::Table | OutputFormat::Json => write_json(value, out),
    }
}

fn flatten(path: &str, value: &Value, rows: &mut Vec<[String; 2]>) {
    let inner = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| flatten(&inner(name), field, rows));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| flatten(&inner(&at.to_string()), item, rows));
        }
        Value::Null => rows.push([path.to_owned(), String::new()]),
        Value::String(text) => rows.push([path.to_owned(), text.clone()]),
        other => rows.push([path.to_owned(), other.to_string()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records_written(format: OutputFormat) -> String {
        let rows = [["=a,b", "now"], ["c", ""]].map(|row| row.map(str::to_owned));
        let mut out = Vec::new();
        write_texts(["host", "last_seen"], rows, format, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_format_has_the_same_rows() {
        assert_eq!(records_written(OutputFormat::Table), "HOST  LAST SEEN\n=a,b  now\nc\n");
        assert_eq!(records_written(OutputFormat::Csv), "host,last_seen\r\n\"'=a,b\",\"now\"\r\n\"c\",\r\n");
        let lines = "{\"host\":\"=a,b\",\"last_seen\":\"now\"}\n{\"host\":\"c\",\"last_seen\":\"\"}\n";
        assert_eq!(records_written(OutputFormat::Jsonl), lines);
        let array: Vec<Value> = serde_json::from_str(&records_written(OutputFormat::Json)).unwrap();
        let objects: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(array, objects);
    }

    #[test]
    fn a_document_is_flattened_to_paths() {
        let mut out = Vec::new();
        let value = serde_json::json!({"a": {"b": 1, "c": [true, null]}});
        write_document(&value, OutputFormat::Csv, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "name,value\r\n\"a.b\",\"1\"\r\n\"a.c.0\",\"true\"\r\n\"a.c.1\",\r\n"
        );
    }
}
