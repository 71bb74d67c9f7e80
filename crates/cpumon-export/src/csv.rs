//! CSV as in RFC 4180: comma-separated lines that end in CRLF. Every text is quoted, so that a program that guesses the layout from
//! the first rows (`DuckDB`) sees the quotes there. Names come from other machines: control characters in them are escaped, and a text
//! that a spreadsheet would run as a formula gets a leading apostrophe.

use std::io::{self, Write};

use cpumon_model::{Value, escape};

use crate::rows::{RowSink, SinkColumn};

/// Records are written in pieces of about this size.
const FLUSH_BYTES: usize = 32 << 10;

/// Writes records.
///
/// A text that begins with `=`, `+`, `-` or `@` gets a leading `'`: spreadsheets would run it as a formula. Control and invisible
/// characters of a text are escaped (`\\n`). Numbers stay as they are, and are not quoted. Fields are not written by the csv crate
/// because most are whole numbers, which need no quotes: a day's threads (6.3 M rows) take 5.3 s this way and 7.5 s with
/// the crate (`cargo bench -p cpumon-export`).
pub(crate) struct Csv<'w> {
    out: &'w mut dyn Write,
    buffer: Vec<u8>,
    digits: itoa::Buffer,
    /// Fields of the current record so far.
    fields: usize,
    /// Where the current record begins in `buffer`.
    begin: usize,
}

impl<'w> Csv<'w> {
    pub(crate) fn new(out: &'w mut dyn Write) -> Self {
        Self { out, buffer: Vec::new(), digits: itoa::Buffer::new(), fields: 0, begin: 0 }
    }

    fn field(&mut self, value: &Value<'_>) -> io::Result<()> {
        if let Value::Text(text) = value {
            return self.text_field(text);
        }
        self.separate();
        match value {
            Value::Int(number) => self.buffer.extend_from_slice(self.digits.format(*number).as_bytes()),
            Value::Real(number) => write!(self.buffer, "{number}")?,
            Value::Null | Value::Text(_) => {}
        }
        Ok(())
    }

    fn text_field(&mut self, text: &str) -> io::Result<()> {
        self.separate();
        self.buffer.push(b'"');
        push_text(&mut self.buffer, text)?;
        self.buffer.push(b'"');
        Ok(())
    }

    /// Writes a name of the header, quoted where needed.
    fn name_field(&mut self, name: &str) -> io::Result<()> {
        let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b',';
        if name.is_empty() || !name.bytes().all(is_plain) || runs_as_formula(name) {
            return self.text_field(name);
        }
        self.separate();
        self.buffer.extend_from_slice(name.as_bytes());
        Ok(())
    }

    fn separate(&mut self) {
        if self.fields > 0 {
            self.buffer.push(b',');
        }
        self.fields += 1;
    }

    fn end_record(&mut self) -> io::Result<()> {
        // A record of one empty field would be an empty line, which readers skip.
        if self.fields == 1 && self.buffer.len() == self.begin {
            self.buffer.extend_from_slice(b"\"\"");
        }
        self.buffer.extend_from_slice(b"\r\n");
        // Only between records, because `begin` is a position in the buffer.
        if self.buffer.len() >= FLUSH_BYTES {
            self.out.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        (self.fields, self.begin) = (0, self.buffer.len());
        Ok(())
    }
}

/// Appends a text without the quotes around it.
fn push_text(buffer: &mut Vec<u8>, text: &str) -> io::Result<()> {
    if runs_as_formula(text) {
        buffer.push(b'\'');
    }
    // Most texts are plain ASCII and are copied.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"') {
        buffer.extend_from_slice(text.as_bytes());
        return Ok(());
    }
    write!(buffer, "{}", escape(&text.replace('"', "\"\"")))
}

/// [`is_formula`] for a text whose control characters are escaped.
fn runs_as_formula(text: &str) -> bool {
    text.starts_with(['=', '+', '-', '@'])
}

/// Whether a spreadsheet would run `text` as a formula.
pub(crate) fn is_formula(text: &str) -> bool {
    text.starts_with(['=', '+', '-', '@', '\t', '\r'])
}

impl RowSink for Csv<'_> {
    fn columns(&mut self, columns: &[SinkColumn<'_>], _nested: Option<usize>) -> io::Result<()> {
        columns.iter().try_for_each(|column| self.name_field(column.name))?;
        self.end_record()
    }

    fn row(&mut self, values: &[Value<'_>]) -> io::Result<()> {
        values.iter().try_for_each(|value| self.field(value))?;
        self.end_record()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        self.begin = 0;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use proptest::prelude::*;

    use super::*;

    fn any_value() -> impl Strategy<Value = Value<'static>> {
        prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::Int),
            any::<f64>().prop_map(Value::Real),
            "[a=,\"\r\n\u{e4}\u{1b}\u{202e} '\\-]{0,5}".prop_map(|text| Value::Text(Cow::Owned(text))),
        ]
    }

    fn plain(value: &Value<'_>) -> String {
        match value {
            Value::Null => String::new(),
            Value::Int(number) => number.to_string(),
            Value::Real(number) => number.to_string(),
            Value::Text(text) if runs_as_formula(text) => format!("'{}", escape(text)),
            Value::Text(text) => escape(text).to_string(),
        }
    }

    fn written(rows: &[Vec<Value<'_>>]) -> String {
        let mut bytes = Vec::new();
        let mut sink = Csv::new(&mut bytes);
        for row in rows {
            sink.row(row).unwrap();
        }
        sink.finish().unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// `DuckDB` takes the quote character from the first rows, so the first quoted text must not come late.
    #[test]
    fn every_text_is_quoted_and_stays_on_its_line() {
        let texts = ["plain", "", "7", "a\r\nb", "say \"hi\"", "=1", "\u{202e}x"];
        let rows = texts.map(|text| vec![Value::Text(text.into()), Value::Int(-1), Value::Null]);
        let expected = [
            "\"plain\",-1,",
            "\"\",-1,",
            "\"7\",-1,",
            "\"a\\r\\nb\",-1,",
            "\"say \"\"hi\"\"\",-1,",
            "\"'=1\",-1,",
            "\"\\u{202e}x\",-1,",
        ];
        assert_eq!(written(&rows), expected.map(|line| line.to_owned() + "\r\n").concat());
    }

    proptest! {
        #[test]
        fn a_csv_library_reads_what_was_written(
            rows in prop::collection::vec(prop::collection::vec(any_value(), 1..5), 0..5),
        ) {
            let text = written(&rows);
            let mut reader = ::csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
            let read: Vec<Vec<String>> =
                reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect();
            let meant: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(plain).collect()).collect();
            prop_assert_eq!(read, meant);
            prop_assert_eq!(text.lines().count(), rows.len());
        }
    }
}
