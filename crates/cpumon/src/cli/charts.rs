//! Arguments of `cpumon export chart`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use cpumon_export::chart::{MAX_PIXELS, MIN_PIXELS, Theme, Zone};
use cpumon_query::GroupBy;
use cpumon_query::charts::{Cells, Order, Percent, View};
use cpumon_query::report::ReportBy;

use super::{RangeArgs, StoreArgs, within};
use crate::units::whole_number;

/// The subcommand of `cpumon export`.
#[derive(Clone, Debug, Subcommand)]
pub enum ExportPicture {
    /// Draw a chart as SVG or PNG, the same file that the web page saves
    Chart(Box<ChartArgs>),
}

const SINCE: &str = "Start of the range: `1h` or `-1h` (an hour ago), `yesterday 14:05`, `2026-11-20T14:05Z` [default: an hour before --until]";
const UNTIL: &str = "End of the range, in the same forms [default: the end of the stored data]";

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
    /// For `who`: only rows whose name or container contains this text, in upper or lower case, or with this user id or pid; everything else is in `others`
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
