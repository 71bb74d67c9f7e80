//! Commands that look at what is now: `top`, `hosts`, `status`, `doctor`, `accuracy`.
//! In: nothing. Out: what the user may say of them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use cpumon_collect::parse_interval;
use cpumon_web::HostOrder;

use super::{AccessArgs, ExportForm, HTTP_URL, HostsCommand, LookArgs};
use crate::when::When;

/// Reads a process id.
fn pid(text: &str) -> Result<u32, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is not a process id; `cpumon top -b` shows them"))
}

/// `cpumon top`.
#[derive(Clone, Debug, Args)]
pub struct TopArgs {
    /// Show this host of a receiver (or, with --at, of a store) instead of this machine
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// The receiver's address [default with --host: the one on this machine]
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// How to get in
    #[command(flatten)]
    pub access: AccessArgs,
    /// Read recorded data from this file [default with --at: the state directory]
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// Show this moment of the store, or of the log with --replay: `yesterday 14:05`, `3m ago`, `2026-11-20 14:05`
    #[arg(long, value_name = "TIME")]
    pub at: Option<When>,
    /// Play a log (`cpumon-agent --record DIR`) like a tape: Space plays and stops, `[` and `]` step, + and - change the speed
    #[arg(long, value_name = "DIR", conflicts_with_all = ["host", "url", "store"])]
    pub replay: Option<PathBuf>,
    /// Print plain text instead of a screen
    #[arg(short = 'b', long)]
    pub batch: bool,
    /// Stop after this many intervals
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub iterations: Option<u64>,
    /// Time between two screens, 100ms to 1h; a bare number is seconds
    #[arg(short = 'd', long, value_name = "TIME", value_parser = parse_interval)]
    pub delay: Option<Duration>,
    /// Only these process ids, separated by commas
    #[arg(short = 'p', long, value_name = "PID", value_delimiter = ',', value_parser = pid)]
    pub pid: Vec<u32>,
    /// A row for each thread
    #[arg(short = 'H', long)]
    pub threads: bool,
    /// Form of the batch output
    #[arg(short = 'o', long, value_name = "FORM", value_enum, default_value_t = BatchForm::Text)]
    pub output: BatchForm,
    /// What looks, and at what
    #[command(flatten)]
    pub look: LookArgs,
}

/// Form of `top -b`.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub enum BatchForm {
    /// Aligned columns
    Text,
    /// One JSON document a line, one line an interval
    Json,
}

/// `cpumon hosts`.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct HostsArgs {
    /// What else
    #[command(subcommand)]
    pub command: Option<HostsCommand>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The receiver's address
    #[arg(long, value_name = "URL", default_value = HTTP_URL)]
    pub url: String,
    /// How to get in
    #[command(flatten)]
    pub access: AccessArgs,
    /// List the hosts of this store instead of a receiver's
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// Print a file: of a receiver's hosts with what the page's table shows
    #[arg(long, value_enum, conflicts_with = "json")]
    pub format: Option<ExportForm>,
    /// With --format: only hosts of whose name, id, address, agent, busiest process, trust or state each of these words is a part
    #[arg(long, value_name = "WORDS", requires = "format", conflicts_with = "store")]
    pub search: Option<String>,
    /// With --format: in this order
    #[arg(long, value_enum, requires = "format", conflicts_with = "store")]
    pub sort: Option<HostOrder>,
    /// With --format: the other way round
    #[arg(long, requires = "format", conflicts_with = "store")]
    pub reverse: bool,
    /// With --format: in place of the hosts the 20 busiest processes of each that reports, the busiest of all first
    #[arg(long, requires = "format", conflicts_with_all = ["store", "sort", "reverse"])]
    pub busiest: bool,
}

/// `cpumon status`.
#[derive(Clone, Debug, Args)]
pub struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The receiver's address
    #[arg(long, value_name = "URL", default_value = HTTP_URL)]
    pub url: String,
    /// How to get in
    #[command(flatten)]
    pub access: AccessArgs,
}

/// `cpumon doctor`.
#[derive(Clone, Debug, Args)]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Only read files; do not load the probes to see whether they do
    #[arg(long)]
    pub no_load: bool,
    /// Where procfs is mounted, for containers that see the host's elsewhere
    #[arg(long, value_name = "DIR", default_value = "/proc")]
    pub proc_root: PathBuf,
    /// Where sysfs is mounted
    #[arg(long, value_name = "DIR", default_value = "/sys")]
    pub sys_root: PathBuf,
}

/// `cpumon accuracy`.
#[derive(Clone, Debug, Args)]
pub struct AccuracyArgs {
    /// Length of the comparison
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub seconds: u32,
    /// Only these process ids, separated by commas
    #[arg(short = 'p', long, value_name = "PID", value_delimiter = ',', value_parser = pid)]
    pub pid: Vec<u32>,
    /// Only threads of this name
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Every thread, not just those with the largest errors
    #[arg(long)]
    pub all: bool,
    /// Form of the answer; CSV and JSON have every thread
    #[arg(long, value_enum, default_value_t = AccuracyForm::Text)]
    pub format: AccuracyForm,
}

/// Forms of a comparison.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub enum AccuracyForm {
    /// Aligned columns and a summary in words
    Text,
    /// RFC 4180
    Csv,
    /// One JSON document
    Json,
}
