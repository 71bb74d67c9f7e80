//! Answers to SQL queries: an aligned table for people, CSV or JSON lines.

use std::io::{self, Write};
use std::ops::ControlFlow;

use cpumon_model::{Value, escape};
use cpumon_store::sql::Sql;
use unicode_width::UnicodeWidthStr;

use crate::ExportError;
use crate::csv::Csv;
use crate::jsonl::Jsonl;
use crate::text_table::{GAP, padded};

/// The widths of columns come from this many rows; later rows may have wider cells. An answer may have millions of rows, so they
/// are not all held in memory.
const ROWS_FOR_WIDTH: usize = 1000;
/// Greatest width of a column.
const MAX_WIDTH: usize = 60;

/// How an answer is written.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum SqlFormat {
    /// Aligned columns, control characters escaped, NULL spelled out.
    #[default]
    Table,
    /// The same as [`crate::csv`].
    Csv,
    /// The same as [`crate::jsonl`]; the second column of a name gets `_2` appended.
    Jsonl,
}

/// Takes an answer row by row.
trait Answer {
    fn columns(&mut self, names: &[&str]) -> io::Result<()>;
    fn row(&mut self, cells: &[Value<'_>]) -> io::Result<()>;
    fn end(&mut self) -> io::Result<()>;
}

/// Writes the answer to one statement to `out`; returns the number of rows.
pub fn sql(
    session: &Sql,
    statement: &str,
    format: SqlFormat,
    out: &mut dyn Write,
) -> Result<u64, ExportError> {
    let rows = match format {
        SqlFormat::Table => ask(session, statement, &mut AlignedAnswer::new(out)),
        SqlFormat::Csv => ask(session, statement, &mut Csv::new(out)),
        SqlFormat::Jsonl => ask(session, statement, &mut Jsonl::new(out)),
    }?;
    out.flush()?;
    Ok(rows)
}

fn ask(session: &Sql, statement: &str, answer: &mut dyn Answer) -> Result<u64, ExportError> {
    // Both callbacks write to the same answer, and the store calls only one at a time.
    let written = std::cell::RefCell::new((answer, Ok(())));
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
            let (answer, failed) = &mut *written.borrow_mut();
            note(answer.columns(names), failed)
        },
        &mut |cells| {
            let (answer, failed) = &mut *written.borrow_mut();
            note(answer.row(cells), failed)
        },
    )?;
    let (answer, failed) = written.into_inner();
    failed?;
    answer.end()?;
    Ok(rows)
}

impl Answer for Csv<'_> {
    fn columns(&mut self, names: &[&str]) -> io::Result<()> {
        names.iter().try_for_each(|name| self.name_field(name))?;
        self.end_record()
    }

    fn row(&mut self, cells: &[Value<'_>]) -> io::Result<()> {
        cells.iter().try_for_each(|cell| self.field(cell))?;
        self.end_record()
    }

    fn end(&mut self) -> io::Result<()> {
        self.flush()
    }
}

impl Answer for Jsonl<'_> {
    fn columns(&mut self, names: &[&str]) -> io::Result<()> {
        let nth = |at: usize| names[..at].iter().filter(|name| **name == names[at]).count() + 1;
        let unique: Vec<String> = names
            .iter()
            .enumerate()
            .map(|(at, name)| if nth(at) > 1 { format!("{name}_{}", nth(at)) } else { (*name).to_owned() })
            .collect();
        self.keys(unique.iter().map(String::as_str))
    }

    fn row(&mut self, cells: &[Value<'_>]) -> io::Result<()> {
        self.line(cells)
    }

    fn end(&mut self) -> io::Result<()> {
        self.flush()
    }
}

/// An aligned table: numbers to the right, texts to the left.
struct AlignedAnswer<'w> {
    out: &'w mut dyn Write,
    names: Vec<String>,
    /// Rows until the widths are known.
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

impl Answer for AlignedAnswer<'_> {
    fn columns(&mut self, names: &[&str]) -> io::Result<()> {
        self.names = names.iter().map(|name| escape(name).to_string()).collect();
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

    fn end(&mut self) -> io::Result<()> {
        if self.is_begun { Ok(()) } else { self.begin() }
    }
}
