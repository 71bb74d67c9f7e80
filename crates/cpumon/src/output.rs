//! The output of a command: a file, which appears when it is complete, or standard output. Text of other machines may hold escape
//! sequences, which a terminal would obey: there they are shown as escapes. A file or a pipe gets the exact bytes.
//!
//! Commands write rows, JSON documents and paragraphs. Rows are a table of the columns that fit, or are in a format for programs; on a
//! narrow terminal the less important columns are left out, and long names are cut.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use cpumon_export::{ExportError, OutputFile};
use cpumon_model::escape;
use cpumon_query::fields::Field;
use cpumon_tui::{Columns, is_utf8_locale};
use serde_json::Value;

use crate::cli::{FormatArgs, OutputFormat, file_of};
use crate::exit::{Outcome, Unfinished, Usage};

pub(crate) use cpumon_export::TextTable as Table;

const BUFFER_BYTES: usize = 1 << 16;

/// Where a command writes. Nothing is opened before the command asks.
#[derive(Default)]
pub(crate) enum CommandOutput {
    #[default]
    Unopened,
    Stdout(BufWriter<Box<dyn Write>>),
    File {
        file: CompleteFile,
        path: PathBuf,
        is_written: bool,
    },
}

impl CommandOutput {
    /// Opens the file of `--output`, else standard output.
    pub(crate) fn to<'f>(
        &mut self,
        format: impl Into<Option<&'f FormatArgs>>,
    ) -> anyhow::Result<&mut dyn Write> {
        let format = format.into();
        let path = format.and_then(|format| file_of(format.output.as_deref()));
        if format.is_some_and(|format| format.get() == OutputFormat::Parquet) {
            needs_file(path, "Parquet")?;
        }
        let Some(path) = path else { return Ok(self.stdout()) };
        let failed = || format!("cannot write {}", path.display());
        let file = CompleteFile::create(path).with_context(failed)?;
        *self = Self::File { file, path: path.to_owned(), is_written: false };
        Ok(self)
    }

    pub(crate) fn stdout(&mut self) -> &mut dyn Write {
        *self = Self::Stdout(stdout());
        self
    }

    /// Completes what the command wrote. Where it had no data for a file, and not even a heading, an existing file stays.
    pub(crate) fn finish(self, done: anyhow::Result<Outcome>) -> anyhow::Result<Outcome> {
        match self {
            Self::Unopened => done,
            Self::Stdout(mut out) => {
                let outcome = done?;
                out.flush().context("cannot write to standard output")?;
                Ok(outcome)
            }
            Self::File { mut file, path, is_written } => {
                let completed = done.and_then(|outcome| {
                    if is_written || outcome == Outcome::Done {
                        // Here, so that an error names the path once.
                        file.file.flush().context("cannot write the file")?;
                        file.finish()?;
                    }
                    Ok(outcome)
                });
                completed.with_context(|| format!("cannot write {}", path.display()))
            }
        }
    }
}

impl Write for CommandOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unopened => Err(io::Error::other("no output is open")),
            Self::Stdout(out) => out.write(bytes),
            Self::File { file, is_written, .. } => {
                *is_written |= !bytes.is_empty();
                file.file.write(bytes)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Unopened => Ok(()),
            Self::Stdout(out) => out.flush(),
            Self::File { file, .. } => file.file.flush(),
        }
    }
}

/// Refuses to write a binary format to a terminal.
pub(crate) fn needs_file(path: Option<&Path>, what: &str) -> Result<(), Usage> {
    if path.is_some() || !io::stdout().is_terminal() {
        return Ok(());
    }
    Err(Usage(format!("{what} is binary; give a file with -o")))
}

/// A file that is there when it is complete; after Ctrl-C nothing is left.
pub(crate) struct CompleteFile {
    // In this order: a signal waits until the file is closed.
    file: OutputFile,
    _unfinished: Option<Unfinished>,
}

impl CompleteFile {
    fn create(path: &Path) -> Result<Self, ExportError> {
        // A device or a pipe may block as it is opened, and there is nothing to remove: the signal itself ends that.
        if OutputFile::is_special(path) {
            return Ok(Self { file: OutputFile::create(path)?, _unfinished: None });
        }
        let unfinished = Unfinished::watch(path)
            .inspect_err(|error| log::warn!("Ctrl-C will leave an unfinished file: {error:#}"))
            .ok();
        let mut temporary = unfinished.as_ref().map(Unfinished::lock);
        let file = OutputFile::create(path)?;
        if let Some(temporary) = temporary.as_mut() {
            **temporary = file.temporary().map(Path::to_owned);
        }
        drop(temporary);
        Ok(Self { file, _unfinished: unfinished })
    }

    fn finish(self) -> Result<(), ExportError> {
        self.file.finish()
    }
}

/// Writes the file at `path`, which appears when it is complete.
pub(crate) fn to_file<T, E: From<ExportError>>(
    path: &Path,
    write: impl FnOnce(&mut OutputFile) -> Result<T, E>,
) -> Result<T, E> {
    let mut file = CompleteFile::create(path)?;
    let written = write(&mut file.file)?;
    file.finish()?;
    Ok(written)
}

/// As [`to_file`], but writes to `out` if no path is given.
pub(crate) fn to_file_or<T, E: From<ExportError>>(
    path: Option<&Path>,
    out: &mut dyn Write,
    write: impl FnOnce(&mut dyn Write) -> Result<T, E>,
) -> Result<T, E> {
    match path {
        Some(path) => to_file(path, |file| write(file)),
        None => write(out),
    }
}

/// Time between two updates of the progress line.
const SHOW_EVERY: Duration = Duration::from_millis(200);

/// How far a command is, on standard error, over and over: `exporting: 42 %, 12345 rows`. On a terminal only; one that went away must not
/// end the command.
pub(crate) struct ProgressLine {
    is_on: bool,
    next: Instant,
    is_shown: bool,
}

impl ProgressLine {
    pub(crate) fn new(is_wanted: bool) -> Self {
        let next = Instant::now() + SHOW_EVERY;
        Self { is_on: is_wanted && io::stderr().is_terminal(), next, is_shown: false }
    }

    pub(crate) fn show(&mut self, text: impl FnOnce() -> String) {
        if self.is_on && Instant::now() >= self.next {
            (self.next, self.is_shown) = (Instant::now() + SHOW_EVERY, true);
            let _ = write!(io::stderr(), "\r\x1b[K{}", text());
        }
    }

    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    /// Ends the line and leaves it on the terminal.
    pub(crate) fn end(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = writeln!(io::stderr());
        }
    }
}

/// Standard output, buffered; its writer must flush it.
pub(crate) fn stdout() -> BufWriter<Box<dyn Write>> {
    let out = io::stdout().lock();
    let to: Box<dyn Write> = if out.is_terminal() { Box::new(ForTerminal::new(out)) } else { Box::new(out) };
    BufWriter::with_capacity(BUFFER_BYTES, to)
}

/// Escapes its input, except line ends. A line is written once it is complete, or at a flush.
struct ForTerminal<W: Write> {
    to: W,
    line: Vec<u8>,
}

impl<W: Write> ForTerminal<W> {
    fn new(to: W) -> Self {
        Self { to, line: Vec::new() }
    }

    fn put(to: &mut W, line: &[u8]) -> io::Result<()> {
        let (text, end) = match line {
            [text @ .., b'\r', b'\n'] => (text, "\r\n"),
            [text @ .., b'\n'] => (text, "\n"),
            text => (text, ""),
        };
        write!(to, "{}{end}", escape(&String::from_utf8_lossy(text)))
    }
}

impl<W: Write> Write for ForTerminal<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                Self::put(&mut self.to, &self.line)?;
                self.line.clear();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Self::put(&mut self.to, &self.line)?;
        self.line.clear();
        self.to.flush()
    }
}

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
    names: [&'static str; N],
    rows: impl IntoIterator<Item = [String; N]>,
    format: OutputFormat,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let rows = rows.into_iter();
    if let Some(file) = format.file() {
        let is_empty_nothing = matches!(format, OutputFormat::Csv | OutputFormat::Parquet);
        let is_cell = move |text: &&String| !(is_empty_nothing && text.is_empty());
        let field = |at: usize| {
            Field::text(names[at], move |row: &[String; N]| Some(row.get(at).filter(is_cell)?.into()))
        };
        cpumon_export::rows(file, &std::array::from_fn::<_, N, _>(field), rows, out)?;
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

    #[test]
    fn a_terminal_gets_escapes_and_whole_characters_however_the_text_is_cut() {
        let text = "a,\x1b[31mred\x07\r\n\u{202e}b\t日本\rover\r\n\nend".as_bytes();
        for size in 1..text.len() {
            let mut out = ForTerminal::new(Vec::new());
            for piece in text.chunks(size) {
                out.write_all(piece).unwrap();
            }
            out.flush().unwrap();
            let shown = String::from_utf8(out.to).unwrap();
            assert_eq!(shown, "a,\\x1b[31mred\\x07\r\n\\u{202e}b\\t日本\\rover\r\n\nend", "{size}");
        }
    }

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
