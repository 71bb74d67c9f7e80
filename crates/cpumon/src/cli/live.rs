//! Arguments of the commands about the present: `top`, `hosts`, `status`, `doctor`, `accuracy`, `discover`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use cpumon_agent::DiscoverArgs;
use cpumon_collect::parse_interval;
use cpumon_query::GroupBy;
use cpumon_query::fleet::HostOrder;
use cpumon_tui::{BatchFormat, GROUPINGS, PLOT_MINUTES, PlotOption, SortColumn};

use super::{
    AccessArgs, FormatArgs, HTTP_URL, HostsCommand, OutputFormat, SourceArgs, Word, file_of, one_of,
};
use crate::units::{count, duration};
use crate::when::When;

fn pid(text: &str) -> Result<u32, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is not a process id; `cpumon top -b` shows them"))
}

fn group_by() -> impl TypedValueParser<Value = GroupBy> {
    PossibleValuesParser::new(GROUPINGS.map(GroupBy::name))
        .map(|name| GROUPINGS.into_iter().find(|by| by.name() == name).unwrap_or_default())
}

fn plot() -> impl TypedValueParser<Value = PlotOption> {
    let mut minutes = PLOT_MINUTES;
    minutes.sort_unstable();
    let minutes = minutes.map(|minutes| minutes.to_string());
    PossibleValuesParser::new(std::iter::once("off".to_owned()).chain(minutes))
        .map(|text| text.parse().map_or(PlotOption::Off, PlotOption::Minutes))
}

/// `cpumon top`.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct TopArgs {
    /// Show this host of a receiver (with --at: of a store) instead of this machine
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// The receiver's address [default with --host: `http://127.0.0.1:3080`]
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Login token and certificate.
    #[command(flatten)]
    pub access: AccessArgs,
    /// Show recorded data from this file [default with --at: /var/lib/cpumon/cpumon.db as root, else ~/.local/state/cpumon/cpumon.db]
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// Show this moment of the store, or of the recording with --replay: `1h`, `-1h` and `1h ago` are an hour ago; also `14:05`, `yesterday 14:05`, `2026-11-20T14:05Z`
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub at: Option<When>,
    /// Replay a recording of `cpumon-agent --record DIR`: Space plays and pauses, `[` and `]` step, + and - change the speed
    #[arg(long, value_name = "DIR", conflicts_with_all = ["host", "url", "store"])]
    pub replay: Option<PathBuf>,
    /// Print plain text instead of a screen
    #[arg(short = 'b', long)]
    pub batch: bool,
    /// Stop after this many intervals
    #[arg(short = 'n', long, value_name = "N", value_parser = count)]
    pub iterations: Option<u64>,
    /// Time between two screens, 100ms to 1h; a plain number is in seconds
    #[arg(short = 'd', long, alias = "delay", value_name = "TIME", value_parser = parse_interval)]
    pub interval: Option<Duration>,
    /// Only these process ids, separated by commas
    #[arg(short = 'p', long, value_name = "PID", value_delimiter = ',', value_parser = pid)]
    pub pid: Vec<u32>,
    /// Show a row for each thread
    #[arg(short = 'H', long)]
    pub threads: bool,
    /// Leave the mouse to the terminal: its selection of text then works without Shift
    #[arg(long)]
    pub no_mouse: bool,
    /// Sort by this column, such as cpu, ready, blocked, wait, pid or name; an unknown name lists all of them
    #[arg(long, value_name = "COLUMN")]
    pub sort: Option<SortColumn>,
    /// Show processes under what they have in common
    #[arg(long, value_name = "WHAT", value_parser = group_by(), conflicts_with = "batch")]
    pub group_by: Option<GroupBy>,
    /// Show processes under their parents
    #[arg(long, conflicts_with_all = ["batch", "group_by"])]
    pub tree: bool,
    /// Minutes of the plot, which is shown where there is space for it; off: not until `d` is pressed [default: 5]
    #[arg(long, value_name = "MINUTES", value_parser = plot(), conflicts_with = "batch")]
    pub plot: Option<PlotOption>,
    /// Show at most this many rows
    #[arg(long, value_name = "N", value_parser = count)]
    pub limit: Option<u64>,
    /// Leave out rows that did nothing
    #[arg(long)]
    pub active: bool,
    /// Only processes of this user, by name or id
    #[arg(short = 'u', long, value_name = "NAME")]
    pub user: Option<String>,
    /// Only rows whose name, command line, container or id contains this text
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// With --batch: write to this file [default: standard output, as with `-`]
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// With --batch: output format [default: json if the name of --output ends in .json or .jsonl, else text]
    #[arg(long, value_parser = one_of(&BATCH))]
    pub format: Option<BatchFormat>,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Source and probes.
    #[command(flatten)]
    pub source: SourceArgs,
}

/// Formats of `top -b`, and words of other commands for them.
static BATCH: [Word<BatchFormat>; 4] = [
    Word("text", "Aligned columns", BatchFormat::Text),
    Word("json", "One JSON object per line, one line per interval", BatchFormat::Json),
    Word("table", "", BatchFormat::Text),
    Word("jsonl", "", BatchFormat::Json),
];

impl TopArgs {
    /// Format and file of the batch output. `-o text` and `-o json` were formats until version 0.1 and still are.
    pub fn batch_output(&self) -> (BatchFormat, Option<&Path>) {
        let format = if self.json { Some(BatchFormat::Json) } else { self.format };
        match file_of(self.output.as_deref()).map(|path| (path.to_str(), path)) {
            Some((Some("text"), _)) => (format.unwrap_or(BatchFormat::Text), None),
            Some((Some("json"), _)) => (format.unwrap_or(BatchFormat::Json), None),
            other => {
                let path = other.map(|(_, path)| path);
                let of_file = path.and_then(OutputFormat::of_file);
                let is_json = matches!(of_file, Some(OutputFormat::Json | OutputFormat::Jsonl));
                (format.unwrap_or(if is_json { BatchFormat::Json } else { BatchFormat::Text }), path)
            }
        }
    }
}

/// `cpumon hosts`.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct HostsArgs {
    /// Manage enrolled and waiting devices.
    #[command(subcommand)]
    pub command: Option<HostsCommand>,
    /// The receiver's address
    #[arg(long, value_name = "URL", default_value = HTTP_URL, conflicts_with = "store")]
    pub url: String,
    /// Login token and certificate.
    #[command(flatten)]
    pub access: AccessArgs,
    /// List the hosts of this store instead of a receiver's
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// List what the receiver has stored: the hosts with their first and last data, as --store does
    #[arg(long, conflicts_with_all = ["store", "search", "sort", "reverse", "busiest"])]
    pub stored: bool,
    /// Output format.
    #[command(flatten)]
    pub format: FormatArgs,
    /// Only hosts whose name, id, address, agent, busiest process, trust or state contains all of these words
    #[arg(long, value_name = "WORDS", conflicts_with = "store")]
    pub search: Option<String>,
    /// Order of the hosts
    #[arg(long, value_enum, conflicts_with = "store")]
    pub sort: Option<HostOrder>,
    /// Reverse the order
    #[arg(long, conflicts_with = "store")]
    pub reverse: bool,
    /// List the 20 busiest processes of each host instead of the hosts, busiest first
    #[arg(long, conflicts_with_all = ["store", "sort", "reverse"])]
    pub busiest: bool,
}

impl HostsArgs {
    /// Whether the list of the page's table is wanted, which the receiver filters and sorts.
    pub fn wants_fleet(&self) -> bool {
        self.search.is_some() || self.sort.is_some() || self.reverse || self.busiest
    }
}

/// `cpumon status`.
#[derive(Clone, Debug, Args)]
pub struct StatusArgs {
    /// Output format.
    #[command(flatten)]
    pub format: FormatArgs,
    /// The receiver's address
    #[arg(long, value_name = "URL", default_value = HTTP_URL)]
    pub url: String,
    /// Login token and certificate.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// `cpumon doctor`.
#[derive(Clone, Debug, Args)]
pub struct DoctorArgs {
    /// Output format.
    #[command(flatten)]
    pub format: FormatArgs,
    /// Show every check: what was found, what it gives, how to get it
    #[arg(short, long)]
    pub verbose: bool,
    /// Only read files; do not try to load the probes
    #[arg(long)]
    pub no_load: bool,
    /// Directory where procfs is mounted, for containers that see the host's procfs elsewhere
    #[arg(long, value_name = "DIR", default_value = "/proc")]
    pub proc_root: PathBuf,
    /// Directory where sysfs is mounted
    #[arg(long, value_name = "DIR", default_value = "/sys")]
    pub sys_root: PathBuf,
}

/// `cpumon accuracy`.
#[derive(Clone, Debug, Args)]
pub struct AccuracyArgs {
    /// Length of the comparison, 1s to 1h; a plain number is in seconds
    #[arg(long, alias = "seconds", value_name = "TIME", default_value = "10s", value_parser = comparison_length)]
    pub duration: Duration,
    /// Only these process ids, separated by commas
    #[arg(short = 'p', long, value_name = "PID", value_delimiter = ',', value_parser = pid)]
    pub pid: Vec<u32>,
    /// Only threads of this name
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Show every thread, not only those with the largest errors
    #[arg(long)]
    pub all: bool,
    /// Output format; all but the table have every thread.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// Parses a duration from a second to an hour.
fn comparison_length(text: &str) -> Result<Duration, String> {
    let length = duration(text)?;
    let limits = Duration::from_secs(1)..=Duration::from_hours(1);
    if limits.contains(&length) { Ok(length) } else { Err("a comparison takes 1s to 1h".to_owned()) }
}

/// `cpumon discover`: the agent's arguments, and the output format.
#[derive(Clone, Debug, Args)]
pub struct DiscoverCommandArgs {
    /// Interfaces and waiting time.
    #[command(flatten)]
    pub discovery: DiscoverArgs,
    /// Output format.
    #[command(flatten)]
    pub format: FormatArgs,
}
