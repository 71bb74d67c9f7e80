//! Commands for what was recorded: `export` (its charts stand in `charts`), `ledger`, `import`, `sql`.
//! In: nothing. Out: what the user may say of them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use cpumon_collect::{SourceChoice, parse_interval, parse_probes};
use cpumon_model::Probes;

use super::{AccessArgs, ExportPicture, HTTP_URL, RangeArgs, StoreArgs};
use crate::units::duration;
use crate::when::{self, Between};

/// `cpumon export`.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct ExportArgs {
    /// A picture instead of a table
    #[command(subcommand)]
    pub picture: Option<ExportPicture>,
    /// What to write
    #[arg(value_name = "KIND", value_enum, required = true)]
    pub kind: Option<ExportKind>,
    /// Which store
    #[command(flatten)]
    pub store: StoreArgs,
    /// Write to this file instead of standard output; it appears under its name only when it is complete
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// CSV (RFC 4180) or one JSON object a line
    #[arg(long, value_enum, default_value_t = ExportForm::Csv)]
    pub format: ExportForm,
    /// The layout of the original receiver instead, byte for byte
    #[arg(long, value_enum, value_name = "YEAR", conflicts_with = "format")]
    pub legacy: Option<LegacyYear>,
    /// Only this host, by name or id
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Which range
    #[command(flatten)]
    pub range: RangeArgs,
    /// Of a comparison: its first span, `yesterday 14:00..yesterday 15:00`
    #[arg(long, value_name = "TIME..TIME", value_parser = when::between)]
    pub before: Option<Between>,
    /// Of a comparison: its second span
    #[arg(long, value_name = "TIME..TIME", value_parser = when::between)]
    pub after: Option<Between>,
    /// Only processes of this name, or this process id
    #[arg(long, value_name = "NAME|PID")]
    pub process: Option<String>,
    /// Sum up over this long instead of each interval: 10s, 1m, 1h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub interval: Option<Duration>,
    /// A pivot's columns, or a comparison's rows
    #[arg(long, value_enum, default_value_t = GroupBy::Name)]
    pub by: GroupBy,
    /// A pivot's values
    #[arg(long, value_enum, default_value_t = PivotValue::User)]
    pub value: PivotValue,
}

/// `cpumon ledger`.
#[derive(Clone, Debug, Args)]
pub struct LedgerArgs {
    /// Which store
    #[command(flatten)]
    pub store: StoreArgs,
    /// Take the intervals of so long from now on instead of reading a store: measured here, or with --host those of a live host of a receiver: 10s, 1m
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["store", "since", "until"])]
    pub live: Option<Duration>,
    /// Only this host, by name or id
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// With --live and --host: the receiver's address
    #[arg(long, value_name = "URL", default_value = HTTP_URL)]
    pub url: String,
    /// How to get in
    #[command(flatten)]
    pub access: AccessArgs,
    /// Which range
    #[command(flatten)]
    pub range: RangeArgs,
    /// Show so many of the intervals in which the largest share has no owner, the worst first
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub worst: usize,
    /// A table, CSV (RFC 4180) or one JSON object a line
    #[arg(long, value_enum, default_value_t = LedgerForm::Table)]
    pub format: LedgerForm,
    /// With --live: time between two snapshots, 100ms to 1h
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    pub interval: Duration,
    /// With --live: what to measure with: auto, procfs or bpf
    #[arg(long, value_name = "SOURCE", default_value_t = SourceChoice::Auto)]
    pub source: SourceChoice,
    /// With --live: what BPF watches: sched (switches), waits, irq (interrupts), hist, or none, which leaves lines of the books to the clock tick
    #[arg(long, value_name = "LIST", default_value = "sched,irq", value_parser = parse_probes)]
    pub probes: Probes,
}

/// Forms of `cpumon ledger`.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub enum LedgerForm {
    /// For people: sums, each CPU, the worst intervals, and how each line is known
    Table,
    /// RFC 4180
    Csv,
    /// One JSON object a line
    Jsonl,
}

/// Kinds of export.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportKind {
    /// A row for each process and interval
    Processes,
    /// A row for each thread and interval
    Threads,
    /// A row for each moment, a column for each process
    Pivot,
    /// A row for each interval: where the whole machine's CPU time went
    Ledger,
    /// Two spans side by side, a row for each name: what grew (--before, --after)
    Compare,
}

/// Forms of export.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportForm {
    /// RFC 4180, UTF-8; text that a spreadsheet would run as a formula is defused
    Csv,
    /// One JSON object a line
    Jsonl,
}

/// Layouts of the original receiver.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub enum LegacyYear {
    /// One device
    #[value(name = "2012")]
    Y2012,
    /// With the device's address
    #[value(name = "2013")]
    Y2013,
}

/// What a column of a pivot, or a row of a comparison, stands for.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub enum GroupBy {
    /// All processes of a name
    Name,
    /// One process, pid and start time
    Process,
    /// As name, kernel threads of one family together (kworker/0:1 is kworker)
    Program,
    /// Real user id
    User,
    /// Container or systemd unit
    Container,
}

/// What stands in a pivot.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub enum PivotValue {
    /// User time
    User,
    /// System time
    System,
    /// Run time
    Run,
    /// Run time in percent of one CPU
    Pct,
}

/// `cpumon import`.
#[derive(Clone, Debug, Args)]
pub struct ImportArgs {
    /// The log's directory, or the database, e.g. ProcessUsage.sqlite; it is only read. Twice is as good as once
    #[arg(value_name = "DIR|FILE")]
    pub file: PathBuf,
    /// Import into this file [default: the state directory]
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// Of a database: name of the device that recorded it [default: its address; for a 2012 database, which has none, the
    /// file's name without its ending]
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Of a database: time zone of its times, e.g. Europe/Berlin or +02:00 [default: UTC]
    #[arg(long, value_name = "TZ")]
    pub time_zone: Option<String>,
}

/// `cpumon sql`.
#[derive(Clone, Debug, Args)]
pub struct SqlArgs {
    /// The question, in quotes
    #[arg(value_name = "QUERY")]
    pub query: String,
    /// Which store
    #[command(flatten)]
    pub store: StoreArgs,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = SqlForm::Table)]
    pub format: SqlForm,
}

/// Forms of an SQL answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub enum SqlForm {
    /// Aligned columns
    Table,
    /// RFC 4180
    Csv,
    /// One JSON object a line
    Jsonl,
}
