//! What the page asks of the past beside the answers of `cpumon_query::history`.

use cpumon_query::history::{Lines, WaitLine};
use cpumon_query::json::Nanos;
use serde::Serialize;
use utoipa::ToSchema;

use super::table::{Row, Table};

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ProcessThen)]
pub struct ProcessJson {
    /// Its key.
    pub key: String,
    /// Process id.
    pub pid: u32,
    /// Parent's pid; 0 for none.
    pub parent_pid: u32,
    /// Base name of the script that it runs, else of its executable, else the main thread's name.
    pub name: String,
    /// Base name of the executable that runs the script; empty where the name is the executable's.
    pub interpreter: String,
    /// The main thread's name.
    pub comm: String,
    /// Command line, only if the agent is set to send it.
    pub cmdline: String,
    /// cgroup path.
    pub cgroup: String,
    /// Container or unit name.
    pub container: String,
    /// Real user id.
    pub uid: u32,
    /// Name of that user on its host; empty if not known.
    pub user: String,
    /// Session on Windows: 0 is that of services; null on other systems.
    pub session: Option<u32>,
    /// Priority class on Windows; a base priority that belongs to no class, as a number; null on other systems.
    pub priority_class: Option<String>,
    /// Product name in the version resource of its executable on Windows; null: none, or another system.
    pub product: Option<String>,
    /// A kernel thread.
    pub is_kernel: bool,
}

/// A process over time.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ProcessLine {
    /// What it is.
    pub process: ProcessJson,
    /// What it did; one line.
    #[serde(flatten)]
    pub lines: Lines,
    /// What it was blocked by, the longest first; empty where waits were not measured (sums of a minute do not keep them).
    pub waits: Vec<WaitLine>,
}

/// A span of time as if it were one interval.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = Sum)]
pub struct SumJson {
    /// The range that was asked for.
    pub since_ns: Nanos,
    /// Its end.
    pub until_ns: Nanos,
    /// What was read: `interval`s, or sums of a `minute` or an `hour`, with single intervals at both ends where these are stored.
    pub resolution: &'static str,
    /// Measured time; rates divide by it.
    pub covered_ns: u64,
    /// Ledger and CPU modes, summed.
    pub summary: Row,
    /// A row a process or a name, most run time first.
    pub processes: Table,
    /// Threads of the processes that were asked for, a table each.
    pub threads: Vec<Table>,
}

/// Two spans side by side.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = Compare)]
pub struct CompareJson {
    /// Start and end of the first span, as asked for.
    pub before: [Nanos; 2],
    /// Of the second.
    pub after: [Nanos; 2],
    /// Measured time of the first span, ns; 0: it holds no data.
    pub before_covered_ns: u64,
    /// Of the second.
    pub after_covered_ns: u64,
    /// A row a group, the largest change first, with the columns of `cpumon export compare` (docs/export.md).
    pub rows: Table,
}
