//! What to hand out. In: what the user said. Out: [`ExportQuery`], and what came of it: [`Progress`], [`Report`].
//! Why: every format takes the same question.

use std::str::FromStr;

use crate::ExportError;

/// Which table.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One row a process and interval.
    #[default]
    Processes,
    /// One row a thread and interval.
    Threads,
    /// One row an interval, one column a process name.
    Pivot,
    /// One row an interval: the books, CPU modes, health.
    Ledger,
    /// Two spans side by side: one row a group of processes. [`ExportQuery::spans`] says which.
    Compare,
}

/// The layout on disk.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// RFC 4180.
    #[default]
    Csv,
    /// One JSON object a line.
    Jsonl,
    /// As the original receiver wrote it.
    Legacy(LegacyYear),
}

/// Which of the original's layouts.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum LegacyYear {
    /// One device, not named.
    Y2012,
    /// With `RemoteIP`.
    Y2013,
}

/// What makes a column of a pivot, or a row of a comparison.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum GroupBy {
    /// The process's name; same-named processes add up.
    #[default]
    Name,
    /// Each process by itself: `name[pid]`, and `name[pid]#2` for the second one under a reused pid.
    Process,
    /// The program: as the name, and kernel threads of one family together (`kworker/0:1` is `kworker`).
    Program,
    /// The real user id.
    User,
    /// The container or systemd unit; `(none)` where there is none.
    Container,
}

/// What stands in a pivot's cells.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum PivotValue {
    /// `user_ns`
    #[default]
    User,
    /// `system_ns`
    System,
    /// `run_ns`
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
            type Err = ExportError;
            fn from_str(text: &str) -> Result<Self, ExportError> {
                match text {
                    $($name => Ok($value),)+
                    _ => Err(ExportError::Choice {
                        what: $what,
                        text: text.chars().take(64).collect(),
                        choices: Self::NAMES.join(", "),
                    }),
                }
            }
        }
    };
}

from_name!(Kind, "kind", "processes" => Self::Processes, "threads" => Self::Threads, "pivot" => Self::Pivot, "ledger" => Self::Ledger, "compare" => Self::Compare);
from_name!(Format, "format", "csv" => Self::Csv, "jsonl" => Self::Jsonl);
from_name!(LegacyYear, "legacy layout", "2012" => Self::Y2012, "2013" => Self::Y2013);
from_name!(GroupBy, "grouping", "name" => Self::Name, "process" => Self::Process, "program" => Self::Program, "user" => Self::User, "container" => Self::Container);
from_name!(PivotValue, "pivot value", "user" => Self::User, "system" => Self::System, "run" => Self::Run, "pct" => Self::Pct);

/// A span of a host's time line, ns since the UNIX epoch: what ends after the first and not after the second.
pub type Span = (i64, i64);

/// The question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportQuery {
    /// Which table.
    pub kind: Kind,
    /// The layout.
    pub format: Format,
    /// Only the host of this name or id; `None`: all, one after the other.
    pub host: Option<String>,
    /// Only intervals that end after this, ns since the UNIX epoch, as intervals stand.
    pub since_ns: Option<i64>,
    /// Only intervals that end not after this.
    pub until_ns: Option<i64>,
    /// Only processes of this name, or of this pid if it is a number. Does not apply to the ledger.
    pub process: Option<String>,
    /// Adds intervals up into windows of this length, ns, aligned to the UNIX epoch.
    pub interval_ns: Option<u64>,
    /// What makes a column of a pivot, or a row of a comparison.
    pub group_by: GroupBy,
    /// What stands in a pivot's cells.
    pub pivot_value: PivotValue,
    /// Of a comparison: before and after. It has no range and no windows.
    pub spans: Option<(Span, Span)>,
}

/// How far an export is.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Intervals read so far, in all passes.
    pub intervals: u64,
    /// Rows written so far.
    pub rows: u64,
    /// Part done, 0 to 1; `None` if the range is not known.
    pub ratio: Option<f64>,
}

/// What an export wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Hosts with rows.
    pub hosts: u64,
    /// Intervals handed out, after adding up.
    pub intervals: u64,
    /// Rows written, the header not counted.
    pub rows: u64,
    /// Columns of a pivot, or groups of a comparison, that were folded into `(other)` because there are too many.
    pub folded: u64,
}
