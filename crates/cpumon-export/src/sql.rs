//! Answers to SQL queries: an aligned table for people, or any format of rows.

use std::io::{self, Write};
use std::ops::ControlFlow;

use cpumon_model::{Value, escape};
use cpumon_store::sql::Sql;
use unicode_width::UnicodeWidthStr;

use crate::rows::{RowSink, SinkColumn};
use crate::text_table::{GAP, padded};
use crate::{ExportError, Format};

/// The widths of columns come from this many rows; later rows may have wider cells. An answer may have millions of rows, so they
/// are not all held in memory.
const ROWS_FOR_WIDTH: usize = 1000;
/// Greatest width of a column.
const MAX_WIDTH: usize = 60;

/// Writes the answer to one statement to `out`; returns the number of rows. Without a format it is a table for people: aligned
/// columns, control characters escaped, NULL spelled out.
pub fn sql(
    session: &Sql,
    statement: &str,
    format: Option<Format>,
    out: &mut dyn Write,
) -> Result<u64, ExportError> {
    let mut sink: Box<dyn RowSink + '_> = match format {
        None => Box::new(AlignedAnswer::new(out)),
        Some(format) => format.rows(out),
    };
    // Both callbacks write to the same sink, and the store calls only one at a time.
    let written = std::cell::RefCell::new((&mut *sink, Ok(())));
    let note = |result: io::Result<()>, failed: &mut io::Result<()>| match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            *failed = Err(error);
            ControlFlow::Break(())
        }
    };
    let rows = session.query(
        statement,
        &mut |names| {
            let (sink, failed) = &mut *written.borrow_mut();
            let columns: Vec<_> = names.iter().map(|name| SinkColumn { name, kind: None }).collect();
            note(sink.columns(&columns, None), failed)
        },
        &mut |cells| {
            let (sink, failed) = &mut *written.borrow_mut();
            note(sink.row(cells), failed)
        },
    )?;
    written.into_inner().1?;
    sink.finish()?;
    Ok(rows)
}

/// An aligned table: numbers to the right, texts to the left.
struct AlignedAnswer<'w> {
    out: &'w mut dyn Write,
    names: Vec<String>,
    /// Rows that wait until the widths are known.
    waiting: Vec<Vec<(String, bool)>>,
    widths: Vec<usize>,
    is_begun: bool,
}

/// The text of a cell, and whether it is a number.
fn shown(cell: &Value<'_>) -> (String, bool) {
    match cell {
        Value::Null => ("NULL".to_owned(), false),
        Value::Int(number) => (number.to_string(), true),
        Value::Real(number) => (number.to_string(), true),
        Value::Text(text) => (escape(text).to_string(), false),
    }
}

impl<'w> AlignedAnswer<'w> {
    fn new(out: &'w mut dyn Write) -> Self {
        Self { out, names: Vec::new(), waiting: Vec::new(), widths: Vec::new(), is_begun: false }
    }

    fn begin(&mut self) -> io::Result<()> {
        self.is_begun = true;
        if self.names.is_empty() {
            return Ok(());
        }
        let waiting = std::mem::take(&mut self.waiting);
        let width = |at: usize, name: &str| {
            let cells = waiting.iter().filter_map(|row| row.get(at)).map(|(text, _)| text.width());
            cells.max().unwrap_or(0).max(name.width()).min(MAX_WIDTH)
        };
        self.widths = self.names.iter().enumerate().map(|(at, name)| width(at, name)).collect();
        let is_number = |at: usize| {
            let mut cells =
                waiting.iter().filter_map(|row| row.get(at)).filter(|cell| cell.0 != "NULL").peekable();
            cells.peek().is_some() && cells.all(|cell| cell.1)
        };
        // A column's name is aligned like its cells, which are known by now.
        let names: Vec<_> =
            self.names.iter().enumerate().map(|(at, name)| (name.clone(), is_number(at))).collect();
        self.line(&names)?;
        let rule: Vec<_> = self.widths.iter().map(|width| ("─".repeat(*width), false)).collect();
        self.line(&rule)?;
        waiting.iter().try_for_each(|row| self.line(row))
    }

    fn line(&mut self, cells: &[(String, bool)]) -> io::Result<()> {
        let mut line = String::new();
        for (at, ((text, is_number), width)) in cells.iter().zip(&self.widths).enumerate() {
            if at > 0 {
                line.push_str(GAP);
            }
            line.push_str(&padded(text, *width, *is_number));
        }
        writeln!(self.out, "{}", line.trim_end())
    }
}

impl RowSink for AlignedAnswer<'_> {
    fn columns(&mut self, columns: &[SinkColumn<'_>], _nested: Option<usize>) -> io::Result<()> {
        self.names = columns.iter().map(|column| escape(column.name).to_string()).collect();
        Ok(())
    }

    fn row(&mut self, cells: &[Value<'_>]) -> io::Result<()> {
        let row = cells.iter().map(shown).collect::<Vec<_>>();
        if self.is_begun {
            return self.line(&row);
        }
        self.waiting.push(row);
        if self.waiting.len() >= ROWS_FOR_WIDTH { self.begin() } else { Ok(()) }
    }

    fn finish(&mut self) -> io::Result<()> {
        if !self.is_begun {
            self.begin()?;
        }
        self.out.flush()
    }
}
