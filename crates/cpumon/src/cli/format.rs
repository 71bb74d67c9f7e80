//! The output of a command: `--format`, `--json` as its short form, and the file of `--output`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::Word;

/// Formats of a command that prints a list or a report.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Aligned columns, for people
    #[value(alias = "text")]
    Table,
    /// CSV (RFC 4180) with a header
    Csv,
    /// One JSON object per line
    Jsonl,
    /// One JSON document
    Json,
    /// Parquet: typed columns, compressed
    Parquet,
}

impl OutputFormat {
    /// The format of a file name's ending.
    pub fn of_file(path: &Path) -> Option<Self> {
        match path.extension()?.to_string_lossy().to_ascii_lowercase().as_str() {
            "csv" => Some(Self::Csv),
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            "json" => Some(Self::Json),
            "parquet" => Some(Self::Parquet),
            _ => None,
        }
    }

    /// The format for rows; `None`: a table for people.
    pub fn file(self) -> Option<cpumon_export::Format> {
        match self {
            Self::Table => None,
            Self::Csv => Some(cpumon_export::Format::Csv),
            Self::Jsonl => Some(cpumon_export::Format::Jsonl),
            Self::Json => Some(cpumon_export::Format::Json),
            Self::Parquet => Some(cpumon_export::Format::Parquet),
        }
    }
}

/// `--format`, `--json` and `--output`.
#[derive(Clone, Debug, Default, Args)]
pub struct FormatArgs {
    /// Output format [default: by the ending of --output: .csv, .jsonl, .json or .parquet; else table]
    #[arg(long, value_enum)]
    pub format: Option<OutputFormat>,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Write to this file, which appears only when it is complete [default: standard output, as with `-`]
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

impl FormatArgs {
    /// The wanted format: the given one, else that of the file's ending, else a table.
    pub fn get(&self) -> OutputFormat {
        let of_file = || OutputFormat::of_file(self.output.as_deref()?);
        if self.json {
            OutputFormat::Json
        } else {
            self.format.or_else(of_file).unwrap_or(OutputFormat::Table)
        }
    }
}

/// Formats for exports with up to millions of rows.
pub(super) static ROWS: [Word<OutputFormat>; 4] = [
    Word(
        "csv",
        "CSV (RFC 4180, UTF-8) with a header; text that a spreadsheet would run as a formula gets a leading apostrophe",
        OutputFormat::Csv,
    ),
    Word("jsonl", "One JSON object per line", OutputFormat::Jsonl),
    Word("json", "One JSON array", OutputFormat::Json),
    Word("parquet", "Parquet: typed columns, compressed with zstd", OutputFormat::Parquet),
];

/// The file that `--output` names; `None` is standard output, which `-` names too.
pub fn file_of(output: Option<&Path>) -> Option<&Path> {
    output.filter(|path| *path != Path::new("-"))
}
