//! What a command prints: rows as a table of the columns that fit (on a narrow terminal the less important ones are left out, and long
//! names are cut) or in a format for programs, JSON documents, and paragraphs.

use std::io::{self, Write};

use anyhow::Context;
use cpumon_export::SinkColumn;
use cpumon_model::{Kind, Value as Cell};
use cpumon_query::fields::{Field, Shown};
use cpumon_tui::{ReportColumn, WantedColumn, fit_columns, is_utf8_locale};
use serde_json::Value;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

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
        None => Columns::new(fields, rows).write(terminal_columns(), out)?,
    }
    Ok(())
}

/// A column of a table.
#[derive(Clone, Debug)]
struct Column {
    title: &'static str,
    /// 0: always shown; a higher one is left out earlier.
    rank: u8,
    cells: Vec<String>,
    /// For where not all columns fit; empty if there are none.
    short_cells: Vec<String>,
    /// Never cut, also among names: a part of a number would be another number.
    is_whole: bool,
}

/// A table with more columns than a narrow terminal shows.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    /// Of the rows: texts, cut where a terminal is too narrow for them.
    names: Vec<Column>,
    numbers: Vec<Column>,
}

impl Column {
    fn new<R>(field: &Field<'_, R>, shown: &Shown<'_, R>, rows: &[R]) -> Self {
        let Shown { title, rank, is_whole, .. } = *shown;
        let cells = rows.iter().map(|row| field.show(row)).collect();
        let short_cells = rows.iter().filter_map(|row| field.show_short(row)).collect();
        Self { title, rank, cells, short_cells, is_whole }
    }

    /// As the screens have it.
    fn for_screen(self, is_name: bool) -> ReportColumn {
        let Self { title, rank, cells, short_cells, .. } = self;
        ReportColumn { title: title.to_owned(), rank, is_name, cells, short_cells }
    }

    fn width_with(&self, cells: &[String]) -> usize {
        cells.iter().map(|cell| cell.width()).chain([self.title.width()]).max().unwrap_or(0)
    }

    fn wanted(&self, is_name: bool) -> WantedColumn {
        let width = self.width_with(&self.cells);
        let short_width =
            if self.short_cells.is_empty() { width } else { self.width_with(&self.short_cells) };
        WantedColumn { width, rank: self.rank, is_name: is_name && !self.is_whole, short_width }
    }

    fn is_empty(&self) -> bool {
        self.cells.iter().all(|cell| cell.is_empty() || cell == "-")
    }
}

/// A text of at most `width` columns; `end` marks where it was cut.
fn cut(text: &str, width: usize, end: char) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut used = 1;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= width
    };
    text.chars().take_while(fits).chain([end]).collect()
}

impl Columns {
    /// Names at the left, numbers at the right; columns without any data are left out.
    pub(crate) fn new<R>(fields: &[Field<'_, R>], rows: &[R]) -> Self {
        let (mut names, mut numbers) = (Vec::new(), Vec::new());
        for (field, shown) in fields.iter().filter_map(|field| Some((field, field.heading()?))) {
            let column = Column::new(field, shown, rows);
            if shown.is_name {
                names.push(column);
            } else if column.rank == 0 || !column.is_empty() {
                numbers.push(column);
            }
        }
        Self { names, numbers }
    }

    /// As the screens have them.
    pub(crate) fn for_screen(self) -> Vec<ReportColumn> {
        let names = self.names.into_iter().map(|one| one.for_screen(true));
        names.chain(self.numbers.into_iter().map(|one| one.for_screen(false))).collect()
    }

    /// Writes the columns that fit into lines of `width`. The locale says how names that were cut are marked.
    pub(crate) fn write(self, width: usize, out: &mut dyn Write) -> io::Result<()> {
        self.write_marked(width, if is_utf8_locale() { '…' } else { '~' }, out)
    }

    fn write_marked(self, width: usize, end: char, out: &mut dyn Write) -> io::Result<()> {
        let names = self.names.iter().map(|column| column.wanted(true));
        let wanted: Vec<_> = names.chain(self.numbers.iter().map(|column| column.wanted(false))).collect();
        let widths = fit_columns(&wanted, width);
        let count = widths[..self.names.len()].iter().flatten().count();
        let all = self.names.into_iter().chain(self.numbers).zip(wanted).zip(widths);
        let shown: Vec<(Column, usize)> = all
            .filter_map(|((mut column, wanted), width)| {
                let width = width?;
                if !wanted.is_name && width < wanted.width {
                    column.cells = std::mem::take(&mut column.short_cells);
                }
                Some((column, width))
            })
            .collect();
        let titles: Vec<&str> = shown.iter().map(|(column, _)| column.title).collect();
        let mut table = Table::new(&titles).numbers_from(count);
        for row in 0..shown.first().map_or(0, |(column, _)| column.cells.len()) {
            let cell = |(column, width): &(Column, usize)| {
                column.cells.get(row).map_or_else(String::new, |cell| cut(cell, *width, end))
            };
            table.row(shown.iter().map(cell));
        }
        // What cannot be narrower is longer than the terminal, rather than turned.
        table.write_within(usize::MAX, out)
    }
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

    fn written<R>(fields: &[Field<'_, R>], rows: &[R], width: usize) -> String {
        let mut text = Vec::new();
        Columns::new(fields, rows).write_marked(width, '~', &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn cells_are_shorter_where_not_all_columns_fit() {
        let fields = [
            Field::shown("NAME", 0, |()| "make".to_owned()).left(),
            Field::shown("WAIT", 2, |()| "lock (futex)".to_owned()).or_short(|()| "lock".to_owned()),
            Field::shown("LAST", 3, |()| "10:00".to_owned()),
        ];
        let table = |width| written(&fields, &[()], width);
        assert_eq!(table(25), "NAME          WAIT   LAST\nmake  lock (futex)  10:00\n");
        assert_eq!(table(24), "NAME  WAIT   LAST\nmake  lock  10:00\n");
        assert_eq!(table(16), "NAME  WAIT\nmake  lock\n");
    }

    #[test]
    fn the_less_important_columns_go_first_and_names_are_cut() {
        let at = |column: usize| move |row: &[&str; 5]| row[column].to_owned();
        let fields = [
            Field::shown("PROGRAM", 0, at(0)).left(),
            Field::shown("CPU s", 0, at(1)),
            Field::shown("FIRST", 9, at(2)),
            Field::shown("SHARE", 1, at(3)),
            Field::shown("WAIT", 2, at(4)),
        ];
        let rows = [
            ["a-very-long-name-of-a-program", "1.5", "10:00:00", "6 %", "-"],
            ["b", "20.25", "10:00:01", "94 %", ""],
        ];
        let written = |width| written(&fields, &rows, width);
        let wide = "PROGRAM                        CPU s     FIRST  SHARE\n\
                    a-very-long-name-of-a-program    1.5  10:00:00    6 %\n\
                    b                              20.25  10:00:01   94 %\n";
        assert_eq!(written(usize::MAX), wide);
        let narrow =
            "PROGRAM        CPU s  SHARE\na-very-long-~    1.5    6 %\nb              20.25   94 %\n";
        assert_eq!(written(27), narrow);
        assert_eq!(written(1), "PROGRAM     CPU s\na-very-lo~    1.5\nb           20.25\n");
        for width in 17..90 {
            assert!(written(width).lines().all(|line| line.len() <= width), "{width}");
        }
    }

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
