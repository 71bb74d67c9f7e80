//! [`ExportQuery`]: the selection and format of an export. [`Progress`] and [`Report`]: its results.

use std::io::{self, Write};

use cpumon_query::report::CompareRanges;
use cpumon_query::{GroupBy, words};
use serde::{Deserialize, Serialize};

words! {
    #[derive(Default)]
    Kind, "kind",
    #[default]
    Processes = "processes": "One row for each process and interval",
    Threads = "threads": "One row for each thread and interval",
    Cgroups = "cgroups": "One row for each control group with a CPU limit or pressure, and interval",
    Pivot = "pivot": "One row for each moment, one column for each process",
    Ledger = "ledger": "One row for each interval: the CPU time of the whole machine by use",
    Compare = "compare": "Two ranges side by side, one row for each name (--before, --after)",
}

/// A part of a query that has a meaning for some kinds only.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum QueryPart {
    /// [`ExportQuery::group_by`].
    GroupBy,
    /// [`ExportQuery::pivot_value`].
    PivotValue,
    /// [`ExportQuery::process`].
    Process,
    /// [`ExportQuery::interval_ns`].
    Interval,
    /// [`ExportQuery::only_active`].
    Active,
}

impl QueryPart {
    /// Kinds of export that have this part.
    pub const fn kinds(self) -> &'static [Kind] {
        match self {
            Self::GroupBy => &[Kind::Pivot, Kind::Compare],
            Self::PivotValue => &[Kind::Pivot],
            Self::Process => &[Kind::Processes, Kind::Threads, Kind::Pivot, Kind::Compare],
            Self::Interval => &[Kind::Processes, Kind::Threads, Kind::Cgroups, Kind::Pivot, Kind::Ledger],
            Self::Active => &[Kind::Threads],
        }
    }

    /// Whether the original's layouts leave it to the user: their pivot has user time by name, and their threads are active.
    pub const fn is_in_legacy(self) -> bool {
        matches!(self, Self::Process | Self::Interval)
    }
}

words! {
    #[derive(Default)]
    Format, "format",
    #[default]
    Csv = "csv": "CSV as in RFC 4180",
    Jsonl = "jsonl": "One JSON object for each line",
    Json = "json": "One JSON array of objects",
    Parquet = "parquet": "Typed columns, compressed",
}

words! {
    LegacyYear, "legacy layout",
    Y2012 = "2012": "Layout of 2012: one device",
    Y2013 = "2013": "Layout of 2013: with the device's address",
}

words! {
    #[derive(Default)]
    PivotValue, "pivot value",
    #[default]
    User = "user": "User time",
    System = "system": "System time",
    Run = "run": "Run time",
    Pct = "pct": "Run time in percent of one CPU",
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportQuery {
    pub kind: Kind,
    pub format: Format,
    /// The original receiver's layout, instead of `format`.
    pub legacy: Option<LegacyYear>,
    /// Only the host with this name or id; `None` is all hosts, one after the other.
    pub host: Option<String>,
    /// Only intervals that end after this, ns since the UNIX epoch.
    pub since_ns: Option<i64>,
    /// Only intervals that do not end after this, ns since the UNIX epoch.
    pub until_ns: Option<i64>,
    /// Only processes of this name, or of this pid if it is a number. Does not apply to control groups and the ledger.
    pub process: Option<String>,
    /// Adds up intervals into windows of this length, ns, aligned to the UNIX epoch.
    pub interval_ns: Option<u64>,
    /// Columns of a pivot or rows of a comparison.
    pub group_by: GroupBy,
    pub pivot_value: PivotValue,
    /// Only threads with run time, run delay or context switches in the interval, not those that only waited.
    pub only_active: bool,
    /// The ranges of a comparison, which ignores `since_ns`, `until_ns` and `interval_ns`.
    pub compared: Option<CompareRanges>,
}

#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Intervals read so far, in all passes.
    pub intervals: u64,
    pub rows: u64,
    /// The finished share, 0 to 1; `None` if the range is not known.
    pub ratio: Option<f64>,
}

/// Intervals of a host that were measured and not stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotStored {
    /// Name of the host; hostile.
    pub host: Box<str>,
    pub intervals: u64,
    /// Start of the first missing time, ns since the UNIX epoch.
    pub since_ns: i64,
    /// Why the first missing intervals were not stored; hostile.
    pub reason: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Hosts that have rows.
    pub hosts: u64,
    /// Intervals written, after adding up.
    pub intervals: u64,
    /// Rows written, without the header.
    pub rows: u64,
    /// Columns of a pivot or groups of a comparison that were added up as `(other)` because there are too many.
    pub folded: u64,
    /// Missing intervals in the range, a line per host and range, 1000 at most.
    pub not_stored: Vec<NotStored>,
}

impl Report {
    /// Most bytes that [`Report::write_behind`] appends.
    pub const MAX_BYTES: usize = 4 << 20;

    /// Writes it behind a file that goes to another program: JSON, then its length in bytes as 32 bits, little-endian.
    pub fn write_behind(&self, out: &mut dyn Write) -> io::Result<()> {
        let json = serde_json::to_vec(self)?;
        let length = u32::try_from(json.len()).ok().filter(|_| json.len() + 4 <= Self::MAX_BYTES);
        let length = length.ok_or_else(|| io::Error::other("the report of an export is too long"))?;
        out.write_all(&json)?;
        out.write_all(&length.to_le_bytes())
    }

    /// Reads it from the end of a download: the length of the file before it, and the report. `None`: there is none.
    pub fn behind(bytes: &[u8]) -> Option<(usize, Self)> {
        let (rest, length) = bytes.split_last_chunk()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let end = rest.len().checked_sub(length)?;
        Some((end, serde_json::from_slice(&rest[end..]).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_behind_a_file_is_read_back_and_a_cut_one_is_not() {
        let lost = NotStored {
            host: "a\"\u{1b}".into(),
            intervals: 3,
            since_ns: i64::MIN,
            reason: "queue full".into(),
        };
        let report = Report { rows: u64::MAX, not_stored: vec![lost; 3], ..Report::default() };
        let mut bytes = b"the file".to_vec();
        report.write_behind(&mut bytes).unwrap();
        assert_eq!(Report::behind(&bytes), Some((8, report)));
        for end in 0..bytes.len() {
            assert_eq!(Report::behind(&bytes[..end]), None, "{end} of {}", bytes.len());
        }
    }

    #[test]
    fn the_longest_report_is_refused_and_not_cut() {
        let lost = NotStored { reason: "x".repeat(Report::MAX_BYTES), ..NotStored::default() };
        let report = Report { not_stored: vec![lost], ..Report::default() };
        let mut bytes = Vec::new();
        assert!(report.write_behind(&mut bytes).is_err() && bytes.is_empty());
    }
}
