//! The output of a command: `--format`, `--json` as its short form, and the file of `--output`.

use std::path::Path;

use clap::{Args, ValueEnum};

/// Formats of a command that prints a list or a report.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned columns, for people
    #[value(alias = "text")]
    Table,
    /// CSV (RFC 4180) with a header
    Csv,
    /// One JSON object per line
    Jsonl,
    /// One JSON document
    Json,
}

/// `--format` and `--json`.
#[derive(Clone, Debug, Default, Args)]
pub struct FormatArgs {
    /// Output format [default: table]
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
}

impl FormatArgs {
    /// The wanted format; a table by default.
    #[must_use]
    pub fn get(&self) -> Format {
        if self.json { Format::Json } else { self.format.unwrap_or(Format::Table) }
    }
}

/// Formats of exported rows, of which there may be millions.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// CSV (RFC 4180, UTF-8) with a header; text that a spreadsheet would run as a formula gets a leading apostrophe
    Csv,
    /// One JSON object per line
    Jsonl,
    /// One JSON array
    Json,
}

impl ExportFormat {
    /// The format of a file name's ending, in lower case and without the dot.
    #[must_use]
    pub fn of_ending(ending: &str) -> Option<Self> {
        match ending {
            "csv" => Some(Self::Csv),
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}

/// The file that `--output` names; `None` is standard output, which `-` names too.
#[must_use]
pub fn file_of(output: Option<&Path>) -> Option<&Path> {
    output.filter(|path| *path != Path::new("-"))
}
