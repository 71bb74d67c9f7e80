//! Downloads, and the command lines for a POSIX shell that write the same files.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use cpumon_export::Format;
use serde::Serialize;
use utoipa::ToSchema;

/// The command line that gives the same file.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct ExportCommand {
    /// For a POSIX shell. One that names a store is to be run where the store is.
    command: String,
}

/// A command line being written.
pub(super) struct CommandLine(Vec<String>);

impl CommandLine {
    /// `cpumon` and its subcommands.
    pub(super) fn new(subcommands: &[&str]) -> Self {
        Self(std::iter::once(&"cpumon").chain(subcommands).map(|word| quoted(word)).collect())
    }

    pub(super) fn option(&mut self, name: &str, value: Option<String>) {
        if let Some(value) = value {
            // The form with `=` also takes values that begin with a dash.
            self.0.push(quoted(&format!("--{name}={value}")));
        }
    }

    /// What is binary needs a file, because no terminal takes it.
    pub(super) fn format(&mut self, format: &str, what: &str) {
        self.option("format", Some(format.to_owned()));
        self.option("output", (format == "parquet").then(|| format!("cpumon-{what}.parquet")));
    }

    pub(super) fn flag(&mut self, name: &str) {
        self.0.push(format!("--{name}"));
    }
}

impl From<CommandLine> for ExportCommand {
    fn from(line: CommandLine) -> Self {
        Self { command: line.0.join(" ") }
    }
}

/// A word for a POSIX shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else if word.contains(char::is_control) {
        // A terminal acts on them while they are pasted, quoted or not: printf makes them.
        format!("\"$(printf %b '{}')\"", word.chars().map(spelled).collect::<String>())
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// A character for `printf %b` between apostrophes.
fn spelled(c: char) -> String {
    match c {
        '\'' => "'\\''".to_owned(),
        '\\' => "\\\\".to_owned(),
        c if c.is_control() => {
            let octal = |byte| format!("\\0{byte:03o}");
            c.encode_utf8(&mut [0; 4]).bytes().map(octal).collect::<Vec<_>>().concat()
        }
        c => c.to_string(),
    }
}

/// A body that the browser keeps as `cpumon-WHAT.csv`. `what` is one of few words of ours.
pub(super) fn as_download(what: &str, format: Format, body: Body) -> Response {
    let (kind, ending) = match format {
        Format::Jsonl => ("application/jsonl", "jsonl"),
        Format::Json => ("application/json", "json"),
        Format::Parquet => ("application/vnd.apache.parquet", "parquet"),
        Format::Csv | Format::Legacy(_) => ("text/csv; charset=utf-8", "csv"),
    };
    let mut response = body.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    if let Ok(name) = HeaderValue::from_str(&format!("attachment; filename=\"cpumon-{what}.{ending}\"")) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, name);
    }
    response
}
