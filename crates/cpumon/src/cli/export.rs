//! Arguments of `cpumon export` and `cpumon export chart`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use cpumon_export::chart::{MAX_PIXELS, MIN_PIXELS, Theme, Zone};
use cpumon_export::{Kind, LegacyYear, PivotValue, QueryPart};
use cpumon_query::GroupBy;
use cpumon_query::charts::{Cells, Order, Percent, View};
use cpumon_query::report::ReportBy;
use cpumon_query::time::TimeRange;

use super::format::ROWS;
use super::stored::{SINCE, UNTIL};
use super::variables::PARTS;
use super::{OutputFormat, PastArgs, RangeArgs, StoreArgs, one_of, within};
use crate::exit::Usage;
use crate::units::{duration, whole_number};
use crate::when;

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
    #[arg(long, value_parser = one_of(&ROWS))]
    pub format: Option<OutputFormat>,
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
    pub before: Option<TimeRange>,
    /// For `compare`: second range
    #[arg(long, value_name = "TIME..TIME", allow_hyphen_values = true, value_parser = when::between)]
    pub after: Option<TimeRange>,
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

impl ExportArgs {
    /// The wanted format: the given one, else that of the file's ending, else CSV.
    pub fn wanted_format(&self) -> Result<OutputFormat, Usage> {
        if self.json {
            return Ok(OutputFormat::Json);
        }
        if let Some(format) = self.format {
            return Ok(format);
        }
        match self.output.as_deref().and_then(|path| Some((path, path.extension()?))) {
            Some((path, ending)) if self.legacy.is_none() => OutputFormat::of_file(path).ok_or_else(|| {
                Usage(format!(
                    "--output: the ending .{} names no format of an export; write .csv, .jsonl, .json or .parquet, or give --format",
                    ending.display()
                ))
            }),
            _ => Ok(OutputFormat::Csv),
        }
    }

    /// Refuses options that have no effect on this kind of export.
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

/// The subcommand of `cpumon export`.
#[derive(Clone, Debug, Subcommand)]
pub enum ExportPicture {
    /// Draw a chart as SVG or PNG, the same file that the web page saves
    Chart(Box<ChartArgs>),
}

/// `cpumon export chart`.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("since", |since| since.help(SINCE)), mut_arg("until", |until| until.help(UNTIL)))]
pub struct ChartArgs {
    /// View to draw
    #[arg(value_name = "VIEW", value_enum)]
    pub view: View,
    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Write to this file, FILE.svg or FILE.png; it appears only when it is complete [default: SVG to standard output, as with `-`]
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Host, by name or id; not needed if the store holds only one. For `fleet`: several hosts; may be repeated [default: all]
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,
    /// The range of time.
    #[command(flatten)]
    pub range: RangeArgs,
    /// Process, by name, pid, or key PID-STARTNS; for `tasks` up to 32 processes; may be repeated
    #[arg(long, value_name = "NAME|PID|KEY")]
    pub process: Vec<String>,
    /// For `tasks`: thread, by key TID-STARTNS, or faster PID-STARTNS/TID-STARTNS with the key of its process; may be repeated
    #[arg(long, value_name = "KEY")]
    pub thread: Vec<String>,
    /// For `landscape` and `who`: what to group by; `landscape` takes neither thread nor host [default: name; for `who` program]
    #[arg(long, value_enum)]
    pub by: Option<ReportBy>,
    /// For `who`: only rows whose name or container contains this text, in upper or lower case, or with this user id or pid; everything else is in `others`. For `landscape`: only rows whose name contains each of these words
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// For `who`: only processes of one group, such as user:0 or service:cron.service
    #[arg(long, value_name = "BY:NAME", value_parser = within)]
    pub within: Option<(GroupBy, String)>,
    /// For `landscape` and `threads`: value of a cell, which also orders the rows
    #[arg(long, value_enum, default_value_t = Cells::Mean)]
    pub cells: Cells,
    /// Rows of a heatmap or hosts of `fleet`, 1 to 200 [default: 60, for threads 200]
    #[arg(long, value_name = "N")]
    pub rows: Option<usize>,
    /// For `fleet`: skip this many hosts
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub offset: usize,
    /// For `fleet`: order of the hosts [default: the order of --host, else by name]
    #[arg(long, value_enum)]
    pub sort: Option<Order>,
    /// For `fleet`: reverse the order; hosts without data stay last
    #[arg(long)]
    pub reverse: bool,
    /// For `states`: draw blocked time too
    #[arg(long)]
    pub blocked: bool,
    /// Read single intervals instead of sums of a minute, which have no CPU modes; at most 48 hours
    #[arg(long)]
    pub finest: bool,
    /// Scale: 100 % = one CPU or the whole host
    #[arg(long, value_enum, default_value_t = Percent::Cpu)]
    pub percent: Percent,
    /// Width in pixels, 320 to 2400; a PNG has twice as many [default: 1200]
    #[arg(long, value_name = "PIXELS", value_parser = whole_number::<u32>(MIN_PIXELS.into()..=MAX_PIXELS.into()))]
    pub width: Option<u32>,
    /// Height in pixels, 320 to 2400 [default: depends on the view]
    #[arg(long, value_name = "PIXELS", value_parser = whole_number::<u32>(MIN_PIXELS.into()..=MAX_PIXELS.into()))]
    pub height: Option<u32>,
    /// Colour theme
    #[arg(long, value_enum, default_value_t = Theme::Light)]
    pub theme: Theme,
    /// Time zone of the axis: utc, local, a name such as Europe/Berlin, or an offset such as +05:30
    #[arg(long, value_name = "ZONE", default_value = "utc")]
    pub zone: Zone,
}
