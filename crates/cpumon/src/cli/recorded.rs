//! Arguments of the commands for recorded data: `export`, `ledger`, `import`, `sql`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use cpumon_collect::{SourceChoice, parse_interval, parse_probes};
use cpumon_export::{Kind, LegacyYear, PivotValue, QueryPart};
use cpumon_model::Probes;
use cpumon_query::GroupBy;

use super::export_parts::PARTS;
use super::{ExportFormat, ExportPicture, FormatArgs, PastArgs, RangeArgs, StoreArgs};
use crate::exit::Usage;
use crate::units::duration;
use crate::when::{self, Between};

/// `cpumon export`.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct ExportArgs {
    /// Draw a chart instead.
    #[command(subcommand)]
    pub picture: Option<ExportPicture>,
    /// What to write
    #[arg(value_name = "KIND", value_enum, required = true)]
    pub kind: Option<Kind>,
    /// The store or the receiver.
    #[command(flatten)]
    pub past: PastArgs,
    /// Write to this file, which appears only when it is complete [default: standard output, as with `-`]
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Output format [default: by the ending of --output: .csv, .jsonl, .json or .parquet; else csv]
    #[arg(long, value_enum)]
    pub format: Option<ExportFormat>,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Write the original receiver's layout of that year, without its faults (a missing quote, doubled and cut rows)
    #[arg(long, value_enum, value_name = "YEAR", conflicts_with_all = ["format", "json"])]
    pub legacy: Option<LegacyYear>,
    /// Only this host, by name or id
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// The range of time.
    #[command(flatten)]
    pub range: RangeArgs,
    /// For `compare`: first range, such as `yesterday 14:00..yesterday 15:00`
    #[arg(long, value_name = "TIME..TIME", allow_hyphen_values = true, value_parser = when::between)]
    pub before: Option<Between>,
    /// For `compare`: second range
    #[arg(long, value_name = "TIME..TIME", allow_hyphen_values = true, value_parser = when::between)]
    pub after: Option<Between>,
    /// Only processes of this name, or this process id
    #[arg(long, value_name = "NAME|PID")]
    pub process: Option<String>,
    /// For `threads`: leave out threads that only waited: no run time, no run delay and no context switch in the interval
    #[arg(long)]
    pub active: bool,
    /// Sum up over this time instead of writing each interval: 10s, 1m, 1h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub interval: Option<Duration>,
    /// Columns of a pivot, or rows of a comparison [default: name]
    #[arg(long, value_enum)]
    pub by: Option<GroupBy>,
    /// Values of a pivot [default: user]
    #[arg(long, value_enum)]
    pub value: Option<PivotValue>,
}

const LEDGER_URL: &str = "Ask the receiver at this address instead of reading a store [default with --live and --host: http://127.0.0.1:3080]";

/// `cpumon ledger`.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("url", |url| url.help(LEDGER_URL)))]
pub struct LedgerArgs {
    /// The store or the receiver.
    #[command(flatten)]
    pub past: PastArgs,
    /// Measure for this time instead of reading a store: 10s, 1m. With --host: receive the intervals of a live host of a receiver
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["store", "since", "until"])]
    pub live: Option<Duration>,
    /// Only this host, by name or id
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// The range of time.
    #[command(flatten)]
    pub range: RangeArgs,
    /// Number of intervals to show with the largest unattributed share, worst first
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub worst: usize,
    /// Output format.
    #[command(flatten)]
    pub format: FormatArgs,
    /// With --live: time between two snapshots, 100ms to 1h
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    pub interval: Duration,
    /// With --live: what to measure with: auto, procfs or bpf
    #[arg(long, value_name = "SOURCE", default_value_t = SourceChoice::Auto)]
    pub source: SourceChoice,
    /// With --live: BPF probes, separated by commas: sched (context switches), waits, irq (interrupts), hist, or none (some lines are then sampled at the clock tick)
    #[arg(long, value_name = "LIST", default_value = "sched,irq", value_parser = parse_probes)]
    pub probes: Probes,
}

impl ExportArgs {
    /// The wanted format: the given one, else that of the file's ending, else CSV.
    pub fn wanted_format(&self) -> Result<ExportFormat, Usage> {
        if self.json {
            return Ok(ExportFormat::Json);
        }
        if let Some(format) = self.format {
            return Ok(format);
        }
        match self.output.as_deref().and_then(|path| Some((path, path.extension()?))) {
            Some((path, ending)) if self.legacy.is_none() => ExportFormat::of_file(path).ok_or_else(|| {
                Usage(format!(
                    "--output: the ending .{} names no format of an export; write .csv, .jsonl, .json or .parquet, or give --format",
                    ending.display()
                ))
            }),
            _ => Ok(ExportFormat::Csv),
        }
    }

    /// Refuses options that have no effect on what is exported.
    pub fn check_parts(&self, kind: Kind) -> Result<(), Usage> {
        for (name, part) in PARTS.iter().filter(|(_, part)| self.has(*part)) {
            if !part.kinds().contains(&kind) {
                let kinds: Vec<String> =
                    part.kinds().iter().map(|kind| format!("`export {}`", kind.name())).collect();
                let kinds = kinds.join(" and ");
                return Err(Usage(format!(
                    "--{name} has no effect on `export {}`; it is for {kinds}",
                    kind.name()
                )));
            }
            if self.legacy.is_some() && !part.is_in_legacy() {
                return Err(Usage(format!(
                    "--{name} has no effect with --legacy: the original's pivot has user time by process name, and its threads are those with CPU time"
                )));
            }
        }
        Ok(())
    }

    fn has(&self, part: QueryPart) -> bool {
        match part {
            QueryPart::GroupBy => self.by.is_some(),
            QueryPart::PivotValue => self.value.is_some(),
            QueryPart::Process => self.process.is_some(),
            QueryPart::Interval => self.interval.is_some(),
            QueryPart::Active => self.active,
        }
    }
}

/// `cpumon import`.
#[derive(Clone, Debug, Args)]
pub struct ImportArgs {
    /// Directory of a recording, or a database such as ProcessUsage.sqlite; it is only read. Importing twice changes nothing
    #[arg(value_name = "DIR|FILE")]
    pub file: PathBuf,
    /// Import into this store [default: /var/lib/cpumon/cpumon.db as root, else ~/.local/state/cpumon/cpumon.db]
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// For databases only: name of the device [default: its address; in a database of 2012, the file's name, or `device` for ProcessUsage.sqlite]
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// For databases only: time zone of its times, such as Europe/Berlin or +02:00 [default: UTC]
    #[arg(long, value_name = "TZ")]
    pub time_zone: Option<String>,
}

/// `cpumon sql`.
#[derive(Clone, Debug, Args)]
pub struct SqlArgs {
    /// SQL statement, in quotes
    #[arg(value_name = "QUERY")]
    pub query: String,
    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Output format.
    #[command(flatten)]
    pub format: FormatArgs,
}
