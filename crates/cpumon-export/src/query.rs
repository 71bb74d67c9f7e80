//! [`ExportQuery`]: what to export. [`Progress`] and [`Report`]: what was exported.

use std::str::FromStr;

use cpumon_query::{ChoiceError, GroupBy};

/// The rows to export.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One row for each process and interval.
    #[default]
    Processes,
    /// One row for each thread and interval.
    Threads,
    /// One row for each interval, one column for each process name.
    Pivot,
    /// One row for each interval: the ledger, CPU modes, health.
    Ledger,
    /// Two ranges of time side by side, one row for each group of processes: [`ExportQuery::spans`].
    Compare,
}

/// Layout of the file on disk.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// CSV as in RFC 4180.
    #[default]
    Csv,
    /// One JSON object for each line.
    Jsonl,
    /// As the original receiver wrote it.
    Legacy(LegacyYear),
}

/// The year of one of the original receiver's layouts.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum LegacyYear {
    /// The pivot has no column for the device.
    Y2012,
    /// The pivot begins with `RemoteIP`.
    Y2013,
}

/// The value of a pivot's cells.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum PivotValue {
    /// Run time in user mode, ns.
    #[default]
    User,
    /// Run time in kernel mode, ns.
    System,
    /// Time on a CPU, ns.
    Run,
    /// Utilization, 100 = one CPU.
    Pct,
}

macro_rules! from_name {
    ($type:ident, $what:literal, $($name:literal => $value:expr),+) => {
        impl $type {
            /// Every name that [`FromStr`] takes.
            pub const NAMES: &[&str] = &[$($name),+];
        }
        impl FromStr for $type {
            type Err = ChoiceError;
            fn from_str(text: &str) -> Result<Self, ChoiceError> {
                match text {
                    $($name => Ok($value),)+
                    _ => Err(ChoiceError::new($what, text, Self::NAMES)),
                }
            }
        }
    };
}

from_name!(Kind, "kind", "processes" => Self::Processes, "threads" => Self::Threads, "pivot" => Self::Pivot, "ledger" => Self::Ledger, "compare" => Self::Compare);
from_name!(Format, "format", "csv" => Self::Csv, "jsonl" => Self::Jsonl);
from_name!(LegacyYear, "legacy layout", "2012" => Self::Y2012, "2013" => Self::Y2013);
from_name!(PivotValue, "pivot value", "user" => Self::User, "system" => Self::System, "run" => Self::Run, "pct" => Self::Pct);

/// A span of a host's time line, ns since the UNIX epoch: what ends after the first and not after the second.
pub type Span = (i64, i64);

/// Which rows to export, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportQuery {
    /// What a row of the export is.
    pub kind: Kind,
    /// Layout of the file on disk.
    pub format: Format,
    /// Only the host with this name or id; `None` is all hosts, one after the other.
    pub host: Option<String>,
    /// Only intervals that end after this, ns since the UNIX epoch.
    pub since_ns: Option<i64>,
    /// Only intervals that do not end after this, ns since the UNIX epoch.
    pub until_ns: Option<i64>,
    /// Only processes of this name, or of this pid if it is a number. Does not apply to the ledger.
    pub process: Option<String>,
    /// Adds up intervals into windows of this length, ns, aligned to the UNIX epoch.
    pub interval_ns: Option<u64>,
    /// What a column of a pivot or a row of a comparison is.
    pub group_by: GroupBy,
    /// The value of a pivot's cells.
    pub pivot_value: PivotValue,
    /// Before and after, for a comparison. It ignores `since_ns`, `until_ns` and `interval_ns`.
    pub spans: Option<(Span, Span)>,
}

/// How far an export is.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Intervals read so far, in all passes.
    pub intervals: u64,
    /// Rows written so far.
    pub rows: u64,
    /// The finished share, 0 to 1; `None` if the range is not known.
    pub ratio: Option<f64>,
}

/// What an export wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Hosts that have rows.
    pub hosts: u64,
    /// Intervals written, after adding up.
    pub intervals: u64,
    /// Rows written, without the header.
    pub rows: u64,
    /// Columns of a pivot or groups of a comparison that were added up as `(other)` because there are too many.
    pub folded: u64,
}
